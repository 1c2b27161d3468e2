"""Writing a record: one transaction per step, on disk before anybody is told.

Forgetting old decisions, and the states of sessions that none of the others needs. A service writes in one
thread, and what waits together in one transaction.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import queue
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from apportion.core.errors import ApportionError
from apportion.core.files import private_folder
from apportion.service.record.entries import (
    Asked,
    Decided,
    NotOnRecord,
    RecordInUse,
    error_of,
    migrate,
    pack,
    pack_deltas,
    pack_instance,
    version_of,
)
from apportion.service.record.reading import History

__all__ = [
    "Record",
    "RecordWriter",
    "prune",
]

_OLD = """
at_s < ?1 AND id NOT IN (
    SELECT max(decision.id) FROM decision JOIN session ON session.name = decision.session
    WHERE session.closed_s IS NULL GROUP BY decision.session
)
"""
_NEEDED = """
SELECT name, closed_s IS NULL, (SELECT max(revision) FROM state WHERE session = name),
    (SELECT min(revision) FROM decision WHERE session = name) FROM session
"""


def prune(record: Record, connection: sqlite3.Connection, before_s: float) -> int:
    """Delete what is older than a moment, in one transaction, and give its room back to the disk."""
    run = connection.execute
    with record.together():
        gone = run(f"DELETE FROM decision WHERE {_OLD}", (before_s,)).rowcount
        run("DELETE FROM request WHERE at_s < ? AND decision IS NULL", (before_s,))
        with History(record.path) as history:  # states are never deleted by anybody else
            for name, is_open, last, oldest in run(_NEEDED).fetchall():
                if oldest is None and not is_open:
                    run("DELETE FROM state WHERE session = ?", (name,))
                    run("DELETE FROM session WHERE name = ?", (name,))
                    continue
                first = last if oldest is None else oldest
                (whole,) = run(
                    "SELECT instance IS NOT NULL FROM state WHERE session = ? AND revision = ?", (name, first)
                ).fetchone()
                if not whole:
                    packed = pack_instance(history.instance(name, first))
                    run(
                        "UPDATE state SET instance = ? WHERE session = ? AND revision = ?",
                        (packed, name, first),
                    )
                run("DELETE FROM state WHERE session = ? AND revision < ?", (name, first))
    run("PRAGMA incremental_vacuum").fetchall()
    run("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return int(gone)


_WHOLE_EVERY = 64
"""Every so many revisions the instance is stored whole, so that no instance needs more deltas than that."""


class _Result(msgspec.Struct):
    """What of a stored document stands in columns of its own."""

    kind: str
    termination: str
    objective: float | None
    bound: float | None
    gap: float | None
    certificate: dict[str, Any]


class Record:
    """A record, opened to be written; made, or brought to today's version, where need be.

    Parameters
    ----------
    path
        The file; its folder is made private to its user.
    max_bytes
        What the file may grow to; ``None`` for no limit but the disk.
    durable
        Whether a decision outlives a power failure (``synchronous=FULL``), or only the death of processes.

    Raises
    ------
    RecordDamaged
        If the file is no record, or of a later version.
    RecordFull
        If it cannot be written.

    Notes
    -----
    One thread at a time may use it. Methods raise `RecordFull` where nothing more can be written; the file
    then holds what it held before.
    """

    def __init__(self, path: Path, *, max_bytes: int | None = None, durable: bool = True) -> None:
        self.path = path
        private_folder(path.parent)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        self._connection = sqlite3.connect(path, isolation_level=None, timeout=10.0, check_same_thread=False)
        run = self._connection.execute
        try:
            version_of(self._connection, str(path))  # what is no record stays as it is
            run("PRAGMA auto_vacuum=INCREMENTAL")
            run("PRAGMA journal_mode=WAL").fetchone()
            run(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
            run("PRAGMA foreign_keys=ON")
            if max_bytes is not None:
                (page,) = run("PRAGMA page_size").fetchone()
                run(f"PRAGMA max_page_count={max(1, max_bytes // page)}").fetchone()
            self.migrated_from = migrate(self._connection, str(path))
        except ApportionError:
            self._connection.close()
            raise
        except sqlite3.Error as error:
            self._connection.close()
            raise error_of(str(path), error) from None

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def __enter__(self) -> Record:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def together(self) -> Iterator[None]:
        """Write all that is written within, or nothing of it; may be nested."""
        connection = self._connection
        if connection.in_transaction:
            yield
            return
        try:
            connection.execute("BEGIN IMMEDIATE")
            yield
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise error_of(str(self.path), error) from None
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")

    def open_session(self, name: str, instance: Any, *, at_s: float, asked_by: str) -> int:
        """Put a new session on record and return its revision, 0; a closed one of that name is continued.

        The revisions of a session that is continued go on, so that none is ever used twice.
        """
        with self.together():
            self._execute(
                "INSERT INTO session VALUES (?, ?, ?, NULL) "
                "ON CONFLICT (name) DO UPDATE SET closed_s = NULL, asked_by = excluded.asked_by",
                (name, at_s, asked_by),
            )
            revision = self._next(name)
            self._state(name, revision, at_s, asked_by, pack_instance(instance), None)
            return revision

    def change(
        self,
        name: str,
        deltas: Sequence[Any],
        instance: Any,
        *,
        at_s: float,
        asked_by: str,
        revision: int | None = None,
    ) -> int:
        """Put deltas on record and return the revision that they lead to.

        Parameters
        ----------
        name
            The session.
        deltas
            What changed, as structs or plain objects.
        instance
            The instance they lead to; now and then it is stored whole beside the deltas.
        at_s, asked_by
            When, and who.
        revision
            The revision that they must lead to, where the writer counts; one that is on record stays so.

        Raises
        ------
        NotOnRecord
            If the session, or a revision before that one, is not on record.
        """
        with self.together():
            following = self._next(name)
            if revision is not None and revision < following:
                return revision
            if revision is not None and revision > following:
                raise NotOnRecord(f"revision {revision} of session {name!r} cannot follow {following - 1}")
            revision = following
            whole = pack_instance(instance) if revision % _WHOLE_EVERY == 0 else None
            self._state(name, revision, at_s, asked_by, whole, pack_deltas(deltas))
            return revision

    def close_session(self, name: str, *, at_s: float) -> None:
        """Note that a session is closed; its decisions stay on record."""
        with self.together():
            self._execute("UPDATE session SET closed_s = ? WHERE name = ?", (at_s, name))

    def decide(self, decided: Decided) -> int:
        """Put a decision on record and return its number."""
        read = msgspec.json.decode(decided.result, type=_Result)
        proof = decided.proof
        with self.together():
            cursor = self._execute(
                "INSERT INTO decision VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    decided.session,
                    decided.revision,
                    decided.at_s,
                    decided.seconds,
                    decided.asked_by,
                    decided.policy,
                    decided.status,
                    msgspec.json.encode(dict(decided.options or {})).decode(),
                    read.kind,
                    read.termination,
                    read.objective,
                    read.bound,
                    read.gap,
                    pack(decided.result),
                    read.certificate.get("digest"),
                    proof,
                    None if proof is None else hashlib.sha256(proof).hexdigest(),
                ),
            )
            number = cursor.lastrowid
            assert number is not None
            return number

    def ask(self, session: str, request: str, asked: Asked, *, at_s: float) -> None:
        """Put a request on record, or what has become of it since.

        The decision that answered it stays: a later transaction may write the request again as it was asked.
        """
        with self.together():
            self._execute(
                "INSERT INTO request VALUES (?, ?, ?, ?, ?, ?) "
                "ON CONFLICT (session, id) DO UPDATE SET decision = coalesce(decision, excluded.decision)",
                (session, request, at_s, asked.body, asked.revision, asked.decision),
            )

    def prune(self, before_s: float) -> int:
        """Forget decisions made before a moment and return how many; what is kept stays checkable.

        The last decision of an open session is kept, however old it is.
        """
        return prune(self, self._connection, before_s)

    def _next(self, name: str) -> int:
        rows = self._execute(
            "SELECT (SELECT max(revision) FROM state WHERE session = ?1) FROM session WHERE name = ?1",
            (name,),
        ).fetchall()
        if not rows:
            raise NotOnRecord(f"there is no session {name!r} on record")
        return 0 if rows[0][0] is None else int(rows[0][0]) + 1

    def _state(
        self, name: str, revision: int, at_s: float, by: str, instance: bytes | None, deltas: bytes | None
    ) -> None:
        self._execute(
            "INSERT INTO state VALUES (?, ?, ?, ?, ?, ?)", (name, revision, at_s, by, instance, deltas)
        )

    def _execute(self, statement: str, values: tuple[Any, ...]) -> sqlite3.Cursor:
        return self._connection.execute(statement, values)


_T = TypeVar("_T")
_Work = tuple[Callable[[Record], Any], Callable[[], None], asyncio.Future[Any], asyncio.AbstractEventLoop]
_TOGETHER = 64


class RecordWriter:
    """A record written by one thread.

    Parameters
    ----------
    path, max_bytes, durable
        As in `apportion.service.record.Record`.
    """

    def __init__(self, path: Path, *, max_bytes: int | None = None, durable: bool = True) -> None:
        self.path = path
        self._record = Record(path, max_bytes=max_bytes, durable=durable)
        self._reader = History(path)  # keeps the shared files open, so that reading works on a full disk
        self._closed = False
        self._work: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write, name="record", daemon=True)
        self._thread.start()

    def write(
        self, step: Callable[[Record], _T], failed: Callable[[], None] = lambda: None
    ) -> asyncio.Future[_T]:
        """Have a step carried out, and return what it will return when it is on disk.

        Parameters
        ----------
        step
            Called in the thread that writes; what waits at the same time is written with it.
        failed
            Called in that thread, before any later step, if the step cannot be written: nothing of it is,
            then, and the future raises what happened, `RecordFull` for instance; `RecordInUse` of a ledger
            that is closed.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[_T] = loop.create_future()
        if self._closed:
            future.set_exception(RecordInUse("the service ends: nothing more is put on record; ask again"))
        else:
            self._work.put((step, failed, future, loop))
        return future

    async def read(self, step: Callable[[History], _T]) -> _T:
        """Return what a step returns, carried out in a thread on a reader of its own."""

        def reading() -> _T:
            with History(self.path) as history:
                return step(history)

        return await asyncio.to_thread(reading)

    def read_now(self, step: Callable[[History], _T]) -> _T:
        """Return what a step that takes next to no time returns."""
        return step(self._reader)

    def close(self) -> None:
        """Write what waits, and close the file."""
        self._closed = True
        self._work.put(None)
        self._thread.join()
        self._reader.close()
        self._record.close()

    def _write(self) -> None:
        while (first := self._work.get()) is not None:
            batch = [first]
            while len(batch) < _TOGETHER and not self._work.empty():
                work = self._work.get()
                if work is None:
                    self._work.put(None)
                    break
                batch.append(work)
            if len(batch) > 1 and self._all(batch):
                continue
            for work in batch:  # one by one, so that what cannot be written stops nothing else
                self._all([work])

    def _all(self, batch: list[_Work]) -> bool:
        results = []
        try:
            with self._record.together():
                results = [step(self._record) for step, *_ in batch]
        except Exception as error:
            if len(batch) == 1:
                _, failed, future, loop = batch[0]
                failed()
                _tell(loop, future, error=error)
            return False
        for (*_, future, loop), result in zip(batch, results, strict=True):
            _tell(loop, future, result)
        return True


def _tell(
    loop: asyncio.AbstractEventLoop,
    future: asyncio.Future[Any],
    result: Any = None,
    error: Exception | None = None,
) -> None:
    def settle() -> None:
        if not future.done():
            future.set_result(result) if error is None else future.set_exception(error)

    if not loop.is_closed():
        loop.call_soon_threadsafe(settle)
