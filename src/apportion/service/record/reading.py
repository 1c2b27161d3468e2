"""Reading a record while somebody else writes it; a decision as one line of JSON, for other programs."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from apportion.core.errors import InvalidInstance
from apportion.service.record.entries import (
    VERSION,
    Asked,
    Entry,
    NotOnRecord,
    RecordDamaged,
    SessionEntry,
    error_of,
    unpack,
    unpack_deltas,
    unpack_instance,
    version_of,
)

__all__ = ["History", "applied", "exported"]


def applied(instance: Any, deltas: Sequence[dict[str, Any]]) -> Any:
    """Return an instance with deltas applied in order, each validated as when it came.

    Raises
    ------
    RecordDamaged
        If they do not fit the instance.
    """
    if not deltas:
        return instance
    from apportion.service.session import Session

    try:
        return Session(instance, hypothetical=True).apply(*deltas)  # earlier versions made nodes up
    except InvalidInstance as error:
        raise RecordDamaged(f"stored deltas do not fit the stored instance: {error}") from None


_COLUMNS = ", ".join(Entry.__struct_fields__)


class History:
    """A record, opened to be read; a service may write it at the same time.

    Parameters
    ----------
    path
        The file; one of an earlier version is brought to today's first.

    Raises
    ------
    NotOnRecord
        If there is no such file.
    RecordDamaged
        If it is no record, or of a later version.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.is_file():
            raise NotOnRecord(
                f"there is no record {path}; `apportion serve` makes one, --record names another"
            )
        self._connection = _opened(path)
        try:
            version = version_of(self._connection, str(path))
        except (RecordDamaged, sqlite3.Error) as error:
            self.close()
            raise error if isinstance(error, RecordDamaged) else error_of(str(path), error) from None
        if version != VERSION:
            from apportion.service.record.writing import Record

            self.close()
            Record(path).close()
            self._connection = _opened(path)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def __enter__(self) -> History:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def entries(
        self,
        *,
        session: str | None = None,
        since_s: float | None = None,
        until_s: float | None = None,
        last: int | None = None,
    ) -> list[Entry]:
        """Return the decisions of a session, or all, from `since_s` to before `until_s`, the oldest first.

        Parameters
        ----------
        session
            Its name; ``None`` for all.
        since_s, until_s
            Seconds since 1970; ``None`` for no limit.
        last
            Only so many, the newest.
        """
        wanted = {"session = ?": session, "at_s >= ?": since_s, "at_s < ?": until_s}
        wanted = {clause: value for clause, value in wanted.items() if value is not None}
        where = f"WHERE {' AND '.join(wanted)} " if wanted else ""
        count = -1 if last is None else last
        rows = self._rows(
            f"SELECT {_COLUMNS} FROM decision {where}ORDER BY id DESC LIMIT ?", (*wanted.values(), count)
        )
        return [_entry(row) for row in reversed(rows)]

    def entry(self, number: int) -> Entry:
        """Return one decision.

        Raises
        ------
        NotOnRecord
            If there is none of that number.
        """
        rows = self._rows(f"SELECT {_COLUMNS} FROM decision WHERE id = ?", (number,)) if _fits(number) else []
        if not rows:
            raise NotOnRecord(f"there is no decision {number} on record{self._span()}")
        return _entry(rows[0])

    def at(self, moment_s: float, session: str | None = None) -> Entry:
        """Return the decision that was in force at a moment: the last one made by then.

        Raises
        ------
        NotOnRecord
            If there was none yet.
        """
        before = self.entries(session=session, until_s=moment_s + 1e-6, last=1)
        if not before:
            raise NotOnRecord(f"no decision had been made by then{self._span()}")
        return before[0]

    def result(self, number: int) -> bytes:
        """Return the result of a decision: a stored document as JSON."""
        rows = self._rows("SELECT result FROM decision WHERE id = ?", (number,))
        if not rows:
            raise NotOnRecord(f"there is no decision {number} on record")
        return unpack(rows[0][0])

    def proof(self, number: int) -> bytes | None:
        """Return the proof of a decision, ``None`` without one."""
        rows = self._rows("SELECT proof FROM decision WHERE id = ?", (number,))
        proof: bytes | None = rows[0][0] if rows else None
        return proof

    def instance(self, session: str, revision: int) -> Any:
        """Return the instance of a session as it was at a revision.

        Raises
        ------
        NotOnRecord
            If it was never, or is not any more, on record.
        """
        rows = self._rows(
            "SELECT revision, instance, deltas FROM state WHERE session = ?1 AND revision <= ?2 "
            "AND revision >= (SELECT max(revision) FROM state "
            "WHERE session = ?1 AND revision <= ?2 AND instance IS NOT NULL) ORDER BY revision",
            (session, revision),
        )
        if not rows or rows[-1][0] != revision:
            raise NotOnRecord(f"revision {revision} of session {session!r} is not on record")
        instance = unpack_instance(rows[0][1])
        later = [delta for _, _, packed in rows[1:] for delta in unpack_deltas(packed)]
        return applied(instance, later)

    def deltas(self, session: str, revision: int) -> list[dict[str, Any]]:
        """Return the deltas that led to a revision; empty where an instance was given whole."""
        rows = self._rows("SELECT deltas FROM state WHERE session = ? AND revision = ?", (session, revision))
        return [] if not rows or rows[0][0] is None else unpack_deltas(rows[0][0])

    def asked(self, session: str, request: str) -> Asked | None:
        """Return what is on record of a request, ``None`` for a new one."""
        rows = self._rows(
            "SELECT body, revision, decision FROM request WHERE session = ? AND id = ?", (session, request)
        )
        return Asked(*rows[0]) if rows else None

    def sessions(self, *, closed: bool = False) -> list[SessionEntry]:
        """Return the sessions that are open, or all, by name."""
        where = "" if closed else "WHERE closed_s IS NULL "
        rows = self._rows(
            "SELECT name, created_s, asked_by, closed_s, "
            "(SELECT max(revision) FROM state WHERE state.session = session.name) "
            f"FROM session {where}ORDER BY name"
        )
        return [SessionEntry(*row) for row in rows]

    def has_session(self, name: str) -> bool:
        """Return whether a session of this name is, or ever was, open."""
        return bool(self._rows("SELECT 1 FROM session WHERE name = ?", (name,)))

    def problems(self) -> list[str]:
        """Return what SQLite finds wrong with the file; empty if it is whole."""
        rows = self._rows("PRAGMA integrity_check") + self._rows("PRAGMA foreign_key_check")
        return [" ".join(map(str, row)) for row in rows if row != ("ok",)]

    def _span(self) -> str:
        ((low, high),) = self._rows("SELECT min(id), max(id) FROM decision")
        return "; it is empty" if low is None else f", which holds {low} to {high}"

    def _rows(self, statement: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        with self._answering():
            return self._connection.execute(statement, values).fetchall()

    @contextmanager
    def _answering(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise error_of(str(self.path), error) from None


def _opened(path: Path) -> sqlite3.Connection:
    """Open a file to be read; where no writer is at work and the disk is full, as one that nobody changes."""
    connection = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=10.0, check_same_thread=False)
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        connection.close()
        if path.with_name(f"{path.name}-wal").exists():
            raise RecordDamaged(f"the record {path} cannot be opened") from None
        return sqlite3.connect(f"{path.as_uri()}?immutable=1", uri=True, check_same_thread=False)
    except sqlite3.DatabaseError as error:
        connection.close()
        raise error_of(str(path), error) from None
    return connection


def _entry(row: tuple[Any, ...]) -> Entry:
    values = dict(zip(Entry.__struct_fields__, row, strict=True))
    return Entry(**{**values, "options": msgspec.json.decode(values["options"])})


def _fits(number: int) -> bool:
    return 0 <= number < 2**63


def exported(history: History, entry: Entry, part: str = "all") -> bytes:
    """Return a decision as JSON without a newline.

    Parameters
    ----------
    history
        The record.
    entry
        The decision.
    part
        ``"instance"``, ``"result"``, or ``"all"``: ``{"decision", "instance", "result"}``.
    """
    if part == "result":
        return history.result(entry.id)
    instance = msgspec.json.encode(history.instance(entry.session, entry.revision), order="deterministic")
    if part == "instance":
        return instance
    result = history.result(entry.id)
    return msgspec.json.encode(
        {"decision": entry, "instance": msgspec.Raw(instance), "result": msgspec.Raw(result)}
    )
