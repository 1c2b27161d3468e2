"""From any choice to a feasible one: the swaps that lose least per relieved use, then whatever still fits.

After the repair and fill steps of the primal heuristics in Kellerer, Pferschy and Pisinger, *Knapsack
Problems* (2004), section 9.5, with Lagrangian losses as pseudo-utilities. Many swaps are made per sweep
where many are due, so the number of sweeps stays small at any number of jobs.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.models.products import over_rows

from .greedy import by_density, thinned
from .linear_dual import has_sparse_rows
from .option_table import OptionTable, build

__all__ = ["cheapest", "choice", "filled", "repaired"]

_SWEEPS = 400


def choice(
    model: MultipleChoiceKnapsack,
    multipliers: NDArray[np.float64],
    start: NDArray[np.int64] | None = None,
    late: Callable[[], bool] = lambda: False,
) -> NDArray[np.int64] | None:
    """Return a feasible choice of the model near the one that the multipliers prefer, or ``None``.

    Parameters
    ----------
    model
        The menus.
    multipliers
        float64 [capacities] >= 0.
    start
        int64 [jobs], chosen rows (-1: none), possibly infeasible: repaired instead of the multipliers'
        choice. A job whose entry is not in its menu begins at what the multipliers prefer.
    late
        Whether the time is over: then a choice by density stands in.
    """
    menus = build(model)
    if menus is None:
        return None
    if menus.num_jobs == 0:
        return np.zeros(0, np.int64)
    weights = menus.restrict(np.asarray(multipliers, dtype=np.float64))
    options = menus.best_choice(menus.scores(weights))
    if start is not None:
        place = menus.locate(start)
        options = np.where(place >= 0, place, options)
    fitting = repaired(menus, weights, options, late)
    if fitting is None:
        least = cheapest(menus)
        if not late():
            fitting = repaired(menus, weights, least, late)
        elif has_sparse_rows(menus):  # few options share a capacity: all of them are soon looked at
            fitting = by_density(menus, least)
        else:
            fitting = thinned(menus, options, least)
    return None if fitting is None else menus.rows[filled(menus, weights, fitting, late)]


def cheapest(menus: OptionTable) -> NDArray[np.int64]:
    """Return the choice of least use, each capacity counted in shares of what is available."""
    share = over_rows(1.0 / np.maximum(menus.capacities, 1.0), menus.uses)
    return menus.first_at(share == menus.smallest(share)[menus.job])


def repaired(
    menus: OptionTable,
    weights: NDArray[np.float64],
    start: NDArray[np.int64],
    late: Callable[[], bool] = lambda: False,
) -> NDArray[np.int64] | None:
    """Swap options until every capacity holds; ``None`` if no single swap relieves any more (or it is late).

    Each sweep takes every job's best swap (least loss per relieved use, overuse in shares of the
    capacities), sorts them and makes about half of those that would be needed, one at least.
    """
    chosen = start.copy()
    capacities = menus.capacities
    share = 1.0 / np.maximum(capacities, 1.0)
    scores = menus.scores(weights)
    tiny = 1e-9 * max(1.0, float(np.abs(scores).max(initial=0.0)))
    used = menus.used(chosen)
    for _ in range(_SWEEPS):
        over = np.maximum(used - capacities, 0.0)
        if not over.any():
            return chosen
        if late():
            return None
        relief = np.zeros(menus.num_options)
        for k in range(capacities.size):
            change = menus.uses[k] - menus.uses[k, chosen][menus.job]
            relief += share[k] * (over[k] - np.maximum(used[k] + change - capacities[k], 0.0))
        lost = scores[chosen][menus.job] - scores
        ratio = np.full(menus.num_options, np.inf)
        helps = relief > 1e-12
        ratio[helps] = np.maximum(lost[helps], tiny) / relief[helps]
        best = menus.smallest(ratio)
        jobs = np.flatnonzero(best < np.inf)
        if jobs.size == 0:
            return None
        swaps = menus.first_at(ratio == best[menus.job])[jobs]
        order = np.argsort(best[jobs], kind="stable")
        enough = int(np.searchsorted(np.cumsum(relief[swaps[order]]), float(share @ over)))
        swaps = swaps[order[: max(1, enough // 2)]]
        before = used
        moved = menus.job[swaps]
        used = used + menus.uses[:, swaps].sum(axis=1) - menus.uses[:, chosen[moved]].sum(axis=1)
        if swaps.size > 1 and share @ np.maximum(used - capacities, 0.0) >= share @ over:
            # Together they overshoot elsewhere: make the best one alone.
            swaps, moved = swaps[:1], moved[:1]
            used = before + menus.uses[:, swaps[0]] - menus.uses[:, chosen[moved[0]]]
        chosen[moved] = swaps
    return None


def filled(
    menus: OptionTable,
    weights: NDArray[np.float64],
    start: NDArray[np.int64],
    late: Callable[[], bool] = lambda: False,
) -> NDArray[np.int64]:
    """Make every single swap that gains and fits: first those the multipliers favour, then any."""
    chosen = start.copy()
    scores = menus.scores(weights)
    used = menus.used(chosen)
    tiny = 1e-12 * max(1.0, float(np.abs(menus.values).max(initial=0.0)))
    for key in (scores, menus.values):
        for _ in range(_SWEEPS):
            if late():
                return chosen
            gain = key - key[chosen][menus.job]
            good = gain > tiny
            good &= menus.values > menus.values[chosen][menus.job] + tiny
            for k in range(menus.capacities.size):
                good &= (
                    menus.uses[k] - menus.uses[k, chosen][menus.job] <= menus.capacities[k] - used[k] + 1e-9
                )
            candidates = np.flatnonzero(good)
            if candidates.size == 0:
                break
            # The best swap per job, best first, as long as they fit together.
            ranked = candidates[np.argsort(-gain[candidates], kind="stable")]
            _, first = np.unique(menus.job[ranked], return_index=True)
            swaps = ranked[np.sort(first)]
            moved = menus.job[swaps]
            change = np.cumsum(menus.uses[:, swaps] - menus.uses[:, chosen[moved]], axis=1)
            fits = (used[:, None] + change <= menus.capacities[:, None] + 1e-9).all(axis=0)
            count = int(np.argmin(fits)) if not fits.all() else fits.size
            chosen[moved[:count]] = swaps[:count]
            used = menus.used(chosen)
    return chosen
