"""Make an earlier point fit an assignment: place what is missing, then move jobs off full machines."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.models.assignment import Assignment, in_turn

__all__ = ["relieve", "repaired"]


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
    model: Assignment, choice: NDArray[np.int64], cost: NDArray[np.float64]
) -> NDArray[np.int64] | None:
    """Move jobs off overfull machines, least extra cost per relieved use first; ``None`` where that ends."""
    if not model.limited.any():
        return choice
    owner = model.job_of_option()
    optional = np.flatnonzero(~model.required)
    limit = np.where(model.limited, model.capacities, np.iinfo(np.int64).max)
    used = model.used(choice)
    for _ in range(6 * model.num_jobs + 6):
        over = np.maximum(used - limit, 0)
        if not over.any():
            return choice
        held = choice[owner]
        on = np.where(held >= 0, model.machine[np.maximum(held, 0)], 0)
        use_now = np.where(held >= 0, model.uses[np.maximum(held, 0)], 0)
        relief = np.where(held >= 0, np.minimum(over[on], use_now), 0)
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
            gain = np.where(held_out >= 0, np.minimum(over[model.machine[at]], model.uses[at]), 0)
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
