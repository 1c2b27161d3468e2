"""What every general backend does to points: judge a start, round an answer, answer an empty model."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.models.linear import LinearModel
from apportion.options import SolveOptions
from apportion.outcome import Outcome, Termination

__all__ = ["Start", "empty_model", "judged_start", "kept", "power_of_two_scale", "rounded", "seconds_left"]


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


def seconds_left(options: SolveOptions, began: float) -> float | None:
    """Return what is left of the time limit since `began` on the performance counter, at least 10 ms."""
    if options.time_limit is None:
        return None
    return max(options.time_limit - (time.perf_counter() - began), 0.01)


def empty_model(model: LinearModel) -> Outcome | None:
    """Answer a model without columns: its rows either hold at 0 or nothing is feasible."""
    if model.num_columns:
        return None
    consistent = bool(((model.row_lower <= 0) & (model.row_upper >= 0)).all())
    if not consistent:
        return Outcome(termination=Termination.INFEASIBLE, raw_status="no columns, and a row excludes 0")
    return Outcome(
        termination=Termination.OPTIMAL,
        raw_status="no columns",
        point=np.zeros(0),
        objective=model.offset,
        bound=model.offset,
        bound_source="enumeration",
    )


def power_of_two_scale(cost: NDArray[np.float64]) -> float:
    """Return a power of two that brings the largest cost to about a thousand, 1 where it is near already.

    Solvers' tolerances are absolute: an objective of 1e-9 is noise to them, one of 1e15 all resolution.
    """
    largest = float(np.abs(cost).max()) if cost.size else 0.0
    if largest == 0.0 or 1.0 <= largest <= 1e6:
        return 1.0
    return float(2.0 ** (10 - np.frexp(largest)[1]))
