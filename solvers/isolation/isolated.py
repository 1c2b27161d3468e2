"""A hard deadline for any backend: run it in a spawned, reused child process that is ended when time is up.

HiGHS overruns its limit in presolve and ignores Ctrl-C; a solver can crash or exhaust the memory. Whatever
happens to the child, the caller has the last incumbent that was streamed, or its own start.

The best that a child process streamed: checked here, for a child can send anything.
"""

from __future__ import annotations

import atexit
import math
import os
import threading
import time
from dataclasses import replace
from functools import cache
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from apportion.core.errors import ApportionError
from apportion.core.interruption import heard
from apportion.core.options import Point, SolveOptions
from apportion.core.outcome import Outcome, Report, Termination
from apportion.models.multiple_choice import Sense
from apportion.solvers.clock import Clock
from apportion.solvers.general.points import BestFound
from apportion.solvers.isolation.process import Process, UnreadableAnswer

__all__ = ["CheckedModel", "Child", "StreamedBest", "solve"]


class CheckedModel(Protocol):
    """A model that checks points itself, and travels without its names."""

    @property
    def sense(self) -> Sense:
        """Whether it maximises or minimises."""

    def check(self, point: NDArray[Any], /) -> Report:
        """Check a point; one of a wrong shape has no objective."""

    def nameless(self) -> Self:
        """Return the model without the names of its parts."""


class StreamedBest(BestFound[Point]):
    """The best feasible point that was streamed and the best bound that was claimed.

    Parameters
    ----------
    model
        What points are checked against.
    options
        For `on_incumbent`; what it raises passes through and is kept in `raised`.
    clock
        For the seconds reported.
    """

    def __init__(self, model: CheckedModel, options: SolveOptions, clock: Clock) -> None:
        super().__init__(model.sense == "maximize", options, clock)
        self._model = model

    def begin_with(self, start: Point | None) -> None:
        """Take a start as the first incumbent, if it is feasible; nobody is told."""
        if (checked := self._checked(start)) is not None:
            self.keep(*checked)

    def take(self, point: Any, bound: Any) -> None:
        """Take what was streamed, as far as it is a better bound or a better feasible point."""
        if _is_number(bound):
            self.tighten(float(bound))
        if (checked := self._checked(point)) is not None:
            self.offer(*checked)

    def outcome(self, termination: Termination, raw: str) -> Outcome:
        """Return what there is as an outcome."""
        return Outcome(
            termination=termination,
            raw_status=raw,
            point=self.point,
            objective=self.objective,
            bound=self.bound,
            bound_source=None if self.bound is None else "solver",
        )

    def merged(self, outcome: Any) -> Outcome:
        """Return the backend's outcome, with the best incumbent where its own is worse or no point at all."""
        if not isinstance(outcome, Outcome) or not isinstance(outcome.termination, Termination):
            return self.outcome(Termination.ERROR, f"the backend returned {type(outcome).__name__}")
        if outcome.point is None:
            return outcome if self.point is None else self._with_own(outcome)
        found = _numbers(outcome.point)
        report = None if found is None else self._model.check(found)
        if report is None or report.objective is None:
            wrong = "is not finite numbers" if report is None else str(report.violations[0])
            return self.outcome(Termination.ERROR, f"the backend's point {wrong}")
        # an infeasible point is left for the caller's check to refuse, unless there is a better one here
        worse = self.objective is not None and (
            not report.feasible or self.sign * self.objective > self.sign * report.objective
        )
        return self._with_own(outcome) if worse else outcome

    def _with_own(self, outcome: Outcome) -> Outcome:
        return replace(outcome, point=self.point, objective=self.objective)

    def _checked(self, candidate: Any) -> tuple[Point, float] | None:
        point = None if candidate is None else _numbers(candidate)
        if point is None:
            return None
        report = self._model.check(point)
        return (point, report.objective) if report.feasible and report.objective is not None else None


def _numbers(candidate: Any) -> NDArray[Any] | None:
    try:
        point = np.array(candidate)
    except (TypeError, ValueError):
        return None
    return point if point.dtype.kind in "iuf" and bool(np.isfinite(point).all()) else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


_GRACE = 0.08
"""Seconds a child may take to hand over a result it has when the limit is reached."""
_LAST = 0.04
"""Seconds after the grace at which a child is killed by a timer, should this thread be stuck with it."""
_HEADROOM = 0.05
"""Seconds taken off the child's own limit, so that it usually ends by itself."""


class Child:
    """One child process, started when first needed and again when it has died.

    Parameters
    ----------
    memory_bytes
        Limit of the child's address space; ``None`` for no limit.

    Notes
    -----
    One solve at a time; a second thread waits for the first, but not beyond its own limit. Close it, or let
    it end with this process.
    """

    def __init__(self, memory_bytes: int | None = None) -> None:
        self._lock = threading.Lock()
        self._process = Process(memory_bytes or 0)
        self._number = 0

    @property
    def pid(self) -> int | None:
        """The process id of the living child, ``None`` if there is none."""
        return self._process.pid

    def close(self) -> None:
        """End the child."""
        self._process.close()

    def solve(
        self,
        entry: str,
        model: CheckedModel,
        options: SolveOptions,
        start: Point | None,
        extra: tuple[Any, ...] = (),
    ) -> Outcome:
        """Run ``entry`` (``"module:function"``) on a model in the child; see `solve`."""
        deadline = None if options.time_limit is None else time.perf_counter() + options.time_limit
        best = StreamedBest(model, options, Clock(options))
        best.begin_with(start)
        if not self._lock.acquire(timeout=-1.0 if options.time_limit is None else options.time_limit):
            return best.outcome(Termination.TIME_LIMIT, "the child process was busy")
        last = None if deadline is None else deadline + _GRACE + _LAST
        try:
            with self._process.ended_at(last) as struck:
                return self._solve(best, entry, model, options, start, extra, deadline, struck)
        except BaseException as error:
            if best.raised is None and isinstance(error, ApportionError):
                raise  # the backend is done and the child as good as before
            self.close()
            # a signal may strike inside the callback: then it is not the callback's own
            if isinstance(error, KeyboardInterrupt) and (best.raised is None or heard()):
                return best.outcome(Termination.INTERRUPTED, "KeyboardInterrupt")
            raise
        finally:
            self._lock.release()

    def _solve(
        self,
        best: StreamedBest,
        entry: str,
        model: CheckedModel,
        options: SolveOptions,
        start: Point | None,
        extra: tuple[Any, ...],
        deadline: float | None,
        struck: threading.Event,
    ) -> Outcome:
        fresh = self.pid is None
        while True:
            begun = False
            try:
                if not self._process.loaded(entry, deadline):
                    return best.outcome(Termination.TIME_LIMIT, "the child process was still starting")
                self._number += 1
                left = None if deadline is None else max(deadline - time.perf_counter() - _HEADROOM, 1e-3)
                given = replace(options, time_limit=left, on_incumbent=None)
                self._process.send(("solve", self._number, entry, extra, model.nameless(), given, start))
                while True:
                    message = self._process.receive(None if deadline is None else deadline + _GRACE)
                    if message is None:
                        self.close()
                        return best.outcome(Termination.TIME_LIMIT, "ended at the deadline")
                    begun = True
                    if (outcome := self._heard(best, *message)) is not None:
                        return outcome
            except (EOFError, OSError):
                if best.raised is not None:
                    raise
                end = self._process.epitaph()
                if struck.is_set():
                    return best.outcome(Termination.TIME_LIMIT, "ended at the deadline, deaf")
                if begun or fresh:
                    return best.outcome(*end)
                fresh = True  # it had died since the last call: once more, with a new one
            except UnreadableAnswer as error:
                self.close()
                return best.outcome(Termination.ERROR, f"unreadable answer: {error}")

    def _heard(self, best: StreamedBest, kind: str, number: int, *rest: Any) -> Outcome | None:
        """Act on a message; return the outcome if it is the last one."""
        if number != self._number:
            return None
        if kind == "incumbent":
            best.take(*rest)
        elif kind == "done":
            return best.merged(rest[0])
        elif kind == "memory":
            self.close()
            return best.outcome(Termination.MEMORY_LIMIT, rest[0])
        elif kind == "failed":
            if isinstance(rest[1], ApportionError):
                raise rest[1]
            return best.outcome(Termination.ERROR, rest[0])
        return None


class _Pool:
    """The children of one process: as many as were ever busy at once."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._idle: list[Child] = []
        atexit.register(self.close)

    def solve(
        self,
        entry: str,
        model: CheckedModel,
        options: SolveOptions,
        start: Point | None,
        extra: tuple[Any, ...],
    ) -> Outcome:
        """Solve in an idle child, or a new one."""
        try:
            child = self._idle.pop()
        except IndexError:
            child = Child()
        try:
            return child.solve(entry, model, options, start, extra)
        finally:
            self._idle.append(child)

    def close(self) -> None:
        """End the children; a forked copy of the pool leaves them alone."""
        while self._idle and os.getpid() == self._pid:
            self._idle.pop().close()


def solve(
    entry: str,
    model: CheckedModel,
    options: SolveOptions,
    start: Point | None = None,
    extra: tuple[Any, ...] = (),
) -> Outcome:
    """Run a backend in a reused child of this process, with `options.time_limit` as a hard deadline.

    Parameters
    ----------
    entry
        ``"module:function"`` of the backend.
    model
        The model; its names stay here.
    options
        `options.time_limit` counts from now and covers starting the child.
    start
        A start; if feasible, it is the incumbent from the beginning.
    extra
        Further positional arguments of the backend.

    Returns
    -------
    Outcome
        The backend's, or the best that was streamed with a termination that says what happened.

    Raises
    ------
    ApportionError
        What the backend raised on purpose; what `options.on_incumbent` raised passes unchanged.
    """
    return _pool(os.getpid()).solve(entry, model, options, start, extra)


@cache
def _pool(pid: int) -> _Pool:
    """Return the children of a process; a forked process gets its own."""
    return _Pool()
