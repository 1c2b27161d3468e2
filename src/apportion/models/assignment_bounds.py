"""Weak-duality bounds of an `Assignment`, vectorised, rounded outward; absent where rounding would show.

The formulas are those of ``instances/matching/bounds.py``, which recomputes them exactly.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from apportion.models.assignment import LARGEST_ROOM, Assignment

__all__ = [
    "counting_bound",
    "filtered_work",
    "lagrangian_bound",
    "machine_bound",
    "pooled",
    "weak_duality_bound",
]

_EPS = float(np.finfo(np.float64).eps)
_LOOSEST = 1e-10


def weak_duality_bound(model: Assignment, multipliers: NDArray[np.float64]) -> float | None:
    """Return the bound of prices of `capacity_names`, never tighter than its exact value, or ``None``.

    For a makespan every number summed is at least 0, so a sum of n of them, each the result of k operations,
    has a relative error of at most ``(n + k) eps``; no difference is taken. The margin is that with n jobs
    (and prices) and k = 64.
    """
    if (model.required & (np.diff(model.offsets) == 0)).any():
        return None
    if model.goal != "makespan":
        return lagrangian_bound(model, multipliers)
    model = model.of_jobs(model.required)  # no makespan is longer for a job that is left out
    if model.num_options == 0:
        return 0.0
    if model.divisible:
        least, magnitude = _divisible(model, multipliers), float(model.num_jobs + multipliers.size)
    else:
        least = max(filtered_work(model, multipliers), counting_bound(model))
        magnitude = float(model.num_jobs)
    margin = (magnitude + 64) * _EPS * least
    whole = not model.divisible and bool((model.values == np.rint(model.values)).all()) and least < 2**50
    if whole:
        near = round(least)
        if abs(least - near) <= 1e-7 * max(1.0, least):
            return None  # the exact bound decides which side of the whole number it lies on
        return float(math.ceil(least))
    return None if margin > _LOOSEST * least else least - margin


def pooled(model: Assignment, prices: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return prices of the pools from prices of the machines: the mean, or for a makespan the sum."""
    total: NDArray[np.float64] = np.bincount(
        model.pool, weights=prices, minlength=len(model.pool_names)
    ).astype(np.float64)
    if model.goal != "makespan":
        size = np.bincount(model.pool, minlength=len(model.pool_names))
        total = np.asarray(total / np.maximum(size, 1), dtype=np.float64)
    return np.maximum(total[model.priced], 0.0)


def lagrangian_bound(model: Assignment, multipliers: NDArray[np.float64]) -> float | None:
    """Return ``lambda . C + sum_j max_i (v_ji - lambda_i u_ji)``, mirrored for costs, rounded outward.

    ``None`` where the rounding would show, or what is paid for is more than 64 bits hold.
    """
    price = np.zeros(len(model.pool_names))
    price[model.priced] = multipliers
    if (price[model.pool][model.capacities == LARGEST_ROOM] > 0).any():
        return None
    total, margin = _priced(model, price[model.pool])
    return _outward(model, total, margin) if margin <= _LOOSEST * abs(total) < math.inf else None


def machine_bound(model: Assignment, prices: NDArray[np.float64]) -> float:
    """Return the same bound from float64 [machines] prices >= 0, rounded outward however far that is."""
    return _outward(model, *_priced(model, np.where(model.limited, prices, 0.0)))


def _outward(model: Assignment, total: float, margin: float) -> float:
    sign = 1.0 if model.goal == "value" else -1.0
    return sign * math.nextafter(total + margin, math.inf)


def _priced(model: Assignment, by_machine: NDArray[np.float64]) -> tuple[float, float]:
    """Return the bound, maximising, and what its rounding stays below.

    Every term takes at most four roundings (an integer to float64, a product, a difference), each of at most
    ``eps / 2`` of the magnitudes in it; `math.fsum` rounds once. ``24 eps`` of all magnitudes is ample.
    """
    sign = 1.0 if model.goal == "value" else -1.0
    paid = (by_machine * model.capacities)[model.limited]
    total, magnitude = math.fsum(paid), float(paid.sum())
    filled = np.flatnonzero(np.diff(model.offsets))
    if filled.size:
        cost = by_machine[model.machine] * model.uses
        segment = model.offsets[:-1][filled]
        best = np.maximum.reduceat(sign * model.values - cost, segment)
        free = ~model.required[filled]
        best[free] = np.maximum(best[free], 0.0)
        total += math.fsum(best)
        magnitude += float(np.maximum.reduceat(np.abs(model.values) + cost, segment).sum())
    return total, 24 * _EPS * magnitude


def filtered_work(model: Assignment, weights: NDArray[np.float64]) -> float:
    """Return about the least T with ``sum_j min over p_ij <= T of w_i p_ij g_ij / c_i <= T sum w``."""
    segment = model.offsets[:-1]
    fastest = float(np.minimum.reduceat(model.values, segment).max())
    size = np.bincount(model.pool, weights=model.counts.astype(float), minlength=len(model.pool_names))
    weight = float(weights.sum())
    if weight <= 0:
        return fastest
    share = (weights / size)[model.pool][model.machine]
    cost = share * model.values * model.gpus
    levels = np.unique(model.values)

    def work(level: float) -> float:
        return float(np.minimum.reduceat(np.where(model.values <= level, cost, np.inf), segment).sum())

    low, high = int(np.searchsorted(levels, fastest)), levels.size - 1
    while low < high:
        middle = (low + high) // 2
        if work(float(levels[middle])) <= levels[middle + 1] * weight:
            high = middle
        else:
            low = middle + 1
    return max(float(levels[low]), work(float(levels[low])) / weight)


def counting_bound(model: Assignment) -> float:
    """Return the least T for which the machines, each filled with its shortest jobs, hold all jobs.

    At least ``ceil(n / m) * min p``.
    """
    placed = model.offsets[:-1][np.diff(model.offsets) > 0]  # a job that can run nowhere takes no room
    if not placed.size:
        return 0.0
    needed = int(np.minimum.reduceat(model.gpus, placed).sum())
    order = np.lexsort((model.values, model.machine))
    machine, times = model.machine[order], model.values[order]
    ends = np.empty_like(times)
    bounds = np.searchsorted(machine, np.arange(model.num_machines + 1)).tolist()
    for first, last in pairwise(bounds):  # one running sum over all machines would cancel
        np.cumsum(times[first:last], out=ends[first:last])
    weight = model.counts[machine]
    by_end = np.argsort(ends, kind="stable")
    held = np.cumsum(weight[by_end])
    position = int(np.searchsorted(held, needed))
    return float(ends[by_end[min(position, ends.size - 1)]])


def _divisible(model: Assignment, prices: NDArray[np.float64]) -> float:
    pools = len(model.pool_names)
    segment = model.offsets[:-1]
    fastest = float(np.minimum.reduceat(model.values, segment).max())
    weight = float(prices.sum())
    if weight <= 0:
        return fastest
    share = (prices[:pools] / model.counts)[model.machine] * model.gpus
    cost = model.values * (prices[pools:][model.job_of_option()] + share)
    return max(fastest, float(np.minimum.reduceat(cost, segment).sum()) / weight)
