"""Branch and bound by HiGHS on what is left of a model after fixing, and repaired points.

An earlier point is made to fit first: what is missing is placed, then jobs move off full machines.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.core.errors import BackendUnavailable
from apportion.core.outcome import Termination
from apportion.models.assignment import Assignment, in_turn
from apportion.models.linear import Block, LinearModel
from apportion.solvers.general.highs_call import HIGHS_ERROR, LONG, call
from apportion.solvers.general.points import Start

__all__ = [
    "Branched",
    "branch_and_bound",
    "relieve",
    "repaired",
    "restricted",
    "spread",
    "trusted",
]


def restricted(model: LinearModel, keep: NDArray[np.int64], ceiling: float | None = None) -> LinearModel:
    """Return the model over the columns `keep`; plain names.

    Parameters
    ----------
    model
        The model.
    keep
        int64: the columns that stay, ascending.
    ceiling
        Upper bound on the last column, which is the makespan.
    """
    upper = model.upper
    if ceiling is not None:
        upper = upper.copy()
        upper[-1] = min(float(upper[-1]), ceiling)
    place = np.full(model.num_columns, -1, dtype=np.int64)
    place[keep] = np.arange(keep.size)
    kept = place[model.indices] >= 0
    row = np.repeat(np.arange(model.num_rows), np.diff(model.indptr))
    ends = np.cumsum(np.bincount(row[kept], minlength=model.num_rows))
    return replace(
        model,
        cost=model.cost[keep],
        lower=model.lower[keep],
        upper=upper[keep],
        integer=model.integer[keep],
        indptr=np.concatenate(([0], ends)).astype(np.int32),
        indices=place[model.indices[kept]].astype(np.int32),
        data=model.data[kept],
        variables=(Block("column", 0, (int(keep.size),)),),
        rows=(Block("row", 0, (model.num_rows,)),),
    )


def spread(point: NDArray[np.float64], keep: NDArray[np.int64], size: int) -> NDArray[np.float64]:
    """Return a point of the restricted model in all `size` columns."""
    whole = np.zeros(size)
    whole[keep] = point
    return whole


def trusted(model: Assignment, bound: float, incumbent: float | None) -> float:
    """Return what of HiGHS's bound is relied on: less by its tolerance, or the whole number beyond that.

    Parameters
    ----------
    model
        The assignment, of which entries may be left out that are in nothing better than the incumbent.
    bound
        Its dual bound.
    incumbent
        The best objective known, which no bound of what is left cuts off; ``None`` without one.
    """
    sign = 1.0 if model.sense == "maximize" else -1.0
    whole = bool((model.values == np.rint(model.values)).all())
    if incumbent is not None and sign * (bound - incumbent) < 0:
        bound = incumbent
    loose = bound + sign * HIGHS_ERROR * (max(1.0, abs(bound)) if whole else abs(bound))
    if not whole or abs(bound) >= 2.0**50:
        return loose
    return float(math.floor(loose) if sign > 0 else math.ceil(loose))


@dataclass(frozen=True, slots=True, eq=False)
class Branched:
    """How branch and bound by HiGHS ended: its best point and its dual bound.

    Attributes
    ----------
    termination
        What HiGHS's status means: ``optimal`` only with a point, ``error`` where it failed or is refused.
    point
        The best point, or ``None``.
    bound
        Its dual bound in the model's sense, or ``None``.
    nodes
        Nodes searched.
    raw
        HiGHS's own words.
    """

    termination: Termination
    point: NDArray[np.float64] | None
    bound: float | None
    nodes: int
    raw: str


def branch_and_bound(
    model: LinearModel,
    seconds: float | None,
    start: NDArray[np.float64] | None = None,
    allowed: NDArray[np.bool_] | None = None,
    gap: float = 0.0,
    seed: int = 0,
    node_limit: int | None = None,
    ceiling: float | None = None,
    quick: bool = False,
) -> Branched:
    """Solve a model over the columns that are still allowed.

    Parameters
    ----------
    model
        The model.
    seconds
        Time limit, ``None`` for none.
    start
        A feasible point.
    allowed
        bool [columns]; the others stay at zero.
    gap
        Relative gap at which to stop.
    seed
        Random seed.
    node_limit
        Limit on the nodes, ``None`` for none.
    ceiling
        Upper bound on the last column, which is the makespan.
    quick
        For small models with a good start: no restarts and next to no search for better points, which
        halves to thirds the time of OR-Library's smaller files.
    """
    keep = np.arange(model.num_columns) if allowed is None else np.flatnonzero(allowed)
    settings: dict[str, object] = {"threads": 1, "mip_rel_gap": gap, "mip_abs_gap": 0.0, "random_seed": seed}
    if seconds is not None:
        settings["time_limit"] = max(seconds, 1e-3)
    if quick:
        settings |= {"mip_allow_restart": False, "mip_heuristic_effort": 0.01}
    if node_limit is not None:
        settings["mip_max_nodes"] = node_limit
    part = restricted(model, keep, ceiling)
    known = None
    if start is not None and np.count_nonzero(start) == np.count_nonzero(start[keep]):
        known = Start(start[keep], model.objective(start))
    try:
        said = call(part, settings, known, interruptible=seconds is None or seconds > LONG)
    except BackendUnavailable as error:
        return Branched(Termination.ERROR, None, None, 0, str(error))
    if said.termination is Termination.INTERRUPTED:
        raise KeyboardInterrupt
    point = None if said.point is None else spread(said.point, keep, model.num_columns)
    lost = said.termination is Termination.OPTIMAL and point is None
    termination = Termination.ERROR if lost else said.termination
    return Branched(termination, point, said.bound, said.nodes, said.raw)


def repaired(model: Assignment, point: NDArray[Any]) -> NDArray[Any] | None:
    """Return the nearest feasible point the greedy finds, or ``None``.

    Parameters
    ----------
    model
        The assignment.
    point
        int64 [jobs] with -1 where nothing fits, with turns or without; divisible float64 [entries].
    """
    if (model.required & (np.diff(model.offsets) == 0)).any():
        return None
    sign = -1.0 if model.goal == "value" else 1.0
    first_best = _cheapest(model, sign * model.values)
    if model.divisible:
        shares = np.asarray(point, dtype=np.float64).copy()
        owner = model.job_of_option()
        done = np.bincount(owner, weights=shares, minlength=model.num_jobs)
        missing = np.flatnonzero(~(done > 0.5))
        shares[np.isin(owner, missing)] = 0.0
        shares[first_best[missing]] = 1.0
        return shares
    near, turns = in_turn(np.asarray(point, dtype=np.int64))
    choice = near.copy()
    unplaced = model.required & (choice < 0)
    choice[unplaced] = first_best[unplaced]
    fitting = relieve(model, choice, sign * model.values)
    return fitting if fitting is None or turns is None else np.stack((fitting, turns))


def _cheapest(model: Assignment, cost: NDArray[np.float64]) -> NDArray[np.int64]:
    best = np.full(model.num_jobs, -1, dtype=np.int64)
    order = np.lexsort((-cost, model.job_of_option()))
    best[model.job_of_option()[order]] = order  # the last write of each job is its cheapest entry
    return best


def relieve(
    model: Assignment,
    choice: NDArray[np.int64],
    cost: NDArray[np.float64],
    over: Callable[[], bool] = lambda: False,
) -> NDArray[np.int64] | None:
    """Move jobs off overfull machines, least extra cost per relieved use first; ``None`` where that ends."""
    if not model.limited.any():
        return choice
    owner = model.job_of_option()
    optional = np.flatnonzero(~model.required)
    limit = np.where(model.limited, model.capacities, np.iinfo(np.int64).max)
    used = model.used(choice)
    for _ in range(6 * model.num_jobs + 6):
        beyond = np.maximum(used - limit, 0)
        if not beyond.any():
            return choice
        if over():
            return None
        held = choice[owner]
        on = np.where(held >= 0, model.machine[np.maximum(held, 0)], 0)
        use_now = np.where(held >= 0, model.uses[np.maximum(held, 0)], 0)
        relief = np.where(held >= 0, np.minimum(beyond[on], use_now), 0)
        # moving within one machine relieves the difference only; a target may not become overfull
        same = model.machine == on
        fits = model.uses <= limit[model.machine] - used[model.machine]
        possible = (relief > 0) & fits & ~same
        loss = np.full(model.num_options, np.inf)
        paid = np.where(held >= 0, cost[np.maximum(held, 0)], 0.0)
        loss[possible] = (cost - paid)[possible] / relief[possible]
        best = int(np.argmin(loss)) if loss.size else -1
        out = -1
        if optional.size:
            held_out = choice[optional]
            at = np.maximum(held_out, 0)
            gain = np.where(held_out >= 0, np.minimum(beyond[model.machine[at]], model.uses[at]), 0)
            leave = np.where(gain > 0, -cost[at] / np.maximum(gain, 1), np.inf)
            out = int(np.argmin(leave))
            if not np.isfinite(leave[out]) or (best >= 0 and loss[best] <= leave[out]):
                out = -1
        if out >= 0:
            job, target = int(optional[out]), -1
        elif best >= 0 and np.isfinite(loss[best]):
            job, target = int(owner[best]), best
        else:
            return None
        before = int(choice[job])
        used[model.machine[before]] -= model.uses[before]
        if target >= 0:
            used[model.machine[target]] += model.uses[target]
        choice[job] = target
    return None
