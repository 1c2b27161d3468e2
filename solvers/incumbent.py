"""The best point that a solve has found so far, the bound it is measured against, and who hears of it."""

from __future__ import annotations

from typing import Generic, TypeVar

from apportion.core.options import Incumbent, SolveOptions
from apportion.core.outcome import absolute_gap
from apportion.solvers.clock import Clock

__all__ = ["BestFound"]

P = TypeVar("P")


class BestFound(Generic[P]):
    """The incumbent of one solve.

    Parameters
    ----------
    maximizes
        Whether a larger objective is better.
    options
        Its `gap`, and `on_incumbent`, which is called for every improvement.
    clock
        For the seconds that are reported.

    Attributes
    ----------
    sign
        1 if a larger objective is better, else -1.
    point, objective
        The best so far, ``None`` until there is one.
    bound
        The best bound so far, ``None`` until there is one; whoever sets it has proven it.
    raised
        What `on_incumbent` raised: it is the caller's own and no failure of the solver.
    """

    def __init__(self, maximizes: bool, options: SolveOptions, clock: Clock) -> None:
        self.sign = 1.0 if maximizes else -1.0
        self._gap = options.gap
        self._on_incumbent = options.on_incumbent
        self._clock = clock
        self.point: P | None = None
        self.objective: float | None = None
        self.bound: float | None = None
        self.raised: BaseException | None = None

    def improves(self, objective: float) -> bool:
        """Return whether an objective is better than the best so far."""
        return self.objective is None or self.sign * (objective - self.objective) > 0

    def keep(self, point: P, objective: float) -> bool:
        """Keep a feasible point without reporting it; return whether it is better than the best so far."""
        if not self.improves(objective):
            return False
        self.point, self.objective = point, objective
        return True

    def offer(self, point: P, objective: float) -> bool:
        """Keep and report a feasible point; return whether it is better than the best so far."""
        if not self.keep(point, objective):
            return False
        self.report(objective, self.bound)
        return True

    def tighten(self, bound: float) -> None:
        """Take a proven bound if it is better than the best so far."""
        if self.bound is None or self.sign * (bound - self.bound) < 0:
            self.bound = bound

    def report(self, objective: float, bound: float | None) -> None:
        """Tell the caller of an improvement."""
        if self._on_incumbent is None:
            return
        try:
            self._on_incumbent(Incumbent(objective, bound, self._clock.seconds))
        except BaseException as error:
            self.raised = error
            raise

    def closes(self, objective: float, rounding: float = 0.0) -> bool:
        """Return whether the bound is as near to an objective as asked for, or as a relative rounding."""
        if self.bound is None:
            return False
        allowed = max(absolute_gap(objective, self._gap), rounding * abs(objective))
        return self.sign * (self.bound - objective) <= allowed
