"""Files: written whole or not at all, unpacked where gzipped, read as columns of a CSV of numbers.

What a reader passed over is counted; whatever is wrong with a CSV is one clear error.
"""

from __future__ import annotations

import contextlib
import csv
import io
import logging
import math
import os
import tempfile
import zlib
from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING

from apportion.core.errors import InvalidInstance, Problem, reason

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "log_skipped_rows",
    "number_columns",
    "optional_columns",
    "text_columns",
    "unpacked",
    "write_whole",
]


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


_SHOWN = 20


def text_columns(path: Path, columns: Sequence[str]) -> list[tuple[int, tuple[str, ...]]]:
    """Return the named columns of every row as text, with the row's line number.

    Raises
    ------
    InvalidInstance
        If the file cannot be read, a column is missing, a row is short or long, or there is no row.
    """
    try:
        lines = csv.reader(io.StringIO(path.read_bytes().decode("utf-8-sig"), newline=""))
        rows = [(lines.line_num, row) for row in lines if row]
    except (OSError, ValueError, csv.Error) as error:
        raise InvalidInstance(Problem(str(path), f"cannot be read: {reason(error)}")) from error
    header = [name.strip() for name in rows[0][1]] if rows else []
    missing = [name for name in columns if name not in header]
    if missing:
        raise InvalidInstance(Problem(f"{path}, line 1", f"the header lacks {', '.join(missing)}"))
    wrong = [(line, len(row)) for line, row in rows[1:] if len(row) != len(header)]
    if wrong:
        line, fields = wrong[0]
        raise InvalidInstance(
            Problem(f"{path}, line {line}", f"has {fields} fields, the header {len(header)}")
        )
    if len(rows) == 1:
        raise InvalidInstance(Problem(str(path), "has a header and no row"))
    at = [header.index(name) for name in columns]
    return [(line, tuple(row[index].strip() for index in at)) for line, row in rows[1:]]


def number_columns(path: Path, columns: Sequence[str]) -> NDArray[np.float64]:
    """Return float64 [rows, columns]: the named columns, every one finite and at least 0.

    Raises
    ------
    InvalidInstance
        As :func:`text_columns`, or if a field is no such number.
    """
    problems: list[Problem] = []
    found: list[list[float]] = []
    for line, row in text_columns(path, columns):
        values = []
        for name, field in zip(columns, row, strict=True):
            try:
                value = float(field)
                if not math.isfinite(value) or value < 0:
                    raise ValueError
            except ValueError:
                problems.append(
                    Problem(f"{path}, line {line}", f"{name} must be a number of at least 0, is {field!r}")
                )
                continue
            values.append(value)
        found.append(values)
    if problems:
        raise InvalidInstance(problems[:_SHOWN])
    import numpy as np

    return np.array(found, dtype=np.float64)


def optional_columns(path: Path, columns: Sequence[str]) -> dict[str, list[str]]:
    """Return by name those of the columns that the file has, as text, a field a row.

    Raises
    ------
    InvalidInstance
        As :func:`text_columns`.
    """
    try:
        header = path.read_bytes().decode("utf-8-sig").partition("\n")[0]
        named = [name.strip() for name in next(csv.reader([header]), [])]
    except (OSError, ValueError, csv.Error) as error:
        raise InvalidInstance(Problem(str(path), f"cannot be read: {reason(error)}")) from error
    present = [name for name in columns if name in named]
    if not present:
        return {}
    rows = text_columns(path, present)
    return {name: [fields[place] for _, fields in rows] for place, name in enumerate(present)}
