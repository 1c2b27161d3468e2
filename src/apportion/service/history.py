"""Decisions on record, read and asked about: what they were, why, and what they would have been."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from apportion.service import tasks
from apportion.service.messages import Limits, Made, Refused, Round, WhatIf
from apportion.service.pool import Pool
from apportion.service.record import Entry, History
from apportion.service.record.writing import RecordWriter

__all__ = ["DecisionHistory"]

_T = TypeVar("_T")


class DecisionHistory:
    """What callers may ask of decisions that stand on record.

    Parameters
    ----------
    ledger, pool, limits
        The record, the workers that explain and compare, and what the administrator allows.
    """

    def __init__(self, ledger: RecordWriter, pool: Pool, limits: Limits) -> None:
        self._ledger = ledger
        self._pool = pool
        self._limits = limits

    async def made(self, number: int) -> Made:
        """Return a decision and its result."""
        return await self._of(
            number,
            lambda history, entry: Made(
                decision=entry.summary(), result=msgspec.Raw(history.result(entry.id))
            ),
        )

    async def instance(self, number: int) -> Any:
        """Return the instance that a decision was about."""
        return await self._of(number, _instance)

    async def rounds(self, session: str, last: int) -> list[Round]:
        """Return the last decisions of a session as points in time, the oldest first."""
        return await self._ledger.read(
            lambda history: [
                _round(entry, msgspec.json.decode(history.result(entry.id)))
                for entry in history.entries(session=session, last=last)
            ]
        )

    async def compare(self, number: int, asked: WhatIf) -> bytes:
        """Return what the plan of a decision would have been with some changes, as JSON."""
        instance = msgspec.json.encode(await self.instance(number))
        task = tasks.Compare(instance, msgspec.json.encode(asked.deltas), asked.time_limit)
        return await self._said(task, asked.time_limit)

    async def explain(self, number: int, job: str | None, option: str | None, time_limit: float) -> bytes:
        """Return why the plan of a decision was as it was, as JSON."""
        instance, document = await self._of(
            number, lambda history, entry: (_instance(history, entry), history.result(entry.id))
        )
        task = tasks.Explain(msgspec.json.encode(instance), document, job, option, time_limit)
        return await self._said(task, time_limit)

    async def _of(self, number: int, read: Callable[[History, Entry], _T]) -> _T:
        return await self._ledger.read(lambda history: read(history, history.entry(number)))

    async def _said(self, task: tasks.Task, time_limit: float) -> bytes:
        self._limits.check_time_limit(time_limit)
        answer = await self._pool.run(lambda _: task, time_limit, time_limit + self._limits.grace_s)
        if isinstance(answer, tasks.Failed):
            raise Refused(answer.error)
        assert isinstance(answer, tasks.Said)
        return answer.body


def _instance(history: History, entry: Entry) -> Any:
    return history.instance(entry.session, entry.revision)


def _round(entry: Entry, document: dict[str, Any]) -> Round:
    return Round(
        decision=entry.summary(),
        termination=entry.termination,
        objective=entry.objective,
        bound=entry.bound,
        gap=entry.gap,
        prices=document["certificate"]["multipliers"],
        shares=_shares(document["plan"]),
    )


def _shares(plan: Any) -> dict[str, str]:
    """Return what every job got, in a word: a number of nodes, or an option."""
    columns = plan.values() if isinstance(plan, dict) else ()
    got = [(job, part) for column in columns if isinstance(column, dict) for job, part in column.items()]
    return {job: str(len(part)) if isinstance(part, list) else str(part) for job, part in got if part}
