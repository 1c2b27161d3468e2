"""The bytes of a file that may be gzipped, unpacked up to a limit."""

from __future__ import annotations

from pathlib import Path

from apportion.files import unpacked

__all__ = ["LARGEST", "content"]

LARGEST = 2**33
"""Bytes that a packed file may unpack to: a month of Summit's nodes at ten seconds takes 1.2 GB."""


def content(path: Path, most: int = LARGEST) -> bytes:
    """Return the content of a file, unpacked if it is gzipped.

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        If a gzipped file is damaged, or unpacks to more than `most` bytes.
    """
    return unpacked(path.read_bytes(), most)
