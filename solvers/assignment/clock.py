"""What is left of a call's time, and telling the caller of incumbents."""

from __future__ import annotations

import time
from typing import Any

from numpy.typing import NDArray

from apportion.gap import absolute_gap
from apportion.models.assignment import Assignment
from apportion.options import Incumbent, SolveOptions
from apportion.outcome import Outcome, Termination

__all__ = ["Clock"]


class Clock:
    """The clock of one call; without a time limit it never runs out.

    Parameters
    ----------
    options
        The options of the call.
    model
        What is solved: its sense decides what an improvement is.
    """

    def __init__(self, options: SolveOptions, model: Assignment) -> None:
        self.began = time.perf_counter()
        self._options = options
        self._sign = 1.0 if model.sense == "maximize" else -1.0
        self._told: float | None = None
        self._kept: float | None = None
        self._point: NDArray[Any] | None = None
        self.bound: float | None = None

    @property
    def elapsed(self) -> float:
        """Seconds since the solver started."""
        return time.perf_counter() - self.began

    @property
    def left(self) -> float | None:
        """Seconds left, ``None`` without a limit."""
        limit = self._options.time_limit
        return None if limit is None else max(limit - self.elapsed, 0.0)

    @property
    def over(self) -> bool:
        """Whether the time is over."""
        left = self.left
        return left is not None and left <= 0.0

    def share(self, seconds: float) -> float:
        """Return `seconds`, or what is left if that is less."""
        left = self.left
        return seconds if left is None else min(seconds, left)

    def closed(self, objective: float) -> bool:
        """Whether the bound shows that the objective is as close as asked for."""
        if self.bound is None:
            return False
        gap = self._sign * (self.bound - objective)
        return gap <= max(absolute_gap(objective, self._options.gap), 1e-10 * abs(objective))

    def tell(self, objective: float, point: NDArray[Any] | None = None) -> None:
        """Keep an incumbent's point, where it is at hand, and report it if it improves on all before."""
        if point is not None and self._improves(objective, self._kept):
            self._kept, self._point = objective, point
        if not self._improves(objective, self._told):
            return
        self._told = objective
        if self._options.on_incumbent is not None:
            self._options.on_incumbent(Incumbent(objective, self.bound, self.elapsed))

    def _improves(self, objective: float, known: float | None) -> bool:
        return known is None or self._sign * (objective - known) > 0

    def interrupted(self) -> Outcome:
        """Return the best incumbent told of, whatever the search was about when Ctrl-C came."""
        return Outcome(
            termination=Termination.INTERRUPTED,
            raw_status="KeyboardInterrupt",
            point=self._point,
            objective=self._kept,
            bound=self.bound,
            bound_source=None if self.bound is None else "branch_and_bound",
        )
