"""The weak-duality bound of a multiple-choice knapsack, vectorised and rounded outward, or exact.

Maximising, for any multipliers lambda >= 0 (Kellerer, Pferschy, Pisinger 2004, section 11.2):

    z*  <=  lambda . C + sum_j max_i (v_ji - lambda . u_ji)

with 0 among the choices of an optional job; minimising is the mirror image.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from apportion.models.exact_sums import over_columns
from apportion.models.multiple_choice import MultipleChoiceKnapsack

__all__ = ["exact_lagrangian_bound", "lagrangian_bound"]

_CHUNK = 1 << 18
_EPS = float(np.finfo(np.float64).eps)
_LOOSEST = 1e-10
"""Largest outward rounding, relative to the bound, before the exact bound is computed instead."""


def lagrangian_bound(
    model: MultipleChoiceKnapsack, multipliers: NDArray[np.float64], value_error: float = 0.0
) -> float | None:
    """Return the bound of given multipliers, rounded outward so that it is never tighter than the exact one.

    Parameters
    ----------
    model
        The knapsack.
    multipliers
        float64 [capacities], finite and at least 0.
    value_error
        How far rounding in the model's values may have moved the sum of any choice from what they stand for.

    Returns
    -------
    float or None
        ``None`` if a required job has an empty menu (nothing is feasible), if the multipliers are not
        usable, or if rounding would loosen the bound by more than 1e-10 of itself.
    """
    prices = np.asarray(multipliers, dtype=np.float64)
    if prices.shape != (model.num_capacities,) or not np.isfinite(prices).all() or (prices < 0).any():
        return None
    if (model.required & (np.diff(model.offsets) == 0)).any():
        return None
    sign = 1.0 if model.sense == "maximize" else -1.0
    paid = [float(price) * float(capacity) for price, capacity in zip(prices, model.capacities, strict=True)]
    if not sum(paid) < math.inf:
        return None
    total = magnitude = math.fsum(paid)
    for first, last in _job_chunks(model.offsets):
        start, stop = int(model.offsets[first]), int(model.offsets[last])
        value = model.values[start:stop]
        with np.errstate(over="ignore"):  # an infinite price ends as an infinite margin, so as no bound
            price = over_columns(model.matrix[start:stop], prices)
        sizes = np.diff(model.offsets[first : last + 1])
        filled = np.flatnonzero(sizes)
        if not filled.size:
            continue
        segment = (model.offsets[first:last] - start)[filled]
        best = np.maximum.reduceat(sign * value - price, segment)
        best[~model.required[first:last][filled]] = np.maximum(best[~model.required[first:last][filled]], 0.0)
        total += float(best.sum())
        magnitude += float(np.maximum.reduceat(np.abs(value) + price, segment).sum())
    margin = (model.num_capacities + 24) * _EPS * magnitude + value_error
    if not margin <= _LOOSEST * abs(total) < math.inf:
        return None
    if margin == 0.0:  # nothing but zeros was added up
        return sign * total + 0.0
    return sign * math.nextafter(total + margin, math.inf)


def exact_lagrangian_bound(
    model: MultipleChoiceKnapsack, multipliers: NDArray[np.float64]
) -> Fraction | None:
    """Return the bound in rational arithmetic; ``None`` if a required job has an empty menu."""
    prices = [Fraction(float(price)) for price in multipliers]
    sign = 1 if model.sense == "maximize" else -1
    total = sum((p * int(c) for p, c in zip(prices, model.capacities, strict=True)), Fraction(0))
    for job in range(model.num_jobs):
        rows = range(int(model.offsets[job]), int(model.offsets[job + 1]))
        worths = [
            sign * Fraction(float(model.values[row]))
            - sum((p * int(u) for p, u in zip(prices, model.uses[row], strict=True)), Fraction(0))
            for row in rows
        ]
        if not model.required[job]:
            worths.append(Fraction(0))
        if not worths:
            return None
        total += max(worths)
    return sign * total


def _job_chunks(offsets: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return job ranges of about a quarter million options, so that temporaries stay in cache."""
    num_jobs = offsets.size - 1
    if 0 < offsets[-1] <= _CHUNK:
        return [(0, num_jobs)]
    cuts = np.searchsorted(offsets, np.arange(0, int(offsets[-1]) + _CHUNK, _CHUNK), side="left")
    bounds = np.unique(np.concatenate(([0], cuts, [num_jobs])))
    bounds = bounds[bounds <= num_jobs]
    return list(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True))
