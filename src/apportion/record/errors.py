"""What can be wrong with a record, and how SQLite's errors are told apart."""

from __future__ import annotations

import sqlite3

from apportion.errors import ApportionError

__all__ = ["NotOnRecord", "RecordDamaged", "RecordFull", "RecordInUse", "error_of"]

_FULL = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE})
_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})


class RecordFull(ApportionError):
    """Nothing more can be written: the disk, or the size allowed to the record, is full. Reading goes on."""


class RecordInUse(ApportionError):
    """Another process keeps the record locked for longer than anybody waits for it."""

    exit_code = 6


class RecordDamaged(ApportionError):
    """The file is no record, is of a later version, or cannot be read."""

    exit_code = 3


class NotOnRecord(ApportionError, LookupError):
    """There is no such decision or session on record."""

    exit_code = 2


def error_of(path: str, error: sqlite3.Error) -> ApportionError:
    """Return what an error of SQLite means for a record."""
    code = getattr(error, "sqlite_errorcode", None)
    if code in _FULL:
        return RecordFull(
            f"the record {path} cannot grow ({error}): make room or run `apportion history prune`; "
            "what is on record can still be read"
        )
    if code is not None and code & 0xFF in _BUSY:
        return RecordInUse(f"the record {path} is locked by another process: {error}")
    return RecordDamaged(f"the record {path} cannot be used: {error}")
