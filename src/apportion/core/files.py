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
import stat
import tempfile
import zlib
from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from apportion.core.errors import InvalidInstance, Problem, reason

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "LARGEST",
    "csv_records",
    "csv_rows",
    "file_text",
    "log_skipped_rows",
    "number_columns",
    "optional_columns",
    "private_folder",
    "text_columns",
    "unpacked",
    "write_whole",
]


LARGEST = 2**33
"""Bytes that a packed file may unpack to: a month of Summit's nodes at ten seconds takes 1.2 GB."""


def unpacked(raw: bytes, most: int = LARGEST) -> bytes:
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


def file_text(path: Path, raw: bytes | None = None) -> str:
    """Return the text of a file in UTF-8, gzipped or not.

    Parameters
    ----------
    path
        The file, or what errors call `raw`.
    raw
        The content, where it has been read already.

    Raises
    ------
    InvalidInstance
        If it cannot be read, or is no such text.
    """
    try:
        return unpacked(path.read_bytes() if raw is None else raw).decode("utf-8-sig")
    except (OSError, ValueError) as error:
        raise InvalidInstance(Problem(str(path), f"cannot be read: {reason(error)}")) from error


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


def private_folder(path: str | os.PathLike[str]) -> Path:
    """Return a state folder that only its user can enter, made if it is missing.

    Raises
    ------
    InvalidInstance
        If it belongs to somebody else, is shared by all users as ``/tmp`` is, or is no folder.
    """
    folder = Path(path).expanduser().absolute()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    status = folder.stat()
    if status.st_uid != os.getuid():
        raise InvalidInstance(Problem(str(folder), "belongs to another user; name a folder of your own"))
    if status.st_mode & stat.S_ISVTX:
        raise InvalidInstance(Problem(str(folder), "is shared with other users; name a folder of your own"))
    if status.st_mode & 0o077:
        folder.chmod(0o700)
    return folder


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


def csv_rows(
    text: str,
    file: str | Path = "",
    needed: Sequence[str] = (),
    *,
    optional: Sequence[str] = (),
    delimiter: str = ",",
    pad: bool = False,
) -> list[tuple[int, list[str]]]:
    """Return the rows of a table, its header first, each with the number of its last line.

    Cells come without blanks around them, rows without any cell are left out. Between bars, as Slurm writes
    tables, nothing is quoted.

    Parameters
    ----------
    text
        The table.
    file
        What errors call it, beside the line; empty where a caller says it.
    needed
        Columns that the header must have, once.
    optional
        Columns that it may have, once.
    delimiter
        What stands between cells.
    pad
        Whether a row may end early, its last cells being empty, or in empty cells beyond the header.

    Raises
    ------
    InvalidInstance
        If it is no such table, a column is missing or stands twice, or a row is short or long.
    """

    def problem(line: int, said: str) -> Problem:
        return Problem(f"{file}, line {line}" if file else f"line {line}", said)

    quoting: Literal[0, 3] = csv.QUOTE_NONE if delimiter == "|" else csv.QUOTE_MINIMAL
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True, quoting=quoting)
    try:
        rows = [(reader.line_num, list(map(str.strip, row))) for row in reader if any(row)]
    except csv.Error as error:
        raise InvalidInstance(problem(reader.line_num, f"is no CSV table: {error}")) from None
    if not rows:
        raise InvalidInstance(problem(1, "is empty; a table begins with the names of its columns"))
    (first, header), *rows = rows
    missing = [name for name in dict.fromkeys(needed) if name not in header]
    if missing:
        commas = "" if len(header) > 1 else "; cells must be separated by commas"
        said = f"the header lacks {', '.join(missing)}; it reads {','.join(header)[:200]}{commas}"
        raise InvalidInstance(problem(first, said))
    if twice := [name for name in dict.fromkeys((*needed, *optional)) if header.count(name) > 1]:
        raise InvalidInstance(problem(first, f"the header has {', '.join(twice)} more than once"))
    width = len(header)
    if pad:
        rows = [
            (line, [*row[:width], *[""] * (width - len(row)), *filter(None, row[width:])])
            for line, row in rows
        ]
    wrong = [
        problem(line, f"has {len(row)} cells, the header {width}") for line, row in rows if len(row) != width
    ]
    if wrong:
        raise InvalidInstance(wrong[:_SHOWN])
    return [(first, header), *rows]


def csv_records(
    text: str, needed: Sequence[str], optional: Sequence[str] = ()
) -> list[tuple[int, dict[str, str]]]:
    """Return the rows of a table by column, as `csv_rows` reads a padded one, each with its line."""
    (_, header), *rows = csv_rows(text.removeprefix("\ufeff"), "", needed, optional=optional, pad=True)
    return [(line, dict(zip(header, row, strict=True))) for line, row in rows]


def text_columns(path: Path, columns: Sequence[str]) -> list[tuple[int, tuple[str, ...]]]:
    """Return the named columns of every row as text, with the row's line number.

    Raises
    ------
    InvalidInstance
        If the file cannot be read, a column is missing, a row is short or long, or there is no row.
    """
    (_, header), *rows = csv_rows(file_text(path), path, columns)
    if not rows:
        raise InvalidInstance(Problem(str(path), "has a header and no row"))
    at = [header.index(name) for name in columns]
    return [(line, tuple(row[index] for index in at)) for line, row in rows]


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
    (_, header), *rows = csv_rows(file_text(path), path)
    return {name: [row[header.index(name)] for _, row in rows] for name in columns if name in header}
