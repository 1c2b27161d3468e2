"""Tell the caller about incumbents and bounds on the way, without exceptions crossing native code."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from apportion.options import Incumbent, SolveOptions

__all__ = ["Observe", "Observer"]

Observe = Callable[[NDArray[np.float64] | None, float | None, float | None, float], None]
"""``observe(point, objective, bound, seconds)``; point and objective are ``None`` for a bound alone."""


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

    Attributes
    ----------
    raised
        The first exception one of them raised; the backend stops as soon as it can and `finish` raises it.
    """

    def __init__(self, maximizes: bool, options: SolveOptions, observe: Observe | None) -> None:
        self._sign = 1.0 if maximizes else -1.0
        self._best: float | None = None
        self._on_incumbent = options.on_incumbent
        self._observe = observe
        self._began = time.perf_counter()
        self._last_bound_told = 0.0
        self.raised: BaseException | None = None

    @property
    def active(self) -> bool:
        """Whether anybody listens."""
        return self._on_incumbent is not None or self._observe is not None

    @property
    def wants_bounds(self) -> bool:
        """Whether bounds alone are worth reporting."""
        return self._observe is not None

    def incumbent(self, point: NDArray[np.float64], objective: float, bound: float | None) -> None:
        """Report an improving point."""
        if self.raised is not None:
            return
        if self._best is not None and self._sign * objective <= self._sign * self._best:
            return
        self._best = objective
        seconds = time.perf_counter() - self._began
        try:
            if self._observe is not None:
                self._observe(point, objective, bound, seconds)
            if self._on_incumbent is not None:
                self._on_incumbent(Incumbent(objective, bound, seconds))
        except BaseException as error:  # it must not unwind through native code
            self.raised = error

    def bound(self, bound: float) -> None:
        """Report a bound, at most ten times a second."""
        seconds = time.perf_counter() - self._began
        if self._observe is None or self.raised is not None or seconds < self._last_bound_told + 0.1:
            return
        self._last_bound_told = seconds
        try:
            self._observe(None, None, bound, seconds)
        except BaseException as error:
            self.raised = error

    def finish(self) -> None:
        """Raise what was raised."""
        if self.raised is not None:
            raise self.raised
