"""The open sessions of a service: opened, changed, decided and put on record, without HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from apportion.core.errors import ApportionError
from apportion.io.read import read
from apportion.service.answering import Metrics
from apportion.service.applying import DecideSession
from apportion.service.by_policy import OPTIMUM, asked_policy
from apportion.service.deciding import State, answered
from apportion.service.history import DecisionHistory
from apportion.service.messages import Conflict, Limits, Made, OpenSession, SessionSummary, body_digest
from apportion.service.open_session import OpenedSession
from apportion.service.pool import Pool
from apportion.service.record import Asked, Decided, History, NotOnRecord, Record, RecordFull
from apportion.service.record.writing import RecordWriter

__all__ = ["RequestDeduplicator", "SessionManager"]


_ReplyT = TypeVar("_ReplyT")


@dataclass(slots=True, eq=False)
class _PendingRequest(Generic[_ReplyT]):
    task: asyncio.Task[_ReplyT]
    body: str
    callers: int = 0


class RequestDeduplicator(Generic[_ReplyT]):
    """Tasks by request; one is cancelled when nobody waits for it any more."""

    def __init__(self) -> None:
        self._pending: dict[tuple[str, str], _PendingRequest[_ReplyT]] = {}

    async def join(
        self, key: tuple[str, str], body: str, start: Callable[[], Coroutine[Any, Any, _ReplyT]]
    ) -> _ReplyT:
        """Return the answer of a request, which is started if it is not under way.

        Parameters
        ----------
        key
            Session and request id.
        body
            The digest of what is asked.
        start
            Returns the coroutine that carries it out.

        Raises
        ------
        Conflict
            If something else is under way by this id.
        """
        while True:
            pending = self._pending.get(key)
            if pending is None or pending.task.done():
                pending = self._pending[key] = _PendingRequest(asyncio.create_task(start()), body)
                pending.task.add_done_callback(self._forget_when_done(key, pending))
            if pending.body != body:
                raise Conflict(f"request {key[1]!r} is under way with another body; take another id")
            pending.callers += 1
            try:
                return await asyncio.shield(pending.task)
            except asyncio.CancelledError:
                if not pending.task.cancelled() or _is_cancelled():
                    raise
                # whoever asked before went away and it was given up just now: it is begun anew
            finally:
                pending.callers -= 1
                if not pending.callers and not pending.task.done():
                    pending.task.cancel()

    def _forget_when_done(
        self, key: tuple[str, str], pending: _PendingRequest[_ReplyT]
    ) -> Callable[[object], None]:
        def landed(_: object) -> None:
            if self._pending.get(key) is pending:
                del self._pending[key]

        return landed


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


_T = TypeVar("_T")

_OPTIONS_ON_RECORD = ("time_limit", "gap", "seed", "proof")


class SessionManager:
    """The sessions of a service.

    Parameters
    ----------
    ledger, pool, metrics, limits
        Its record, its workers, what it counts, and what it allows.

    Attributes
    ----------
    past
        The decisions on record.
    """

    def __init__(self, ledger: RecordWriter, pool: Pool, metrics: Metrics, limits: Limits) -> None:
        self.writer = ledger
        self.pool = pool
        self.metrics = metrics
        self.limits = limits
        self.past = DecisionHistory(ledger, pool, limits)
        self._sessions: dict[str, OpenedSession] = {}
        self._pending: RequestDeduplicator[Made] = RequestDeduplicator()
        self._openings: RequestDeduplicator[SessionSummary] = RequestDeduplicator()

    async def recover(self) -> None:
        """Open again every session that is open on record."""

        def recorded(history: History) -> list[OpenedSession]:
            found = []
            for entry in history.sessions():
                instance = history.instance(entry.name, entry.revision)
                opened = OpenedSession(
                    entry.name, instance, entry.revision, created_s=entry.created_s, asked_by=entry.asked_by
                )
                for last in history.entries(session=entry.name, last=1):
                    opened.decision = last.id
                    opened.plan = _taken(history.result(last.id)).planned
                found.append(opened)
            return found

        self._sessions = {opened.name: opened for opened in await self.writer.read(recorded)}

    def __len__(self) -> int:
        return len(self._sessions)

    async def sessions(self) -> list[SessionSummary]:
        """Return the open sessions, by name."""
        return [await self.session(name) for name in sorted(self._sessions)]

    async def session(self, name: str) -> SessionSummary:
        """Return one session as it is on disk; `NotOnRecord` if it is not open."""
        return (await self._settled(name)).summary()

    async def instance(self, name: str) -> Any:
        """Return the instance of a session as it is on disk."""
        return (await self._settled(name)).instance

    def check_open(self, name: str) -> None:
        """Raise `NotOnRecord` if no session of this name is open."""
        self._held(name)

    async def open(self, asked: OpenSession, asked_by: str) -> SessionSummary:
        """Open a session; asked again by the same id, or with the same instance, it is opened once.

        Raises
        ------
        Conflict
            If one of that name is open with another instance, too many are, or the id was used for something
            else.
        InvalidInstance
            If the instance is not valid.
        """
        body = body_digest(asked)
        return await self._openings.join(
            (asked.name, "open"), body, lambda: self._open(asked, body, asked_by)
        )

    async def _open(self, asked: OpenSession, body: str, asked_by: str) -> SessionSummary:
        name, request = asked.name, asked.request
        opened = self._sessions.get(name)
        if self._known(name, opened, request, body) is not None:
            if opened is None:
                raise Conflict(
                    f"request {request!r} has opened {name!r}, which was closed since; take another id"
                )
            return await self.session(name)
        instance = await asyncio.to_thread(read, asked.instance)
        if name in self._sessions:
            opened = self._sessions[name]
            if opened.revision == 0 and opened.instance == instance:
                return await self.session(name)  # the same asked again
            raise Conflict(f"a session {name!r} is open already; close it, or choose another name")
        if len(self._sessions) >= self.limits.sessions:
            raise Conflict(f"{self.limits.sessions} sessions are open, which is the limit; close one")
        at_s = time.time()

        def write(record: Record) -> int:
            revision = record.open_session(name, instance, at_s=at_s, asked_by=asked_by)
            if request is not None:
                record.ask(name, request, Asked(body, revision, None), at_s=at_s)
            return revision

        revision = await asyncio.shield(self.writer.write(write))
        self._sessions[name] = OpenedSession(name, instance, revision, created_s=at_s, asked_by=asked_by)
        return await self.session(name)

    async def close(self, name: str) -> None:
        """Close a session; its decisions stay on record. One that is closed already stays closed."""
        opened = self._sessions.pop(name, None)
        if opened is None:
            if not self.writer.read_now(lambda history: history.has_session(name)):
                raise NotOnRecord(f"no session {name!r} is open, or ever was")
            return
        try:
            await asyncio.shield(
                self._put(opened, lambda record: record.close_session(name, at_s=time.time()))
            )
        except ApportionError:
            self._sessions.setdefault(name, opened)
            raise

    async def change(
        self, name: str, deltas: list[dict[str, Any]], request: str | None, body: str, asked_by: str
    ) -> int:
        """Change the instance of a session and return its revision; asked again, it is done once."""
        opened = self._held(name)
        known = self._known(name, opened, request, body)
        if known is None:
            revision = opened.change(deltas, request, body, time.time(), asked_by)
        else:
            revision = known.revision
        await self._settle(opened)
        return revision

    async def decide(
        self, name: str, asked: DecideSession, asked_by: str, better: Callable[[bytes], None] = lambda _: None
    ) -> Made:
        """Change a session's instance and decide it; asked again by the same id, the same is answered.

        Raises
        ------
        InvalidInstance
            If a delta does not fit; nothing is changed then.
        Conflict
            If the id was used for something else.
        Busy
            If too much is waiting.
        """
        self._held(name)
        self.limits.check_time_limit(asked.time_limit)
        body = body_digest(asked)
        if asked.request is None:
            return await self._decide(name, asked, body, asked_by, better)
        key = (name, asked.request)
        return await self._pending.join(key, body, lambda: self._decide(name, asked, body, asked_by, better))

    async def _decide(
        self, name: str, asked: DecideSession, body: str, asked_by: str, better: Callable[[bytes], None]
    ) -> Made:
        at_s, began = time.time(), time.monotonic()
        opened = self._held(name)
        known = self._known(name, opened, asked.request, body)
        if known is not None and known.decision is not None:
            return await self.past.made(known.decision)
        if known is None:
            request = asked.request if asked.deltas else None
            revision = opened.change(asked.deltas, request, body, at_s, asked_by)
        else:
            revision = known.revision
        state, epoch = State(opened.instance, revision, opened.plan), opened.epoch
        try:
            if revision != opened.revision:
                await self._settle(opened)
                earlier = await self.writer.read(lambda history: history.instance(name, revision))
                state = State(earlier, revision, state.plan)
            answer = await answered(self.pool, opened, state, asked, self.limits.grace_s, better)
        except BaseException:  # the change stands, whatever became of the decision
            await self._settle(opened)
            raise
        if answer.late:
            self.metrics.late.inc()
        decided = Decided(
            session=name,
            revision=revision,
            result=answer.document,
            at_s=at_s,
            seconds=time.monotonic() - began,
            asked_by=asked_by,
            policy=asked_policy(asked.policy) or OPTIMUM,
            status=answer.status,
            options={name: getattr(asked, name) for name in _OPTIONS_ON_RECORD},
            proof=answer.proof,
        )
        if epoch != opened.epoch:
            raise RecordFull("a change that this decision is about could not be put on record; ask again")
        return await self._on_record(opened, decided, asked.request, body)

    async def _on_record(
        self, opened: OpenedSession, decided: Decided, request: str | None, body: str
    ) -> Made:
        """Put a decision on record, then take its plan over as the session's last one."""

        def write(record: Record) -> int:
            number = record.decide(decided)
            if request is not None:
                record.ask(opened.name, request, Asked(body, decided.revision, number), at_s=decided.at_s)
            return number

        number = await _to_the_end(self._put(opened, write))
        taken = _taken(decided.result)
        if taken.planned is not None and (opened.decision is None or number > opened.decision):
            opened.plan = taken.planned
        opened.decision = max(number, opened.decision or 0)
        self.metrics.decided(decided, taken.termination, taken.gap)
        return Made(decision=decided.summary(number), result=msgspec.Raw(decided.result))

    def _held(self, name: str) -> OpenedSession:
        if name not in self._sessions:
            raise NotOnRecord(f"no session {name!r} is open")
        return self._sessions[name]

    def _known(self, name: str, opened: OpenedSession | None, request: str | None, body: str) -> Asked | None:
        """Return what is known of a request, on record or not yet; `Conflict` if another body asked."""
        if request is None:
            return None
        known = None if opened is None else opened.asked(request)
        if known is None:
            known = self.writer.read_now(lambda history: history.asked(name, request))
        if known is not None and known.body != body:
            raise Conflict(f"request {request!r} has been made with another body; take another id")
        return known

    async def _settled(self, name: str) -> OpenedSession:
        """Return a session whose changes are all on disk."""
        opened = self._held(name)
        await self._settle(opened)
        return opened

    async def _settle(self, opened: OpenedSession) -> None:
        if opened.unwritten:
            await asyncio.shield(self._put(opened, lambda _: None))

    def _put(self, opened: OpenedSession, then: Callable[[Record], _T]) -> asyncio.Future[_T]:
        """Write the changes of a session that are not on disk, and something after them, or none of it.

        The changes are written once, however often they are handed over; what cannot be is taken back.
        """
        changes, epoch = tuple(opened.unwritten), opened.epoch

        def write(record: Record) -> _T:
            opened.write(record, changes, epoch)
            return then(record)

        def landed(written: asyncio.Future[_T]) -> None:
            if written.exception() is None:
                opened.landed(changes)
            elif changes and opened.epoch == epoch:
                opened.rollback()
                self.pool.forget(opened.name)

        future = self.writer.write(write, (lambda: opened.mark_failed(epoch)) if changes else (lambda: None))
        future.add_done_callback(landed)
        return future


async def _to_the_end(written: asyncio.Future[_T]) -> _T:
    """Return what is written, also to a caller that went away: asked again, it must find it."""
    while not written.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait({written})
    return written.result()


class _Taken(msgspec.Struct):
    """What is taken over from the stored document of a decision."""

    plan: msgspec.Raw
    termination: str
    gap: float | None

    @property
    def planned(self) -> bytes | None:
        """The plan as JSON, ``None`` without one."""
        return None if bytes(self.plan) == b"null" else bytes(self.plan)


_TAKEN = msgspec.json.Decoder(_Taken)


def _taken(document: bytes) -> _Taken:
    return _TAKEN.decode(document)
