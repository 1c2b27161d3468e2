"""One decision of a session, carried out by the workers: there is an answer whatever becomes of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from apportion.service import tasks
from apportion.service.errors import Late, Refused, WorkerLost
from apportion.service.held import Held
from apportion.service.keeping import kept
from apportion.service.pool import Pool, Seat
from apportion.session.asking import DecideSession

__all__ = ["Answer", "State", "answered"]

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
    held: Held,
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
        return held.task(seat, state.instance, state.revision, whole, asked)

    for _ in range(_ATTEMPTS):
        try:
            left = max(0.001, until - time.monotonic())
            answer = await pool.run(task, asked.time_limit, left, heard, held.name)
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
