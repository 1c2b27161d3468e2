"""The limits of one solve: seconds by the clock, and work in units that no machine changes."""

from __future__ import annotations

import math
from collections.abc import Callable
from time import perf_counter, thread_time

from apportion.core.options import SolveOptions
from apportion.core.outcome import Termination

__all__ = ["Clock"]

_HAND_OVER = 0.03
"""Share of a time limit kept back, in which the answer is put together and handed over."""
_CAUTION = 0.4
"""Share of a time limit that estimated seconds may fill: the clock is then a last resort."""
_SHORT = 1e-3
"""Seconds below which a step may always begin."""
_ALWAYS = 1000
"""Steps that may always be taken."""
_UNLIMITED = SolveOptions()


class Clock:
    """What one solve has spent and what it may still spend; it runs from its making.

    Parameters
    ----------
    options
        Its `time_limit`, of which 3 % are kept back for handing over the answer, and its `work_limit`. With
        `deterministic`, decisions go by seconds estimated from the work, and the clock only ends the solve.
        Without a time limit they go by the CPU seconds of the calling thread: a busy machine decides nothing.

    Attributes
    ----------
    work
        Units of work done. A solver counts one unit for a state or a node that it expands.
    counted
        Whether decisions go by estimated seconds.
    """

    __slots__ = ("_began", "_cpu_began", "_deadline", "_estimate", "_limit", "_work_limit", "counted", "work")

    def __init__(self, options: SolveOptions) -> None:
        self._began, self._cpu_began = perf_counter(), thread_time()
        limit = options.time_limit
        self._limit = limit
        self._deadline = math.inf if limit is None else self._began + (1.0 - _HAND_OVER) * limit
        self._work_limit = math.inf if options.work_limit is None else float(options.work_limit)
        self._estimate = 0.0
        self.counted = options.deterministic
        self.work = 0.0

    @property
    def seconds(self) -> float:
        """Seconds since the solve began."""
        return perf_counter() - self._began

    @property
    def seconds_left(self) -> float | None:
        """Seconds left by the clock, at least 0; ``None`` without a time limit."""
        return None if self._limit is None else max(self._deadline - perf_counter(), 0.0)

    def late(self) -> bool:
        """Return whether the time is over by the clock."""
        return perf_counter() >= self._deadline

    @property
    def elapsed(self) -> float:
        """Seconds that decisions go by: estimated if `counted`, of the CPU if unlimited, else the clock's."""
        if self.counted:
            return self._estimate
        return thread_time() - self._cpu_began if self._limit is None else self.seconds

    @property
    def remaining(self) -> float | None:
        """Seconds left to decide on, at least 0; ``None`` without a time limit."""
        if self._limit is None or not self.counted:
            return self.seconds_left
        return max(_CAUTION * self._limit - self._estimate, 0.0)

    def seconds_of(self, share: float, otherwise: float = math.inf) -> float:
        """Return a share of the seconds left to decide on, or of others where there is no time limit."""
        left = self.remaining
        return share * (otherwise if left is None else left)

    @property
    def uncounted(self) -> float | None:
        """Seconds that a solver which counts nothing may take; ``None`` for no limit, or where `counted`."""
        return None if self.counted else self.seconds_left

    def is_short_of(self, seconds: float) -> bool:
        """Return whether fewer seconds are left: never without a limit, or where `counted`."""
        left = self.uncounted
        return left is not None and left < seconds

    def late_in(self, share: float) -> Callable[[], bool]:
        """Return what says whether a share of the time left is over: all of it where `counted`."""
        left = self.uncounted
        if left is None:
            return self.late
        until = self.seconds + share * left
        return lambda: self.seconds >= until

    @property
    def work_left(self) -> int | None:
        """Units of work that the work limit leaves; ``None`` without one."""
        return None if self._work_limit == math.inf else max(0, math.ceil(self._work_limit - self.work))

    def charge(self, work: float, seconds: float = 0.0) -> None:
        """Count work that was done, and what it takes in estimated seconds."""
        self.work += work
        self._estimate += seconds

    def stopped(self) -> Termination | None:
        """Return the limit that was reached, or ``None``."""
        if self.work >= self._work_limit:
            return Termination.NODE_LIMIT
        if perf_counter() >= self._deadline or (self.counted and self.remaining == 0.0):
            return Termination.TIME_LIMIT
        return None

    def affords(self, seconds: float) -> bool:
        """Return whether a step of so many seconds ends in time; one of under a millisecond always does."""
        return seconds < _SHORT or perf_counter() + seconds < self._deadline

    def count_affordable(self, seconds_each: float, most: int) -> int:
        """Return how many steps of so many seconds end in time, up to `most`; a thousand always do."""
        if self._limit is None:
            return most
        return max(_ALWAYS, min(most, int((self._deadline - perf_counter()) / seconds_each)))

    def part(self, work: float) -> Clock:
        """Return a clock with the same deadline and at most `work` units of the work that is left."""
        part = Clock(_UNLIMITED)
        part._began, part._cpu_began = self._began, self._cpu_began
        part._deadline, part._limit = self._deadline, self._limit
        part._work_limit = min(work, self._work_limit - self.work)
        return part
