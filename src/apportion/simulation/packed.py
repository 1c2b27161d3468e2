"""The bytes of a file that may be gzipped, unpacked up to a limit."""

from __future__ import annotations

import zlib
from pathlib import Path

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
    raw = path.read_bytes()
    if raw[:2] != b"\x1f\x8b":
        return raw
    unpacker = zlib.decompressobj(wbits=31)
    try:
        unpacked = unpacker.decompress(raw, most)
    except zlib.error as error:
        raise ValueError(f"the packed file is damaged: {error}") from None
    if unpacker.unconsumed_tail or not unpacker.eof:
        raise ValueError(f"the packed file is cut off, or unpacks to more than {most:,} bytes")
    return unpacked
