"""The open sessions of a service: opened, changed, decided and put on record, without HTTP."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from typing import Any

import msgspec

from apportion.instances import edits
from apportion.instances.kinds import kind_of
from apportion.reading.read import read
from apportion.record import Asked, Decided, History, NotOnRecord, Record
from apportion.service.deciding import State, answered
from apportion.service.errors import Conflict
from apportion.service.flights import Flights
from apportion.service.held import Held
from apportion.service.ledger import Ledger
from apportion.service.limits import Limits
from apportion.service.messages import Made, SessionSummary, body_digest
from apportion.service.metrics import Metrics
from apportion.service.past import Past
from apportion.service.pool import Pool
from apportion.session.asking import DecideSession

__all__ = ["Hub"]

_OPTIMUM = "optimal"
_OPTIONS_ON_RECORD = ("time_limit", "gap", "seed", "proof")


class Hub:
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

    def __init__(self, ledger: Ledger, pool: Pool, metrics: Metrics, limits: Limits) -> None:
        self.ledger = ledger
        self.pool = pool
        self.metrics = metrics
        self.limits = limits
        self.past = Past(ledger, pool, limits)
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
        self.limits.check_time_limit(asked.time_limit)
        body = body_digest(asked)
        key = (name, asked.request or f"\0{secrets.token_hex(8)}")
        return await self._flights.join(key, body, lambda: self._decide(name, asked, body, asked_by, better))

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

        def write(record: Record) -> int:
            revision = held.revision
            if draft is not None:
                revision = record.change(held.name, deltas, draft.instance(), at_s=at_s, asked_by=asked_by)
            if request is not None:
                record.ask(held.name, request, Asked(body, revision, None), at_s=at_s)
            return revision

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
                return await self.past.made(known.decision)
            revision = await self._changed(held, asked.deltas, asked.request, body, asked_by, known)
            state = State(held.instance, revision, held.plan)
        if revision != held.revision and known is not None:
            earlier = await self.ledger.read(lambda history: history.instance(name, revision))
            state = State(earlier, revision, state.plan)
        answer = await answered(self.pool, held, state, asked, self.limits.grace_s, better)
        if answer.late:
            self.metrics.late.inc()
        decided = Decided(
            session=name,
            revision=revision,
            result=answer.document,
            at_s=at_s,
            seconds=time.monotonic() - began,
            asked_by=asked_by,
            policy=asked.policy or _OPTIMUM,
            status=answer.status,
            options={name: getattr(asked, name) for name in _OPTIONS_ON_RECORD},
            proof=answer.proof,
        )
        return await self._on_record(held, decided, asked.request, body)

    async def _on_record(self, held: Held, decided: Decided, request: str | None, body: str) -> Made:
        """Put a decision on record, then take its plan over as the session's last one."""

        def write(record: Record) -> int:
            number = record.decide(decided)
            if request is not None:
                record.ask(held.name, request, Asked(body, decided.revision, number), at_s=decided.at_s)
            return number

        number = await self.ledger.write(write)
        result = msgspec.json.decode(decided.result)
        if result["plan"] is not None and (held.decision is None or number > held.decision):
            held.plan = result["plan"]
        held.decision = max(number, held.decision or 0)
        self.metrics.decided(decided, result["termination"], result["gap"])
        return Made(decision=decided.summary(number), result=msgspec.Raw(decided.result))
