"""A process that decides: it keeps sessions warm, and may be killed at any moment, for it owns nothing."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, BinaryIO

import msgspec

from apportion.core.errors import ApportionError, error_object
from apportion.core.outcome import Termination
from apportion.io import stored
from apportion.io.read import read
from apportion.service.session import Session
from apportion.service.tasks import (
    HEAD_BYTES,
    Answer,
    Better,
    Compare,
    Decide,
    Decided,
    Explain,
    Failed,
    Said,
    Stale,
    Task,
    decode_task,
    frame,
    size_of,
)

__all__ = ["Worker", "main"]

_KEPT_SESSIONS = 64
_KEPT_JOBS = 50_000
"""Jobs of the sessions that are kept, the last one apart; ten thousand of 8 options take some 35 MiB."""
_FIRST_SHARE, _FIRST_S = 0.2, 0.5
_FINAL = frozenset({Termination.OPTIMAL, Termination.GAP_REACHED, Termination.INFEASIBLE})
_SET_PARENT_DEATH_SIGNAL = 1


class Worker:
    """Carries tasks out, one after the other.

    Parameters
    ----------
    tell
        Called with plans found on the way.
    """

    def __init__(self, tell: Callable[[Answer], None]) -> None:
        self._tell = tell
        self._sessions: OrderedDict[str, tuple[int, Session]] = OrderedDict()

    def answer(self, task: Task) -> Answer:
        """Return the answer to a task; what goes wrong is an answer too."""
        try:
            if isinstance(task, Decide):
                return self._decide(task)
            return _compare(task) if isinstance(task, Compare) else _explain(task)
        except ApportionError as error:
            return Failed(error_object(error))
        except Exception as error:  # the worker must outlive any one task
            return Failed(error_object(error))

    def _decide(self, task: Decide) -> Answer:
        session = self._session(task)
        if session is None:
            return Stale()
        limits = [task.time_limit]
        first = min(_FIRST_SHARE * task.time_limit, _FIRST_S)
        if not task.proof and task.policy is None and task.time_limit > _FIRST_S:
            limits = [first, task.time_limit - first]
        for limit in limits:  # what is not proven at once goes on from the plan that is told of
            decision = session.decide(
                policy=task.policy, time_limit=limit, gap=task.gap, seed=task.seed, proof=task.proof
            )
            document = stored.encode(stored.document(decision.solution))
            if limit is not limits[-1]:
                if decision.status in _FINAL:
                    break
                if decision.plan is not None:
                    self._tell(Better(document))
        proof = None
        if decision.solution.proof is not None:
            from apportion.proofs.certificate import encode

            proof = encode(decision.solution.proof)
        return Decided(document, proof)

    def _session(self, task: Decide) -> Session | None:
        """Return the session at the revision of a task, ``None`` if what is held is of another revision."""
        if task.instance is not None:
            session = Session(read(task.instance))
        else:
            revision, session = self._sessions.get(task.session, (None, None))  # type: ignore[assignment]
            if revision != task.since:
                return None
        deltas = msgspec.json.decode(task.deltas)
        if deltas:
            session.apply(*deltas)
        self._sessions[task.session] = (task.revision, session)
        self._sessions.move_to_end(task.session)
        self._forget()
        return session

    def _forget(self) -> None:
        """Let go of the sessions that were not asked about for longest, where too much is kept."""
        jobs = sum(len(session.instance.jobs) for _, session in self._sessions.values())
        while len(self._sessions) > 1 and (len(self._sessions) > _KEPT_SESSIONS or jobs > _KEPT_JOBS):
            _, (_, session) = self._sessions.popitem(last=False)
            jobs -= len(session.instance.jobs)


def _compare(task: Compare) -> Answer:
    from apportion.service.session import what_if

    comparison = what_if(read(task.instance), msgspec.json.decode(task.deltas), time_limit=task.time_limit)
    return Said(_json({**comparison.to_dict(), "text": str(comparison)}))


def _explain(task: Explain) -> Answer:
    from apportion.explanation import explain
    from apportion.service.record.replaying import restored

    instance = read(task.instance)
    solution = restored(instance, msgspec.json.decode(task.document))
    explanation = explain(instance, solution, task.job, task.option, time_limit=task.time_limit)
    return Said(_json({**explanation.to_dict(), "text": str(explanation)}))


def _json(value: Any) -> bytes:
    return msgspec.json.encode(value)


def main() -> None:
    """Answer tasks from the socket whose number is the first argument, until it is closed."""
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the service, which ends its workers
    if os.getppid() != parent:
        return
    connection = socket.socket(fileno=int(sys.argv[1]))
    connection.set_inheritable(False)  # a child that outlived this process would hide its end
    with connection, connection.makefile("rb") as tasks, connection.makefile("wb") as answers:
        _warm()

        def tell(answer: Answer) -> None:
            answers.write(frame(answer))
            answers.flush()

        worker = Worker(tell)
        tell(Said(b"{}"))  # ready
        while (task := _next(tasks)) is not None:
            tell(worker.answer(task))


def _next(stream: BinaryIO) -> Task | None:
    head = stream.read(HEAD_BYTES)
    if len(head) < HEAD_BYTES:
        return None
    body = stream.read(size_of(head))
    return decode_task(body)


def _warm() -> None:
    """Decide a round of nothing, so that the first real one finds everything imported."""
    from apportion.instances.gap_filling.generator import generate

    stored.document(Session(generate(seed=0, jobs=2, nodes=4)).decide(time_limit=1.0).solution)


if __name__ == "__main__":
    main()
