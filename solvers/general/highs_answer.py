"""What HiGHS answered, read in the model's own units and judged: points, prices, rays and bounds.

Nothing here touches the engine; `apportion.solvers.general.highs_call` is its one door.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from apportion.models.linear import LinearModel
from apportion.outcome import Termination
from apportion.solvers.general.points import rounded
from apportion.solvers.general.scaling import Scaling

__all__ = ["CUTOFF", "Answer", "Said", "answer_of", "doubted", "outward"]

CUTOFF = 1e-6
"""By how much HiGHS lowers its cutoff below an incumbent (`mip_feasibility_tolerance`), in scaled units."""


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """What HiGHS said, in the model's own units.

    Attributes
    ----------
    termination
        Its status by a total table; ``error`` where a call failed.
    raw
        Its own words.
    point
        float64 [columns], or ``None`` where it has no feasible point.
    duals
        float64 [rows]: what the objective gains per unit of each row's side; of an optimal linear program.
    ray
        float64 [rows]: multipliers of the rows that no point within the columns' bounds keeps together; of a
        linear program that it calls infeasible.
    bound
        Its dual bound, loosened by `CUTOFF` where costs are not whole; ``None`` without one.
    nodes, iterations
        What it counted.
    start_taken
        Whether the start was handed over; ``None`` without one.
    seconds
        Of handing over and of running.
    """

    termination: Termination
    raw: str
    point: NDArray[np.float64] | None = None
    duals: NDArray[np.float64] | None = None
    ray: NDArray[np.float64] | None = None
    bound: float | None = None
    nodes: int = 0
    iterations: int = 0
    start_taken: bool | None = None
    seconds: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Said:
    """What HiGHS said of a model that it was handed scaled, in its own numbers.

    Attributes
    ----------
    termination, raw
        Its status by the table of the door, and in its own words.
    is_optimal
        Whether that is its status for an optimum, of which it also knows an objective.
    values
        By column; ``None`` where it calls no point feasible.
    prices
        By row, of an optimal linear program; ``None`` without them.
    weights
        By row: its ray of an infeasible linear program; ``None`` without one.
    objective, dual_bound
        Of the point, and of the search for whole numbers.
    nodes, iterations
        What it counted.
    """

    termination: Termination
    raw: str
    is_optimal: bool
    values: ArrayLike | None
    prices: ArrayLike | None
    weights: ArrayLike | None
    objective: float
    dual_bound: float
    nodes: int
    iterations: int


def answer_of(
    model: LinearModel, scaling: Scaling, said: Said, taken: bool | None, seconds: tuple[float, float]
) -> Answer:
    """Return what HiGHS said in the model's own units; numbers that are not finite are left out.

    Parameters
    ----------
    model, scaling
        The model, and how it was handed over.
    said
        What HiGHS said.
    taken, seconds
        See `Answer`.
    """
    whole = bool(model.integer.any())
    value = _finite(said.values, model.num_columns)
    price = _finite(said.prices, model.num_rows)
    weights = _finite(said.weights, model.num_rows)
    bound = None
    if whole and said.termination not in (
        Termination.INFEASIBLE,
        Termination.UNBOUNDED,
        Termination.ERROR,
    ):
        bound = outward(model, scaling, said.dual_bound)
    elif said.is_optimal:
        bound = outward(model, scaling, said.objective)
    return Answer(
        termination=said.termination,
        raw=said.raw,
        point=None if value is None else rounded(model, value * scaling.columns),
        duals=None if price is None else price * scaling.rows / scaling.objective,
        ray=None if weights is None else weights * scaling.rows,
        bound=bound,
        nodes=max(said.nodes, 0),
        iterations=said.iterations,
        start_taken=taken,
        seconds=seconds,
    )


def _finite(numbers: ArrayLike | None, size: int) -> NDArray[np.float64] | None:
    """Return so many finite numbers, ``None`` for anything else."""
    if numbers is None:
        return None
    array = np.array(numbers, dtype=np.float64)
    return array if array.shape == (size,) and np.isfinite(array).all() else None


def doubted(model: LinearModel, first: Answer, second: Answer) -> Answer:
    """Return the better of two answers with the weaker bound: with the start, and without.

    HiGHS 1.13 with a start cuts off in presolve by more than its tolerances: it has called a start optimal,
    without a node, that was 3e-8 of the objective below the optimum. Where presolve decides all, asking again
    costs next to nothing.
    """
    if second.point is None or second.termination is not Termination.OPTIMAL:
        return replace(
            first, termination=Termination.NUMERICAL_ERROR, raw=f"{first.raw}; without the start {second.raw}"
        )
    sign = 1.0 if model.sense == "maximize" else -1.0
    points = [answer.point for answer in (first, second) if answer.point is not None]
    bounds = [answer.bound for answer in (first, second) if answer.bound is not None]
    weaker = max(bounds, key=lambda bound: sign * bound) if len(bounds) == 2 else None
    best = max(points, key=lambda point: sign * model.objective(point))
    return replace(second, point=best, bound=weaker, start_taken=True)


def outward(model: LinearModel, scaling: Scaling, native: float) -> float | None:
    """Return HiGHS's bound in the model's unit, loosened by what its cutoff may have thrown away.

    A point better than its incumbent by less than `CUTOFF` is pruned, so ``bound = incumbent`` shows the
    optimum to within `CUTOFF` only. An objective that moves by steps far larger than that lies on the last
    step within the loosened bound.
    """
    if not np.isfinite(native):
        return None
    sign = 1.0 if model.sense == "maximize" else -1.0
    slack = CUTOFF / scaling.objective
    bound = native / scaling.objective + sign * slack
    steps = sign * (bound - model.offset) / scaling.step if scaling.step > 16.0 * slack else np.inf
    if abs(steps) < 2.0**40:
        return sign * float(np.floor(steps + 2.0**-10)) * scaling.step + model.offset
    return bound
