"""Writing a file whole or not at all, unpacking one that is gzipped, and what a reader passed over."""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
import zlib
from collections.abc import Mapping
from os import PathLike, fspath
from pathlib import Path

__all__ = ["log_skipped_rows", "unpacked", "write_whole"]


def unpacked(raw: bytes, most: int) -> bytes:
    """Return the content of a file, unpacked if it is gzipped.

    Raises
    ------
    ValueError
        If it is damaged, or unpacks to more than `most` bytes.
    """
    if raw[:2] != b"\x1f\x8b":
        return raw
    unpacker = zlib.decompressobj(wbits=31)
    try:
        content = unpacker.decompress(raw, most)
    except zlib.error as error:
        raise ValueError(f"the packed file is damaged: {error}") from None
    if unpacker.unconsumed_tail or not unpacker.eof:
        raise ValueError(f"the packed file is cut off, or unpacks to more than {most:,} bytes")
    return content


def write_whole(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file so that a reader sees the old content or all of the new one, even after a crash.

    A temporary file in the same folder is written, flushed to disk and renamed; it is removed on failure.
    A device or pipe is written to directly, a link is followed.

    Raises
    ------
    OSError
        If the folder is missing or not writable, or the disk is full; the message names `path`.
    """
    target = Path(os.path.realpath(path))
    temporary: str | None = None
    try:
        if target.exists() and not target.is_file() and not target.is_dir():
            target.write_bytes(data)
            return
        if target.is_dir():
            raise IsADirectoryError(None, "is a folder")
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name[:100]}.", dir=target.parent)
        with open(handle, "wb") as file:  # noqa: PTH123 - takes over the handle
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(_mode(target))
        os.replace(temporary, target)  # noqa: PTH105
        temporary = None
    except OSError as error:
        raise type(error)(
            error.errno, f"cannot write {os.fspath(path)}: {error.strerror or error}"
        ) from error
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):
                Path(temporary).unlink()


def _mode(target: Path) -> int:
    """Return the permissions of the file that is replaced, or those a new file would get."""
    if target.exists():
        return target.stat().st_mode & 0o7777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def log_skipped_rows(path: str | PathLike[str], rows: int, reasons: Mapping[str, int]) -> None:
    """Log ``FILE: 3 of 40 rows skipped: 2 not ended yet, 1 of no node`` as a warning; nothing for none.

    Parameters
    ----------
    path
        The file.
    rows
        How many rows it has.
    reasons
        How many were passed over, by why.
    """
    counted = [f"{count} {reason}" for reason, count in reasons.items() if count]
    if counted:
        skipped = sum(reasons.values())
        logging.getLogger("apportion").warning(
            "%s: %d of %d rows skipped: %s", fspath(path), skipped, rows, ", ".join(counted)
        )
