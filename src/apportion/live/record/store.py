"""The state on disk: SQLite in a private folder, one writer, written ahead of every action.

One table holds one JSON record a row; a transaction writes exactly the rows that changed. The folder has mode
0700 and every file in it 0600. A lock held for the life of the process refuses a second controller.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import socket
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TypeVar

import msgspec

from apportion.core.errors import InUse, InvalidInstance, Problem, StateUnwritable
from apportion.live.offers import Size
from apportion.live.record.jobs import Job
from apportion.live.record.state import Pilot, Rank, State

__all__ = ["Lock", "Store", "default_folder", "in_use", "read_state"]

SCHEMA = 1
_KEPT_PILOTS_S = 3600.0
_PATIENCE_S = 0.5
_FILE = "state.sqlite3"

_Row = tuple[str, str]
_Kind = TypeVar("_Kind")


class _Head(msgspec.Struct, forbid_unknown_fields=True):
    schema: int
    instance: str
    next_pilot: int
    port: int | None
    draining: bool
    boot: str | None = None
    ahead_s: float = 0.0
    sizes: tuple[Size, ...] = ()


def default_folder() -> Path:
    """Return the state folder used where none is named: ``APPORTION_STATE``, else under the user's own."""
    named = os.environ.get("APPORTION_STATE")
    if named:
        return Path(named)
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "apportion" / "live"


def in_use(folder: Path) -> bool:
    """Return whether a controller works on a state folder now."""
    try:
        file = os.open(folder / "lock", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return not _locked(file, fcntl.LOCK_SH)
    finally:
        os.close(file)


def _locked(file: int, kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class Lock:
    """The right to write a state folder; held until closed, or until the process is gone.

    Raises
    ------
    InUse
        If another process holds it; the message says which.
    """

    def __init__(self, folder: Path) -> None:
        self._file = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        deadline = time.monotonic() + _PATIENCE_S
        while not _locked(self._file, fcntl.LOCK_EX):
            if time.monotonic() < deadline:  # whoever only asks whether it is held, holds it for a moment
                time.sleep(_PATIENCE_S / 20)
                continue
            holder = os.read(self._file, 200).decode(errors="replace").strip() or "another process"
            os.close(self._file)
            raise InUse(f"{folder} is in use by a controller ({holder}); two cannot share it") from None
        try:
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
        except OSError:  # a full disk: who holds it is only told, the lock holds all the same
            pass

    def close(self) -> None:
        """Give up the right to write the folder."""
        os.close(self._file)

    def __enter__(self) -> Lock:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Store:
    """The state file of one controller.

    Parameters
    ----------
    folder
        A private folder whose `Lock` the caller holds; ``None`` keeps the state in memory.

    Raises
    ------
    InvalidInstance
        If the file is damaged, or of a later version.
    StateUnwritable
        If it cannot be written.
    """

    def __init__(self, folder: Path | None) -> None:
        self._rows: dict[str, str] = {}
        self._settled: dict[int, str] = {}
        path = ":memory:" if folder is None else str(folder / _FILE)
        self.path = path
        if folder is not None:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        self._connection = sqlite3.connect(path, isolation_level=None, timeout=10.0, check_same_thread=False)
        try:
            self._connection.execute("PRAGMA journal_mode=WAL").fetchone()
            self._connection.execute("PRAGMA synchronous=FULL")
            self._connection.execute(
                "CREATE TABLE IF NOT EXISTS record (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID"
            )
        except sqlite3.DatabaseError as error:
            self._connection.close()
            raise _unwritable(path, error) from None

    @property
    def connection(self) -> sqlite3.Connection:
        """The database connection."""
        return self._connection

    def load(self) -> State:
        """Return what is on record; an empty state with a new instance if there is nothing."""
        self._rows = dict(_read(self._connection, self.path))
        state = _state_of(self._rows, self.path)
        self._settled = _settled(state, self._rows)
        return state

    def commit(self, state: State, now_s: float) -> None:
        """Write what has changed since the last `load` or `commit`, all of it or nothing.

        Raises
        ------
        StateUnwritable
            If that fails; the file holds what it held before, and so must the caller: `load` again.
        """
        for pilot in [pilot for pilot in state.pilots.values() if not pilot.live]:
            if now_s - pilot.since_s > _KEPT_PILOTS_S and not _mentioned(state, pilot):
                del state.pilots[pilot.pilot]
        rows = dict(_rows_of(state, self._settled))
        changed = [(key, value) for key, value in rows.items() if self._rows.get(key) != value]
        gone = [(key,) for key in self._rows if key not in rows]
        if not changed and not gone:
            return
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.executemany(
                "INSERT INTO record VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                changed,
            )
            self._connection.executemany("DELETE FROM record WHERE key = ?", gone)
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise _unwritable(self.path, error) from None
        self._rows = rows
        self._settled = _settled(state, rows)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


def read_state(folder: str | os.PathLike[str]) -> State | None:
    """Return the state of a folder without writing, ``None`` if there is none yet; a controller may run."""
    path = Path(folder).expanduser().absolute() / _FILE
    if not path.is_file():
        return None
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=10.0)) as connection:
            return _state_of(dict(_read(connection, str(path))), str(path))
    except sqlite3.OperationalError as error:
        raise _unwritable(str(path), error, "read") from None


def _read(connection: sqlite3.Connection, path: str) -> list[_Row]:
    try:
        exists = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'record'").fetchone()
        return connection.execute("SELECT key, value FROM record").fetchall() if exists else []
    except sqlite3.OperationalError as error:
        raise _unwritable(path, error, "read") from None
    except sqlite3.DatabaseError as error:
        raise InvalidInstance(Problem(path, f"is no state file: {error}")) from None


def _settled(state: State, rows: dict[str, str]) -> dict[int, str]:
    """Return the rows of jobs that have ended, which change no more and need not be encoded again."""
    return {job.number: rows[f"job/{job.number}"] for job in state.jobs.values() if job.ended}


def _rows_of(state: State, settled: dict[int, str]) -> Iterator[_Row]:
    encode = msgspec.json.Encoder().encode
    named = state.instance, state.next_pilot, state.port, state.draining
    head = _Head(SCHEMA, *named, state.boot, state.ahead_s, state.sizes)
    yield "head", encode(head).decode()
    for job in state.jobs.values():
        row = settled.get(job.number) if job.ended else None
        yield f"job/{job.number}", encode(job).decode() if row is None else row
    for pilot in state.pilots.values():
        yield f"pilot/{pilot.pilot}", encode(pilot).decode()
    for rank in state.ranks.values():
        yield f"rank/{rank.job}/{rank.generation}/{rank.rank}", encode(rank).decode()


def _state_of(rows: dict[str, str], path: str) -> State:
    try:
        if "head" not in rows:
            return State(instance=secrets.token_hex(4))
        head = msgspec.json.decode(rows["head"], type=_Head)
        if head.schema != SCHEMA:
            raise InvalidInstance(Problem(path, f"has schema {head.schema}; this version reads {SCHEMA}"))
        named = head.instance, head.next_pilot, head.port, head.draining
        state = State(*named, head.boot, head.ahead_s, head.sizes)
        jobs, pilots, ranks = _all(rows, "job/", Job), _all(rows, "pilot/", Pilot), _all(rows, "rank/", Rank)
    except msgspec.DecodeError as error:
        raise InvalidInstance(Problem(path, f"holds a record that is not valid: {error}")) from None
    state.jobs = {job.number: job for job in sorted(jobs, key=lambda job: job.number)}
    state.pilots = {pilot.pilot: pilot for pilot in sorted(pilots, key=_sequence)}
    state.ranks = {(rank.job, rank.generation, rank.rank): rank for rank in ranks}
    return state


def _all(rows: dict[str, str], prefix: str, kind: type[_Kind]) -> list[_Kind]:
    return [msgspec.json.decode(value, type=kind) for key, value in rows.items() if key.startswith(prefix)]


def _sequence(pilot: Pilot) -> int:
    return int(pilot.pilot.rpartition("-")[2])


def _mentioned(state: State, pilot: Pilot) -> bool:
    return any(rank.pilot == pilot.pilot and rank.live for rank in state.ranks.values())


def _unwritable(path: str, error: Exception, what: str = "written") -> StateUnwritable:
    return StateUnwritable(f"the state file {path} cannot be {what}: {error}")
