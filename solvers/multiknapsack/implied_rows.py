"""Rows that every choice keeps because uses are whole: what prices of the capacities alone do not see.

A capacity counts as no more than the greatest sum that its uses can reach. For every use l of it at most
floor(capacity / l) jobs of that use or more fit, so sum floor(use / l) <= floor(capacity / l): the rounding
of Chvatal and Gomory with 1 / l, implied where l divides the capacity. On racks whose jobs take 4, 8, 16 or
32 GPUs the relaxation is then the hull of what one rack can hold.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from apportion.solvers.multiknapsack.option_table import OptionTable

__all__ = ["ImpliedRows", "with_implied_rows"]


_SIZES = 8
"""Different uses of a capacity up to which it has rows of its own,"""
_LARGEST = 4096
"""up to which amount of it,"""
_CELLS = 12_000_000
"""and as long as all rows together have no more cells."""


def _reachable(sizes: NDArray[np.int64], capacity: int) -> int:
    """Return the greatest sum of sizes, each as often as one likes, that is no more than the capacity."""
    sums, most = 1, (1 << (capacity + 1)) - 1
    for size in sizes.tolist():
        step = size
        while step <= capacity:
            sums |= (sums << step) & most
            step *= 2
    return sums.bit_length() - 1


@dataclass(frozen=True, slots=True, eq=False)
class ImpliedRows:
    """Menus under the rows that follow from their capacities too.

    Attributes
    ----------
    menus
        The capacities first, as far as they can be reached, then the rows that follow.
    """

    menus: OptionTable
    _capacities: NDArray[np.float64]
    _origin: NDArray[np.int64]
    _sizes: NDArray[np.float64]

    @property
    def any(self) -> bool:
        """Whether there is a row, or an amount, that no capacity says itself."""
        return not np.array_equal(self.menus.capacities, self._capacities)

    def without(self, menus: OptionTable) -> OptionTable:
        """Return a part of the menus under the capacities alone, as they stand."""
        count = self._capacities.size
        return replace(menus, uses=menus.uses[:count], capacities=self._capacities)

    def folded(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return multipliers of the capacities alone that come near those of all rows."""
        each = np.bincount(self._origin, weights=weights / self._sizes, minlength=self._capacities.size)
        return np.asarray(each, dtype=np.float64)


def with_implied_rows(menus: OptionTable) -> ImpliedRows:
    """Return menus of at least one job under implied rows too."""
    capacities = menus.capacities.copy()
    rows, rooms, origin, divisors = [menus.uses], list[int](), list(range(capacities.size)), list[int]()
    for k in range(capacities.size):
        room = int(capacities[k])
        sizes = np.unique(menus.uses[k])
        sizes = sizes[sizes > 0].astype(np.int64)
        if not 0 < sizes.size <= _SIZES or room > _LARGEST:
            continue
        room = _reachable(sizes, room)
        capacities[k] = room
        for size in sizes[sizes > 1].tolist():
            if room % size and (len(origin) + 1) * menus.num_options <= _CELLS:
                rows.append((menus.uses[k] // size)[None])
                rooms.append(room // size)
                origin.append(k)
                divisors.append(size)
    return ImpliedRows(
        replace(menus, uses=np.concatenate(rows), capacities=np.append(capacities, np.array(rooms, float))),
        menus.capacities,
        np.array(origin, dtype=np.int64),
        np.append(np.ones(capacities.size), np.array(divisors, float)),
    )
