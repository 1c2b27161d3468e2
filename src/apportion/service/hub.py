"""Sessions, their decisions and their record: all that the service does, without HTTP."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from apportion.errors import InvalidInstance
from apportion.instances import edits
from apportion.instances.kinds import kind_of
from apportion.reading.read import read
from apportion.record import Asked, Decided, Entry, History, NotOnRecord
from apportion.service import tasks
from apportion.service.errors import Conflict, Late, Refused, WorkerLost
from apportion.service.flights import Flights
from apportion.service.held import Held
from apportion.service.keeping import kept
from apportion.service.ledger import Ledger
from apportion.service.messages import (
    DecisionSummary,
    Made,
    SessionSummary,
    WhatIf,
    body_digest,
)
from apportion.service.metrics import Metrics
from apportion.service.pool import Pool, Seat
from apportion.session.asking import DecideSession

__all__ = ["Hub", "Limits", "summary_of"]

_OPTIMUM = "optimal"


@dataclass(frozen=True, slots=True)
class Limits:
    """What the administrator allows.

    Attributes
    ----------
    sessions
        Sessions that may be open.
    longest_s
        The longest time limit of a decision, seconds.
    grace_s
        Seconds after a decision's time limit at which its worker is killed.
    """

    sessions: int = 256
    longest_s: float = 600.0
    grace_s: float = 1.0


class Hub:
    """The sessions of a service.

    Parameters
    ----------
    ledger, pool, metrics, limits
        Its record, its workers, what it counts, and what it allows.
    """

    def __init__(self, ledger: Ledger, pool: Pool, metrics: Metrics, limits: Limits) -> None:
        self.ledger = ledger
        self.pool = pool
        self.metrics = metrics
        self.limits = limits
        self._sessions: dict[str, Held] = {}
        self._flights: Flights[Made] = Flights()

    async def recover(self) -> None:
        """Open again every session that is open on record."""

        def recorded(history: History) -> list[tuple[Held, int]]:
            found = []
            for entry in history.sessions():
                instance = history.instance(entry.name, entry.revision)
                held = Held(
                    entry.name, instance, entry.revision, created_s=entry.created_s, asked_by=entry.asked_by
                )
                for last in history.entries(session=entry.name, last=1):
                    held.decision = last.id
                    held.plan = msgspec.json.decode(history.result(last.id))["plan"]
                found.append((held, entry.revision))
            return found

        self._sessions = {held.name: held for held, _ in await self.ledger.read(recorded)}

    def sessions(self) -> list[SessionSummary]:
        """Return the open sessions, by name."""
        return [self.session(name) for name in sorted(self._sessions)]

    def session(self, name: str) -> SessionSummary:
        """Return one session; `NotOnRecord` if it is not open."""
        held = self._held(name)
        return held.summary(kind_of(held.instance).name, edits.capacities(held.instance))

    def instance(self, name: str) -> Any:
        """Return the instance of a session as it is now."""
        return self._held(name).instance

    async def open(self, name: str, source: dict[str, Any], asked_by: str) -> SessionSummary:
        """Open a session.

        Raises
        ------
        Conflict
            If one of that name is open with another instance, or too many are.
        InvalidInstance
            If the instance is not valid.
        """
        instance = await asyncio.to_thread(read, source)
        if name in self._sessions:
            held = self._sessions[name]
            if held.revision == 0 and held.instance == instance:
                return self.session(name)  # the same asked again
            raise Conflict(f"a session {name!r} is open already; close it, or choose another name")
        if len(self._sessions) >= self.limits.sessions:
            raise Conflict(f"{self.limits.sessions} sessions are open, which is the limit; close one")
        at_s = time.time()
        revision = await self.ledger.write(
            lambda record: record.open_session(name, instance, at_s=at_s, asked_by=asked_by)
        )
        self._sessions[name] = Held(name, instance, revision, created_s=at_s, asked_by=asked_by)
        return self.session(name)

    async def close(self, name: str) -> None:
        """Close a session; its decisions stay on record."""
        held = self._held(name)
        async with held.lock:
            await self.ledger.write(lambda record: record.close_session(name, at_s=time.time()))
            self._sessions.pop(name, None)

    async def change(
        self, name: str, deltas: list[dict[str, Any]], request: str | None, body: str, asked_by: str
    ) -> int:
        """Change the instance of a session and return its revision; asked again, it is done once."""
        held = self._held(name)
        async with held.lock:
            known = self._known(name, request, body)
            return (
                held.revision
                if known is None and not deltas
                else await self._changed(held, deltas, request, body, asked_by, known)
            )

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
        if asked.time_limit > self.limits.longest_s:
            raise InvalidInstance.at(
                "$.time_limit", f"must be at most {self.limits.longest_s:g} seconds here"
            )
        body = body_digest(asked)
        key = (name, asked.request or f"\0{secrets.token_hex(8)}")
        return await self._flights.join(key, body, lambda: self._decide(name, asked, body, asked_by, better))

    async def compare(self, number: int, asked: WhatIf) -> bytes:
        """Return what the plan of a decision would have been with some changes, as JSON."""
        instance = await self.ledger.read(lambda history: _instance(history, history.entry(number)))
        task = tasks.Compare(
            msgspec.json.encode(instance), msgspec.json.encode(asked.deltas), asked.time_limit
        )
        return await self._said(task, asked.time_limit)

    async def explain(self, number: int, job: str | None, option: str | None, time_limit: float) -> bytes:
        """Return why the plan of a decision was as it was, as JSON."""

        def recorded(history: History) -> tuple[Any, bytes]:
            return _instance(history, history.entry(number)), history.result(number)

        instance, document = await self.ledger.read(recorded)
        task = tasks.Explain(msgspec.json.encode(instance), document, job, option, time_limit)
        return await self._said(task, time_limit)

    async def made(self, number: int) -> Made:
        """Return a decision from the record."""

        def recorded(history: History) -> Made:
            entry = history.entry(number)
            return Made(decision=summary_of(entry), result=msgspec.Raw(history.result(number)))

        return await self.ledger.read(recorded)

    def _held(self, name: str) -> Held:
        if name not in self._sessions:
            raise NotOnRecord(f"no session {name!r} is open")
        return self._sessions[name]

    def _known(self, name: str, request: str | None, body: str) -> Asked | None:
        known = (
            None
            if request is None
            else self.ledger.read_now(lambda history: history.asked(name, str(request)))
        )
        if known is not None and known.body != body:
            raise Conflict(f"request {request!r} has been made with another body; take another id")
        return known

    async def _changed(
        self,
        held: Held,
        deltas: list[dict[str, Any]],
        request: str | None,
        body: str,
        asked_by: str,
        known: Asked | None,
    ) -> int:
        """Put a change on record, then make it; called with the session's lock."""
        if known is not None:
            return known.revision
        draft = held.tried(deltas) if deltas else None
        at_s = time.time()

        def write(record: Any) -> int:
            revision = held.revision
            if draft is not None:
                revision = record.change(held.name, deltas, draft.instance(), at_s=at_s, asked_by=asked_by)
            if request is not None:
                record.ask(held.name, request, Asked(body, revision, None), at_s=at_s)
            return int(revision)

        if draft is None and request is None:
            return held.revision
        revision = await self.ledger.write(write)
        if draft is not None:
            held.changed(draft, deltas, revision)
        return revision

    async def _decide(
        self, name: str, asked: DecideSession, body: str, asked_by: str, better: Callable[[bytes], None]
    ) -> Made:
        at_s, began = time.time(), time.monotonic()
        held = self._held(name)
        async with held.lock:
            known = self._known(name, asked.request, body)
            if known is not None and known.decision is not None:
                return await self.made(known.decision)
            revision = await self._changed(held, asked.deltas, asked.request, body, asked_by, known)
            instance, plan = held.instance, held.plan
        if revision != held.revision and known is not None:
            instance = await self.ledger.read(lambda history: history.instance(name, revision))
        document, proof, status = await self._answered(held, instance, revision, plan, asked, better)
        decided = Decided(
            session=name,
            revision=revision,
            result=document,
            at_s=at_s,
            seconds=time.monotonic() - began,
            asked_by=asked_by,
            policy=asked.policy or _OPTIMUM,
            status=status,
            options={
                "time_limit": asked.time_limit,
                "gap": asked.gap,
                "seed": asked.seed,
                "proof": asked.proof,
            },
            proof=proof,
        )

        def write(record: Any) -> int:
            number = record.decide(decided)
            if asked.request is not None:
                record.ask(name, asked.request, Asked(body, revision, number), at_s=at_s)
            return int(number)

        number = await self.ledger.write(write)
        result = msgspec.json.decode(document)
        if result["plan"] is not None and (held.decision is None or number > held.decision):
            held.plan = result["plan"]
        held.decision = max(number, held.decision or 0)
        self.metrics.decided(decided, result["termination"], result["gap"])
        summary = DecisionSummary(
            id=number,
            session=name,
            revision=revision,
            at_s=at_s,
            seconds=decided.seconds,
            asked_by=asked_by,
            policy=decided.policy,
            status=status,
        )
        return Made(decision=summary, result=msgspec.Raw(document))

    async def _answered(
        self,
        held: Held,
        instance: Any,
        revision: int,
        plan: Any,
        asked: DecideSession,
        better: Callable[[bytes], None],
    ) -> tuple[bytes, bytes | None, str]:
        """Return document, proof and status of a decision, whatever becomes of the worker."""
        until = time.monotonic() + asked.time_limit + self.limits.grace_s
        best: list[bytes] = []
        whole = False

        def heard(found: tasks.Better) -> None:
            best.append(found.document)
            better(found.document)

        def task(seat: Seat) -> tasks.Decide:
            return held.task(seat, instance, revision, whole, asked)

        for _ in range(3):  # a worker that was lost, or that had forgotten the session, is asked once more
            try:
                left = max(0.001, until - time.monotonic())
                answer = await self.pool.run(task, asked.time_limit, left, heard, held.name)
            except WorkerLost as error:
                why = str(error)
            except Late as error:
                why = str(error)
                break
            else:
                if isinstance(answer, tasks.Decided):
                    return answer.document, answer.proof, "decided"
                if isinstance(answer, tasks.Failed):
                    raise Refused(answer.error)
                why = "the workers do not hold the session"
            whole = True
        self.metrics.late.inc()
        if best:
            return best[-1], None, "late"
        return await asyncio.to_thread(kept, instance, plan, why), None, "late"

    async def _said(self, task: tasks.Task, time_limit: float) -> bytes:
        if time_limit > self.limits.longest_s:
            raise InvalidInstance.at(
                "$.time_limit", f"must be at most {self.limits.longest_s:g} seconds here"
            )
        deadline_s = time_limit + self.limits.grace_s
        answer = await self.pool.run(lambda _: task, time_limit, deadline_s)
        if isinstance(answer, tasks.Failed):
            raise Refused(answer.error)
        assert isinstance(answer, tasks.Said)
        return answer.body


def _instance(history: History, entry: Entry) -> Any:
    return history.instance(entry.session, entry.revision)


def summary_of(entry: Entry) -> DecisionSummary:
    """Return what callers are told of a decision on record."""
    return DecisionSummary(**{name: getattr(entry, name) for name in DecisionSummary.__struct_fields__})
