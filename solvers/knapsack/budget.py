"""The limits of one solve: a clock, a count of work, and the error that ends a phase early."""

from __future__ import annotations

from time import perf_counter

from apportion.options import SolveOptions
from apportion.outcome import Termination

__all__ = ["Budget"]


class Budget:
    """What a solve may still spend.

    Parameters
    ----------
    options
        Its `time_limit` and `work_limit`; the work unit is one state expanded by dynamic programming.

    Attributes
    ----------
    started
        Clock reading at the start.
    work
        Work units spent.
    deadline, work_limit
        Where to stop.
    """

    __slots__ = ("deadline", "started", "work", "work_limit")

    def __init__(self, options: SolveOptions) -> None:
        self.started = perf_counter()
        self.work = 0.0
        limit = options.time_limit
        self.deadline = float("inf") if limit is None else self.started + 0.97 * limit
        self.work_limit = float("inf") if options.work_limit is None else float(options.work_limit)

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return perf_counter() - self.started

    def part(self, work: float) -> Budget:
        """Return a budget with the same clock and at most `work` units of what is left."""
        part = Budget(SolveOptions())
        part.started, part.deadline = self.started, self.deadline
        part.work_limit = min(work, self.work_limit - self.work)
        return part

    def affords(self, seconds: float) -> bool:
        """Return whether a step that may take so long ends before the deadline; short steps always do."""
        return seconds < 1e-3 or perf_counter() + seconds < self.deadline

    def count_affordable(self, seconds_each: float, most: int) -> int:
        """Return how many steps so long end before the deadline, up to `most`; a thousand always do."""
        if self.deadline == float("inf"):
            return most
        return max(1000, min(most, int((self.deadline - perf_counter()) / seconds_each)))

    def exhausted(self) -> Termination | None:
        """Return why the solve must stop now, or ``None``."""
        if self.work >= self.work_limit:
            return Termination.NODE_LIMIT
        if perf_counter() >= self.deadline:
            return Termination.TIME_LIMIT
        return None
