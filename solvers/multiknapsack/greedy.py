"""A first choice by density: options in the order of value per use, each taken where it still fits.

Dobson, *Worst-case analysis of greedy heuristics for integer programming with nonnegative data*, Mathematics
of Operations Research 7 (1982), orders items so; every use counts as its share of the capacity.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from apportion.models.products import over_rows

from .option_table import OptionTable

__all__ = ["by_density", "thinned"]

_FIRST, _LARGEST = 256, 8_192
"""Options looked at together, at first and at most: doubled as long as few of them are taken."""

_NO_USE = 1e-9
"""Share that an option counts with that uses nothing."""


def by_density(
    menus: OptionTable, fallback: NDArray[np.int64], per_job: float = 0.0
) -> NDArray[np.int64] | None:
    """Return a choice that keeps every capacity, or ``None`` where the order leads to none.

    What an option gains over its job's fallback is divided by what it uses beyond it, in shares of the
    capacities. Every option is looked at once.

    Parameters
    ----------
    menus
        At least one job.
    fallback
        int64 [jobs]: the option of a job that gets no other; the smallest uses are a good one.
    per_job
        Added to the divisor, in shares: the greater it is, the more a large gain counts beside small uses.
    """
    chosen = fallback.copy()
    left = menus.capacities - menus.used(chosen)
    if (left < 0).any():
        return None
    share = over_rows(1.0 / np.maximum(menus.capacities, 1.0), menus.uses)
    gain = menus.values - menus.values[fallback][menus.job]
    more = np.maximum(share - share[fallback][menus.job], 0.0) + max(per_job, _NO_USE)
    order = np.flatnonzero(gain > 0.0)
    order = order[np.argsort(-gain[order] / more[order], kind="stable")]
    done = np.zeros(menus.num_jobs, dtype=np.bool_)
    first, size = 0, _FIRST
    while first < order.size and not done.all():
        look = order[first : first + size]
        first += size
        look = look[~done[menus.job[look]]]
        if not look.size:
            size = min(2 * size, _LARGEST)
            continue
        change = menus.uses[:, look] - menus.uses[:, fallback[menus.job[look]]]
        open_ = np.flatnonzero((change <= left[:, None]).all(axis=0))
        # each job's first option that fits, as long as they fit together; then one by one
        _, once = np.unique(menus.job[look[open_]], return_index=True)
        ahead = open_[np.sort(once)]
        total = np.cumsum(change[:, ahead], axis=1)
        taken = int(np.argmin(np.append((total <= left[:, None]).all(axis=0), False)))
        if taken:
            chosen[menus.job[look[ahead[:taken]]]] = look[ahead[:taken]]
            done[menus.job[look[ahead[:taken]]]] = True
            left = left - total[:, taken - 1]
        rest = open_[~done[menus.job[look[open_]]]]
        for at in rest[(change[:, rest] <= left[:, None]).all(axis=0)].tolist():
            option, added = int(look[at]), change[:, at]
            job = int(menus.job[option])
            if not done[job] and bool((added <= left).all()):
                chosen[job] = option
                done[job] = True
                left = left - added
                taken += 1
        if 8 * taken < look.size:
            size = min(2 * size, _LARGEST)
    return chosen


def thinned(
    menus: OptionTable, choice: NDArray[np.int64], fallback: NDArray[np.int64]
) -> NDArray[np.int64] | None:
    """Return a choice that keeps every capacity, of a choice's own options and those of the fallback.

    It looks at two options per job, so it takes a moment where a repair would take sweeps over all of them.
    ``None`` where the fallback itself does not fit.
    """
    either = np.zeros(menus.num_options, dtype=np.bool_)
    either[choice] = either[fallback] = True
    place = np.cumsum(either) - 1
    found = by_density(menus.keep(either), place[fallback])
    return None if found is None else np.flatnonzero(either)[found]
