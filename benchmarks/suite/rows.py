"""Rows as JSON Lines: appended and synced one by one, a torn last line tolerated, nothing overwritten."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from types import TracebackType
from typing import Any

__all__ = ["BadRows", "RowWriter", "read_rows"]

_REDONE = ("lost", "no_data")
"""Rows that a resumed run does again: nothing was measured."""


class BadRows(Exception):
    """A file is no file of rows, or may not be written; the message says what to do."""


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return all rows of a file; of rows with the same key the last one.

    Raises
    ------
    BadRows
        If a line other than the last is not a JSON object, or the file cannot be read.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise BadRows(f"cannot read {path.name}: {error.strerror}") from error
    rows: dict[object, dict[str, Any]] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            if not isinstance(row, dict):
                raise ValueError
        except ValueError:
            if number == len(lines):
                break  # torn: the writer ended in the middle of it
            raise BadRows(f"{path.name}, line {number} is no row of JSON") from None
        rows[row.get("key", number)] = row
    return list(rows.values())


class RowWriter:
    """The one writer of a file; a second one is refused.

    Parameters
    ----------
    path
        The file.
    resume
        Go on with a file that exists; without it one is refused.

    Raises
    ------
    BadRows
        If the file exists and `resume` was not asked for, or another process writes it.
    """

    def __init__(self, path: Path, resume: bool = False) -> None:
        if path.exists() and path.stat().st_size and not resume:
            raise BadRows(f"{path.name} exists and is never overwritten: --resume it, or name another file")
        self._file = path.open("ab+")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise BadRows(f"another process writes {path.name}") from None
        _drop_torn_line(self._file.fileno())
        self.done = frozenset(
            row["key"]
            for row in read_rows(path)
            if row.get("kind") == "cell" and row.get("termination") not in _REDONE
        )

    def __enter__(self) -> RowWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def append(self, row: dict[str, Any]) -> None:
        """Write a row and wait until it is on the disk."""
        self._file.write(json.dumps(_finite(row), allow_nan=False, default=_plain).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())


def _plain(value: object) -> object:
    """Turn numpy's numbers and arrays into Python's."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} has no place in a row")


def _drop_torn_line(fd: int) -> None:
    size = os.fstat(fd).st_size
    at, kept = size, 0
    while at > 0 and not kept:
        start = max(at - 65536, 0)
        block = os.pread(fd, at - start, start)
        newline = block.rfind(b"\n")
        kept, at = (start + newline + 1 if newline >= 0 else 0), start
    if kept != size:
        os.ftruncate(fd, kept)


def _finite(value: Any) -> Any:
    """Replace infinities and NaN by ``None``: absent is absent."""
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return value
