"""What is on record, as values, the tables of the file it lies in, and what can be wrong with that file.

The file is in a folder that only its user can enter; an older one becomes one of today version by version.
Instances are packed as canonical JSON. Moments are as people say them: ``14:05``, ``2026-11-22 14:05``,
``2h`` ago, ``now``.
"""

from __future__ import annotations

import os
import re
import sqlite3
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from apportion.core.errors import ApportionError, InvalidOption

__all__ = [
    "APPLICATION",
    "MIGRATIONS",
    "VERSION",
    "Asked",
    "Decided",
    "DecisionSummary",
    "Entry",
    "NotOnRecord",
    "RecordDamaged",
    "RecordFull",
    "RecordInUse",
    "SessionEntry",
    "default_folder",
    "error_of",
    "migrate",
    "moment",
    "pack",
    "pack_deltas",
    "pack_instance",
    "record_file",
    "said",
    "unpack",
    "unpack_deltas",
    "unpack_instance",
    "version_of",
]


_AGO = re.compile(r"\A(\d+(?:\.\d+)?)\s*([smhdw])\Z")
_CLOCK = re.compile(r"\A(\d{1,2}):(\d{2})(?::(\d{2}))?\Z")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def moment(text: str, now: datetime) -> float:
    """Return a moment as seconds since 1970.

    Parameters
    ----------
    text
        A clock time (the last time that it was so late), a date with or without a time (ISO 8601, the time
        zone of `now` unless it names one), a span ago (``90s``, ``15m``, ``2h``, ``1d``, ``1w``), ``now``,
        ``today`` or ``yesterday`` (their midnights).
    now
        The present, with its time zone.

    Raises
    ------
    InvalidOption
        If it is none of these.

    Examples
    --------
    >>> from datetime import datetime, timezone
    >>> now = datetime(2026, 11, 22, 15, 0, tzinfo=timezone.utc)
    >>> now.timestamp() - moment("14:05", now), now.timestamp() - moment("2h", now)
    (3300.0, 7200.0)
    """
    word = text.strip().lower()
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    days = {"now": now, "today": midnight, "yesterday": midnight - timedelta(days=1)}
    if word in days:
        return days[word].timestamp()
    try:
        if ago := _AGO.match(word):
            return (now - timedelta(**{_UNITS[ago[2]]: float(ago[1])})).timestamp()
        if clock := _CLOCK.match(word):
            then = midnight.replace(hour=int(clock[1]), minute=int(clock[2]), second=int(clock[3] or 0))
            return (then if then <= now else then - timedelta(days=1)).timestamp()
        when = datetime.fromisoformat(text.strip())
        return (when if when.tzinfo else when.replace(tzinfo=now.tzinfo)).timestamp()
    except (ValueError, OverflowError):
        raise InvalidOption(
            f"{text!r} is no moment; say 14:05, 2026-11-22T14:05, 2h (ago), today or yesterday"
        ) from None


def said(at_s: float) -> str:
    """Return a moment in local time, as `moment` reads it."""
    return datetime.fromtimestamp(at_s).astimezone().isoformat(sep=" ", timespec="seconds")


_FILE = "record.sqlite3"


def default_folder() -> Path:
    """Return the folder used where none is named: ``APPORTION_RECORD``, else under the user's own state."""
    named = os.environ.get("APPORTION_RECORD")
    if named:
        return Path(named)
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "apportion" / "record"


def record_file(folder: str | os.PathLike[str] | None = None) -> Path:
    """Return the path of the record in a folder, by default in `default_folder`; nothing is made."""
    return Path(default_folder() if folder is None else folder).expanduser().absolute() / _FILE


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


APPLICATION = 0x61707072
"""``PRAGMA application_id`` of a record ("appr"): no other SQLite file is taken for one."""

_FIRST = """
CREATE TABLE session (
    name TEXT PRIMARY KEY,
    created_s REAL NOT NULL,
    asked_by TEXT NOT NULL,
    closed_s REAL
) WITHOUT ROWID;
CREATE TABLE state (
    session TEXT NOT NULL REFERENCES session (name),
    revision INTEGER NOT NULL,
    at_s REAL NOT NULL,
    asked_by TEXT NOT NULL,
    instance BLOB,
    deltas BLOB,
    PRIMARY KEY (session, revision),
    CHECK (instance IS NOT NULL OR deltas IS NOT NULL)
) WITHOUT ROWID;
CREATE TABLE decision (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    session TEXT NOT NULL,
    revision INTEGER NOT NULL,
    at_s REAL NOT NULL,
    seconds REAL NOT NULL,
    asked_by TEXT NOT NULL,
    policy TEXT NOT NULL,
    status TEXT NOT NULL,
    options TEXT NOT NULL,
    kind TEXT NOT NULL,
    termination TEXT NOT NULL,
    objective REAL,
    bound REAL,
    gap REAL,
    result BLOB NOT NULL,
    digest TEXT,
    proof BLOB,
    proof_digest TEXT,
    FOREIGN KEY (session, revision) REFERENCES state (session, revision)
);
CREATE INDEX decision_by_time ON decision (at_s);
CREATE INDEX decision_by_session ON decision (session, id);
"""

_REQUESTS = """
CREATE TABLE request (
    session TEXT NOT NULL,
    id TEXT NOT NULL,
    at_s REAL NOT NULL,
    body TEXT NOT NULL,
    revision INTEGER NOT NULL,
    decision INTEGER REFERENCES decision (id) ON DELETE CASCADE,
    PRIMARY KEY (session, id)
) WITHOUT ROWID;
CREATE INDEX request_by_decision ON request (decision);
"""

MIGRATIONS: tuple[str, ...] = (_FIRST, _REQUESTS)
"""Script N makes a file of version N into one of version N + 1; a script that was released never changes."""
VERSION = len(MIGRATIONS)


def version_of(connection: sqlite3.Connection, path: str) -> int:
    """Return the version of an open file, 0 for an empty one.

    Raises
    ------
    RecordDamaged
        If it is no record, or one of a later version.
    """
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application != APPLICATION and (tables or version):
        raise RecordDamaged(f"{path} is a database, but no record of apportion")
    if version > VERSION:
        raise RecordDamaged(f"{path} has version {version}; this release reads up to {VERSION}: update it")
    return int(version)


def migrate(connection: sqlite3.Connection, path: str) -> int:
    """Bring a file to today's version, one transaction per step, and return the version that it had."""
    had = version_of(connection, path)
    for number in range(had, VERSION):
        connection.execute("BEGIN IMMEDIATE")
        try:
            if version_of(connection, path) == number:  # nobody else was faster
                for statement in MIGRATIONS[number].split(";\n"):
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {APPLICATION}")
                connection.execute(f"PRAGMA user_version = {number + 1}")
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
    return had


_LEVEL = 1


def pack(text: bytes) -> bytes:
    """Return text compressed."""
    return zlib.compress(text, _LEVEL)


def unpack(packed: bytes) -> bytes:
    """Return what `pack` was given.

    Raises
    ------
    RecordDamaged
        If it was not packed, or was edited.
    """
    try:
        return zlib.decompress(packed)
    except zlib.error as error:
        raise RecordDamaged(f"the record holds something that cannot be unpacked: {error}") from None


def pack_instance(instance: Any) -> bytes:
    """Return an instance as canonical JSON, compressed."""
    return pack(msgspec.json.encode(instance, order="deterministic"))


def unpack_instance(packed: bytes) -> Any:
    """Return the instance that was packed, validated like a file."""
    from apportion.io.read import read

    return read(unpack(packed))


def pack_deltas(deltas: Sequence[Any]) -> bytes:
    """Return deltas, as structs or plain objects, as a JSON array, compressed."""
    return pack(msgspec.json.encode(list(deltas), order="deterministic"))


def unpack_deltas(packed: bytes) -> list[dict[str, Any]]:
    """Return deltas as plain objects."""
    return msgspec.json.decode(unpack(packed), type=list[dict[str, Any]])


class _Decision(Struct, frozen=True, kw_only=True):
    """What every decision has, on its way to the record, on it, and as callers see it.

    Attributes
    ----------
    session, revision
        The state of the session that it is about.
    at_s
        When it was asked for, seconds since 1970.
    seconds
        How long the caller waited.
    asked_by
        Who asked: a user of the machine, a token's name, a command.
    policy
        The policy's name.
    status
        ``decided``, or ``late`` where the deadline passed and an earlier plan was answered.
    """

    session: str
    revision: int
    at_s: float
    seconds: float
    asked_by: str
    policy: str
    status: str

    def _summary(self, number: int) -> DecisionSummary:
        shared = {name: getattr(self, name) for name in _Decision.__struct_fields__}
        return DecisionSummary(id=number, **shared)


class Decided(_Decision, frozen=True, kw_only=True):
    """A decision that is to be put on record.

    Attributes
    ----------
    result
        The stored document as JSON, as `apportion.io.stored.encode` writes it.
    options
        What else was asked for, as plain JSON.
    proof
        The bytes of the proof of its claim.
    """

    result: bytes
    options: Mapping[str, Any] | None = None
    proof: bytes | None = None

    def summary(self, number: int) -> DecisionSummary:
        """Return what callers of the service see beside the result, now that it has a number."""
        return self._summary(number)


class DecisionSummary(_Decision, frozen=True):
    """What is known of a decision beside its result.

    Attributes
    ----------
    id
        Its number on record; numbers grow and are never used twice.
    """

    id: int


class Entry(DecisionSummary, frozen=True, kw_only=True):
    """A decision on record, without its instance, result and proof.

    Attributes
    ----------
    options
        As in `Decided`.
    kind, termination, objective, bound, gap
        From its result.
    digest
        The digest of its result, over instance and document.
    proof_digest
        SHA-256 of the proof as hex, ``None`` without one.
    """

    options: Mapping[str, Any]
    kind: str
    termination: str
    objective: float | None
    bound: float | None
    gap: float | None
    digest: str | None
    proof_digest: str | None

    def summary(self) -> DecisionSummary:
        """Return what callers of the service see beside the result."""
        return self._summary(self.id)


@dataclass(frozen=True, slots=True)
class SessionEntry:
    """A session on record.

    Attributes
    ----------
    name, created_s, asked_by
        Its name, when it was opened, and by whom.
    closed_s
        When it was closed, ``None`` while it is open.
    revision
        The last revision of its instance, from 0.
    """

    name: str
    created_s: float
    asked_by: str
    closed_s: float | None
    revision: int


@dataclass(frozen=True, slots=True)
class Asked:
    """A request on record, so that it is not carried out twice.

    Attributes
    ----------
    body
        SHA-256 of what was asked, as hex.
    revision
        The revision that its deltas led to.
    decision
        The number of the decision that answered it, ``None`` while there is none.
    """

    body: str
    revision: int
    decision: int | None
