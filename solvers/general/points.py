"""Points that solves find: the incumbent of a call, and what general backends do with theirs.

Before and after they answer the trivial, judge a start, round and settle; on the way they tell the caller
about incumbents and bounds, without exceptions crossing native code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from apportion.core.options import Incumbent, Point, SolveOptions
from apportion.core.outcome import Outcome, Termination, absolute_gap
from apportion.models.linear import LinearModel
from apportion.solvers.clock import Clock

__all__ = [
    "BestFound",
    "Observe",
    "Observer",
    "Start",
    "answered_at_sight",
    "consistent_termination",
    "judged_start",
    "kept",
    "rounded",
]


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


_NEAR = 1e-9
"""How far an integer may lie outside its bounds: what double arithmetic leaves."""


@dataclass(frozen=True, slots=True)
class Start:
    """A start as a backend may use it.

    Attributes
    ----------
    point
        float64 [columns], NaN where there is no hint; ``None`` if it is not to be passed on.
    objective
        The objective of a complete, feasible start, else ``None``.
    """

    point: NDArray[np.float64] | None
    objective: float | None

    @property
    def complete(self) -> bool:
        """Whether the start is feasible as it is."""
        return self.objective is not None


def judged_start(model: LinearModel, start: NDArray[np.float64] | None) -> Start | None:
    """Check a start before any solver sees it: complete and feasible, partial, or not to be passed on."""
    if start is None:
        return None
    given = np.asarray(start, dtype=np.float64)
    if given.shape != (model.num_columns,):
        return Start(None, None)
    if np.isnan(given).any():
        return Start(None if np.isnan(given).all() else given, None)
    report = model.check(given)
    return Start(given, report.objective) if report.feasible else Start(None, None)


def kept(
    model: LinearModel, given: Start | None, point: NDArray[np.float64] | None
) -> tuple[NDArray[np.float64] | None, float | None]:
    """Return the better of a solver's point and a complete start, with its objective: no start is lost."""
    objective = None if point is None else model.objective(point)
    if given is None or given.objective is None:
        return point, objective
    sign = 1.0 if model.sense == "maximize" else -1.0
    if objective is None or sign * given.objective > sign * objective:
        return given.point, given.objective
    return point, objective


def rounded(model: LinearModel, point: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a point with integer columns rounded where they are within 1e-5 of an integer."""
    x = np.array(point, dtype=np.float64)
    near = np.round(x)
    close = model.integer & (np.abs(x - near) <= 1e-5)
    x[close] = near[close]
    return x + 0.0


def consistent_termination(
    termination: Termination, objective: float | None, bound: float | None, gap: float
) -> Termination:
    """Return a termination that agrees with what is in hand.

    A feasible point refutes infeasibility, an optimum needs a point, and a gap that was asked for and is
    still open is not optimality.
    """
    if objective is None:
        return Termination.ERROR if termination is Termination.OPTIMAL else termination
    if termination is Termination.INFEASIBLE:
        return Termination.NUMERICAL_ERROR
    if termination is Termination.INFEASIBLE_OR_UNBOUNDED:
        return Termination.UNBOUNDED
    if termination is Termination.OPTIMAL and gap and bound is not None:
        near = abs(bound - objective) <= absolute_gap(objective, 1e-9)
        return termination if near else Termination.GAP_REACHED
    return termination


def answered_at_sight(model: LinearModel) -> Outcome | None:
    """Answer a model that needs no solver, or that solvers answer wrongly or each differently; else ``None``.

    NaN is an error (HiGHS calls a NaN cost infeasible); a box or row that no value satisfies is infeasible;
    a model without columns has one point. ``None`` if a solver must say.
    """
    if (reason := _malformed(model)) is not None:
        return Outcome(termination=Termination.ERROR, raw_status=reason)
    if (reason := _empty_box(model)) is not None:
        return Outcome(termination=Termination.INFEASIBLE, raw_status=reason)
    if model.num_columns:
        return None
    return Outcome(
        termination=Termination.OPTIMAL,
        raw_status="no columns",
        point=np.zeros(0),
        objective=model.offset,
        bound=model.offset,
        bound_source="enumeration",
    )


def _malformed(model: LinearModel) -> str | None:
    for name, values in (("cost", model.cost), ("data", model.data), ("offset", np.array([model.offset]))):
        if not np.isfinite(values).all():
            return f"{name} has values that are not finite"
    for name in ("lower", "upper", "row_lower", "row_upper"):
        if np.isnan(getattr(model, name)).any():
            return f"{name} has values that are not numbers"
    return None


def _empty_box(model: LinearModel) -> str | None:
    whole = model.integer
    lower = np.where(whole, np.ceil(model.lower - _NEAR), model.lower)
    upper = np.where(whole, np.floor(model.upper + _NEAR), model.upper)
    if _crossed(lower, upper).any():
        return "a variable has no value between its bounds"
    if _crossed(model.row_lower, model.row_upper).any():
        return "a row has no value between its sides"
    bare = np.diff(model.indptr) == 0
    if (bare & ((model.row_lower > 1e-6) | (model.row_upper < -1e-6))).any():
        return "a row without terms excludes 0"
    return None


def _crossed(lower: NDArray[np.float64], upper: NDArray[np.float64]) -> NDArray[np.bool_]:
    crossed: NDArray[np.bool_] = (lower > upper) | (lower == np.inf) | (upper == -np.inf)
    return crossed
