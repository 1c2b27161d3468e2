"""What every general backend does before and after: answer the trivial, judge a start, round and settle."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.gap import absolute_gap
from apportion.models.linear import LinearModel
from apportion.outcome import Outcome, Termination

__all__ = [
    "Start",
    "answered_at_sight",
    "judged_start",
    "kept",
    "rounded",
    "settled",
]


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


def settled(
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
