"""Rows that every choice keeps because uses are whole: what prices of the capacities alone do not see.

A capacity counts as no more than the greatest sum that its uses can reach. For every use l of it at most
floor(capacity / l) jobs of that use or more fit, so sum floor(use / l) <= floor(capacity / l): the rounding
of Chvatal and Gomory with 1 / l, implied where l divides the capacity. On racks whose jobs take 4, 8, 16 or
32 GPUs the relaxation is then the hull of what one rack can hold.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from apportion.solvers.multiknapsack.option_table import OptionTable

__all__ = ["filled_by_few", "with_implied_rows"]


_SIZES = 8
"""Different uses of a capacity up to which it has rows of its own,"""
_LARGEST = 4096
"""up to which amount of it,"""
_CHUNK = 0.125
"""Share of a capacity from which on a use fills it with few others,"""
_CELLS = 12_000_000
"""and as long as all rows together hold no more numbers."""


def _reachable(sizes: NDArray[np.int64], capacity: int) -> int:
    """Return the greatest sum of sizes, each as often as one likes, that is no more than the capacity."""
    sums, most = 1, (1 << (capacity + 1)) - 1
    for size in sizes.tolist():
        step = size
        while step <= capacity:
            sums |= (sums << step) & most
            step *= 2
    return sums.bit_length() - 1


def with_implied_rows(menus: OptionTable) -> OptionTable:
    """Return menus with capacities as far as they can be reached, and the rows that follow behind them.

    The same menus come back where nothing follows.
    """
    capacities = menus.capacities.copy()
    capacity, option, use = menus.entries()
    ends = np.searchsorted(capacity, np.arange(capacities.size + 1))
    found: list[tuple[int, int, int]] = []
    for k in range(capacities.size):
        room = int(capacities[k])
        if room > _LARGEST:
            continue
        sizes = np.unique(use[ends[k] : ends[k + 1]]).astype(np.int64)
        if not 0 < sizes.size <= _SIZES:
            continue
        capacities[k] = room = _reachable(sizes, room)
        found += [(k, size, room) for size in sizes[sizes > 1].tolist() if room % size]
    if np.array_equal(capacities, menus.capacities) and not found:
        return menus
    rows, rooms = list[tuple[NDArray[np.int64], NDArray[np.float64]]](), list[float]()
    held = menus.matrix.size
    for k, size, room in found:
        own = np.arange(ends[k], ends[k + 1])
        own = own[use[own] >= size]
        held += own.size if menus.is_sparse else menus.num_options
        if held > _CELLS:
            break
        rows.append((option[own], use[own] // size))
        rooms.append(float(room // size))
    return menus.with_rows(rows, np.append(capacities, rooms))


def filled_by_few(menus: OptionTable, prices: NDArray[np.float64]) -> bool:
    """Return whether most of what prices say rests on capacities that a few jobs fill.

    Only there rounding is worth more than what more rows take in all that follows.
    """
    paid = prices * menus.capacities
    few = menus.most() >= _CHUNK * menus.capacities
    return bool(2.0 * paid[few].sum() >= paid.sum())
