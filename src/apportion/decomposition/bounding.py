"""A part's share of the bound that multipliers prove, with what rounding may have done to it.

    z* <= lambda . C + sum over parts of sum_j max_i (v_ji - lambda . u_ji)

as in `apportion.models.lagrangian`, of which this is one summand: the rounding is returned, not added, so
that it is added once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from apportion.models.multiple_choice import MultipleChoiceKnapsack

__all__ = ["Summed", "chosen_value", "share_of_bound"]

_EPS = float(np.finfo(np.float64).eps)

Summed = tuple[float, float]
"""A sum in float64, and the most by which it may differ from the exact one."""


def share_of_bound(part: MultipleChoiceKnapsack, multipliers: NDArray[np.float64], sign: float) -> Summed:
    """Return ``sum_j max_i (sign v_ji - lambda . u_ji)`` over a part, with 0 for jobs that may stay out."""
    total, magnitude, count = 0.0, 0.0, part.num_capacities
    filled = np.flatnonzero(np.diff(part.offsets))
    if filled.size:
        price = np.zeros(part.num_options)
        for k in range(count):
            price += multipliers[k] * part.uses[:, k]
        starts = part.offsets[:-1][filled]
        best = np.maximum.reduceat(sign * part.values - price, starts)
        free = ~part.required[filled]
        best[free] = np.maximum(best[free], 0.0)
        total = float(best.sum())
        magnitude = float(np.abs(part.values).sum() + price.sum())  # of all options: more than of the best
    return total, (count + 24) * _EPS * magnitude


def chosen_value(part: MultipleChoiceKnapsack, rows: NDArray[np.int64]) -> Summed:
    """Return the sum of the values of chosen rows."""
    value = part.values[rows]
    return float(value.sum()), 24 * _EPS * float(np.abs(value).sum())
