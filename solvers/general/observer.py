"""Tell the caller about incumbents and bounds on the way, without exceptions crossing native code."""

from __future__ import annotations

from collections.abc import Callable

from apportion.options import Point, SolveOptions
from apportion.solvers.clock import Clock
from apportion.solvers.incumbent import BestFound

__all__ = ["Observe", "Observer"]

Observe = Callable[[Point | None, float | None, float | None, float], None]
"""``observe(point, objective, bound, seconds)``; point and objective are ``None`` for a bound alone."""

_BETWEEN_BOUNDS = 0.1
"""Seconds between two bounds that are reported alone."""


class Observer:
    """The one place where a backend reports progress.

    Parameters
    ----------
    maximizes
        Whether a larger objective is better; a point that improves nothing is not reported.
    options
        Whose `on_incumbent` is called with every incumbent.
    observe
        Called with the point itself, for whoever must keep it.
    clock
        For the seconds reported.

    Attributes
    ----------
    raised
        The first exception one of them raised; the backend stops as soon as it can and `finish` raises it.
    """

    def __init__(self, maximizes: bool, options: SolveOptions, observe: Observe | None, clock: Clock) -> None:
        self._best: BestFound[Point] = BestFound(maximizes, options, clock)
        self._observe = observe
        self._clock = clock
        self._next_bound = _BETWEEN_BOUNDS
        self.active = options.on_incumbent is not None or observe is not None
        self.raised: BaseException | None = None

    @property
    def wants_bounds(self) -> bool:
        """Whether bounds alone are worth reporting."""
        return self._observe is not None

    def incumbent(self, point: Point, objective: float, bound: float | None) -> None:
        """Report an improving point."""
        if self.raised is not None or not self._best.keep(point, objective):
            return
        try:
            if self._observe is not None:
                self._observe(point, objective, bound, self._clock.seconds)
            self._best.report(objective, bound)
        except BaseException as error:  # it must not unwind through native code
            self.raised = error

    def bound(self, bound: float) -> None:
        """Report a bound, at most ten times a second."""
        seconds = self._clock.seconds
        if self._observe is None or self.raised is not None or seconds < self._next_bound:
            return
        self._next_bound = seconds + _BETWEEN_BOUNDS
        try:
            self._observe(None, None, bound, seconds)
        except BaseException as error:
            self.raised = error

    def finish(self) -> None:
        """Raise the exception that the caller's callback raised during the solve, if any."""
        if self.raised is not None:
            raise self.raised
