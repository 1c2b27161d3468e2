"""A hard deadline for any backend: run it in a spawned, reused child process that is ended when time is up.

HiGHS overruns its limit in presolve and ignores Ctrl-C; a solver can crash or exhaust the memory. Whatever
happens to the child, the caller has the last incumbent that was streamed, or its own start.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, replace
from functools import cache
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.errors import ApportionError
from apportion.models.linear import Block, LinearModel
from apportion.options import Incumbent, SolveOptions
from apportion.outcome import Outcome, Termination

__all__ = ["Child", "solve"]

_GRACE = 0.08
"""Seconds a child may take to hand over a result it has when the limit is reached."""
_HEADROOM = 0.05
"""Seconds taken off the child's own limit, so that it usually ends by itself."""


@dataclass(slots=True)
class _Best:
    """The best that was streamed so far."""

    maximizes: bool
    point: NDArray[np.float64] | None = None
    objective: float | None = None
    bound: float | None = None

    def take(self, point: Any, objective: float | None, bound: float | None) -> bool:
        """Keep an improvement; return whether the point is one."""
        sign = 1.0 if self.maximizes else -1.0
        if bound is not None and (self.bound is None or sign * bound < sign * self.bound):
            self.bound = bound
        if point is None or objective is None:
            return False
        if self.objective is not None and sign * objective <= sign * self.objective:
            return False
        self.point, self.objective = point, objective
        return True

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


class Child:
    """One child process, started when first needed and again when it has died.

    Parameters
    ----------
    memory_bytes
        Limit of the child's address space; ``None`` for no limit.

    Notes
    -----
    One solve at a time; a second thread waits for the first. Close it, or let it end with this process.
    """

    def __init__(self, memory_bytes: int | None = None) -> None:
        self._memory_bytes = memory_bytes or 0
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._jobs: Connection | None = None
        self._answers: Connection | None = None
        self._lifeline: int | None = None
        self._ready = False
        self._number = 0

    @property
    def pid(self) -> int | None:
        """The process id of the living child, ``None`` if there is none."""
        running = self._process is not None and self._process.poll() is None
        return self._process.pid if running and self._process is not None else None

    def close(self) -> None:
        """End the child."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        for connection in (self._jobs, self._answers):
            if connection is not None:
                connection.close()
        if self._lifeline is not None:
            os.close(self._lifeline)
        self._process = self._jobs = self._answers = self._lifeline = None
        self._ready = False

    def solve(
        self,
        entry: str,
        model: LinearModel,
        options: SolveOptions,
        start: NDArray[np.float64] | None,
        extra: tuple[Any, ...] = (),
    ) -> Outcome:
        """Run ``entry`` (``"module:function"``) on a model in the child; see `solve`."""
        deadline = None if options.time_limit is None else time.perf_counter() + options.time_limit
        with self._lock:
            return self._solve(entry, model, options, start, extra, deadline)

    def _solve(
        self,
        entry: str,
        model: LinearModel,
        options: SolveOptions,
        start: NDArray[np.float64] | None,
        extra: tuple[Any, ...],
        deadline: float | None,
    ) -> Outcome:
        best = _Best(model.sense == "maximize")
        if start is not None and model.check(start).feasible:
            best.take(np.asarray(start, dtype=np.float64), model.objective(start), None)
        try:
            if not self._wait_until_ready(deadline):
                return best.outcome(Termination.TIME_LIMIT, "the child process was still starting")
            self._number += 1
            left = None if deadline is None else max(deadline - time.perf_counter() - _HEADROOM, 1e-3)
            assert self._jobs is not None
            told = replace(options, time_limit=left, on_incumbent=None)
            self._jobs.send((self._number, entry, extra, _nameless(model), told, start))
            return self._collect(best, options, deadline)
        except KeyboardInterrupt:
            self.close()
            return best.outcome(Termination.INTERRUPTED, "KeyboardInterrupt")
        except (EOFError, OSError):
            return self._death(best)

    def _wait_until_ready(self, deadline: float | None) -> bool:
        if self.pid is None:
            self.close()
            self._spawn()
        while not self._ready:
            assert self._answers is not None
            left = None if deadline is None else deadline - time.perf_counter()
            if left is not None and left <= 0:
                return False
            if self._answers.poll(left):
                self._answers.recv()
                self._ready = True
        return True

    def _spawn(self) -> None:
        jobs_read, jobs_write = os.pipe()
        answers_read, answers_write = os.pipe()
        life_read, life_write = os.pipe()
        ours = f"import sys; sys.path[:] = {sys.path!r}; from apportion.solvers.child import main"
        call = f"main({jobs_read}, {answers_write}, {life_read}, {self._memory_bytes})"
        self._process = subprocess.Popen(
            [sys.executable, "-c", f"{ours}; {call}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(jobs_read, answers_write, life_read),
            start_new_session=True,  # Ctrl-C is the parent's to handle
        )
        for theirs in (jobs_read, answers_write, life_read):
            os.close(theirs)
        self._jobs, self._answers = (
            Connection(jobs_write, readable=False),
            Connection(answers_read, writable=False),
        )
        self._lifeline = life_write

    def _collect(self, best: _Best, options: SolveOptions, deadline: float | None) -> Outcome:
        assert self._answers is not None
        while True:
            left = None if deadline is None else max(deadline + _GRACE - time.perf_counter(), 0.0)
            if not self._answers.poll(left):
                self.close()
                return best.outcome(Termination.TIME_LIMIT, "ended at the deadline")
            try:
                message = self._answers.recv()
            except (EOFError, OSError):
                raise
            except Exception as error:  # what the child sent cannot be read
                self.close()
                return best.outcome(Termination.ERROR, f"unreadable answer: {type(error).__name__}")
            kind, number, *rest = message
            if number != self._number:
                continue
            if kind == "incumbent":
                self._relay(best, options, *rest)
            elif kind == "done":
                return _merged(best, rest[0])
            elif kind == "memory":
                self.close()
                return best.outcome(Termination.MEMORY_LIMIT, rest[0])
            else:
                if isinstance(rest[1], ApportionError):
                    raise rest[1]
                return best.outcome(Termination.ERROR, rest[0])

    def _relay(
        self, best: _Best, options: SolveOptions, point: Any, objective: Any, bound: Any, seconds: float
    ) -> None:
        improved = best.take(point, objective, bound)
        if improved and options.on_incumbent is not None:
            try:
                options.on_incumbent(Incumbent(objective, bound, seconds))
            except BaseException:
                self.close()
                raise

    def _death(self, best: _Best) -> Outcome:
        """Say how the child ended; the kernel ends a process that exhausts the memory with SIGKILL."""
        code = None
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = self._process.wait(timeout=1.0)
        self.close()
        if code is not None and code < 0:
            name = signal.Signals(-code).name
            hint = " (killed, or out of memory)" if -code == signal.SIGKILL else ""
            return best.outcome(Termination.ERROR, f"the child process ended by {name}{hint}")
        return best.outcome(Termination.ERROR, f"the child process ended with code {code}")


def solve(
    entry: str,
    model: LinearModel,
    options: SolveOptions,
    start: NDArray[np.float64] | None = None,
    extra: tuple[Any, ...] = (),
) -> Outcome:
    """Run a backend in this process's one reused child, with `options.time_limit` as a hard deadline.

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
        What the backend raised on purpose.
    """
    return _shared_child(os.getpid()).solve(entry, model, options, start, extra)


@cache
def _shared_child(pid: int) -> Child:
    """Return the child of a process; a forked process gets one of its own."""
    return Child()


def _nameless(model: LinearModel) -> LinearModel:
    """Return the model with plain blocks, so that no names travel."""
    return replace(
        model,
        variables=(Block("column", 0, (model.num_columns,)),),
        rows=(Block("row", 0, (model.num_rows,)),),
    )


def _merged(best: _Best, outcome: Any) -> Outcome:
    """Return the backend's outcome, with the streamed incumbent where that is better."""
    if not isinstance(outcome, Outcome):
        return best.outcome(Termination.ERROR, f"the backend returned {type(outcome).__name__}")
    sign = 1.0 if best.maximizes else -1.0
    if best.objective is None:
        return outcome
    if outcome.objective is not None and sign * outcome.objective >= sign * best.objective:
        return outcome
    return replace(outcome, point=best.point, objective=best.objective)
