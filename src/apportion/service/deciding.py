"""One decision of a session, carried out by the workers: at a deadline the last plan, checked again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from apportion.core.outcome import Termination
from apportion.core.solution import Certificate, Solution
from apportion.io import stored
from apportion.service import tasks
from apportion.service.applying import DecideSession
from apportion.service.messages import Late, Refused, WorkerLost
from apportion.service.open_session import OpenedSession
from apportion.service.pool import Pool, Seat
from apportion.solving.api import check

__all__ = ["Answer", "State", "answered", "kept"]


def kept(instance: Any, plan: bytes | None, why: str) -> bytes:
    """Return a stored document for an instance that was not decided in time.

    Parameters
    ----------
    instance
        The instance.
    plan
        The session's last plan as JSON, ``None`` without one.
    why
        What happened.

    Notes
    -----
    Jobs and nodes that are gone are taken out of the plan. If the checker then refuses it, there is none.
    """
    fitted = None if plan is None else _fitted(instance, msgspec.json.decode(plan))
    report = None if fitted is None else check(instance, fitted)
    feasible = report is not None and report.feasible
    notes = [why]
    if report is not None and not feasible:
        notes.append(f"the last plan does not fit any more: {report.violations[0]}")
    solution = Solution(
        instance=instance,
        backend="last_plan",
        reason="the plan of the session's last decision",
        termination=Termination.TIME_LIMIT,
        plan=fitted if feasible else None,
        report=report if feasible else None,
        certificate=Certificate(report.objective if report and feasible else None, None, None, None, None),
        outcome=None,
        times={},
        seed=0,
        notes=tuple(notes),
    )
    return stored.encode(stored.document(solution))


def _fitted(instance: Any, plan: Mapping[str, Any]) -> dict[str, Any]:
    jobs = {job.id for job in instance.jobs}
    nodes = set(getattr(instance, "nodes", ()))

    def part(given: Any) -> Any:
        return [node for node in given if node in nodes] if isinstance(given, list) and nodes else given

    return {
        name: {job: part(given) for job, given in column.items() if job in jobs}
        if isinstance(column, Mapping)
        else column
        for name, column in plan.items()
    }


_ATTEMPTS = 3
"""A worker that was lost, or that had forgotten the session, is replaced and asked once more."""


@dataclass(frozen=True, slots=True)
class State:
    """A session as it was when its decision was asked for.

    Attributes
    ----------
    instance, revision
        Its instance, and which revision of it that is.
    plan
        The session's last plan as JSON, ``None`` without one.
    """

    instance: Any
    revision: int
    plan: bytes | None


@dataclass(frozen=True, slots=True)
class Answer:
    """A decision as the workers made it, or what stands in for it after the deadline.

    Attributes
    ----------
    document
        The stored document as JSON.
    proof
        The bytes of the proof of its claim.
    late
        Whether the deadline passed, so that an earlier plan is answered.
    """

    document: bytes
    proof: bytes | None
    late: bool

    @property
    def status(self) -> str:
        """``decided`` or ``late``."""
        return "late" if self.late else "decided"


async def answered(
    pool: Pool,
    opened: OpenedSession,
    state: State,
    asked: DecideSession,
    grace_s: float,
    better: Callable[[bytes], None],
) -> Answer:
    """Return the answer to a request for a decision.

    Parameters
    ----------
    pool
        The workers.
    held, state
        The session, and what of it is decided.
    asked
        The request.
    grace_s
        Seconds after the request's time limit at which an earlier plan is answered.
    better
        Called with the stored document of every plan on the way.

    Raises
    ------
    Refused
        If the worker says that what is asked cannot be done.
    """
    until = time.monotonic() + asked.time_limit + grace_s
    best: list[bytes] = []
    whole = False

    def heard(found: tasks.Better) -> None:
        best.append(found.document)
        better(found.document)

    def task(seat: Seat) -> tasks.Decide:
        return opened.task(seat, state.instance, state.revision, whole, asked)

    for _ in range(_ATTEMPTS):
        try:
            left = max(0.001, until - time.monotonic())
            answer = await pool.run(task, asked.time_limit, left, heard, opened.name)
        except WorkerLost as error:
            why = str(error)
        except Late as error:
            why = str(error)
            break
        else:
            if isinstance(answer, tasks.Decided):
                return Answer(answer.document, answer.proof, late=False)
            if isinstance(answer, tasks.Failed):
                raise Refused(answer.error)
            why = "the workers do not hold the session"
        whole = True
    document = best[-1] if best else await asyncio.to_thread(kept, state.instance, state.plan, why)
    return Answer(document, None, late=True)
