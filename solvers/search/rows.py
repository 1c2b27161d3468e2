"""Rows of whole numbers from menus, multipliers and an incumbent: what the depth-first search is run on.

For whole multipliers Lambda >= 0 in units of 1/P of a unit of worth, weak duality says of every choice that
keeps the capacities

    P worth  <=  Lambda . C + sum_j best_j - sum_j loss_j,   best_j = max_i (P w_ji - Lambda . u_ji)

with ``loss_j >= 0`` the distance of the chosen option from the best of its menu. So a choice worth at least
``floor + 1`` loses at most ``Lambda . C + sum_j best_j - P (floor + 1)`` in all: that is a row. Everything
is computed in whole numbers below 2**62; where a budget exceeds 30 bits, budget and costs are shifted to the
right and rounded down, which can only let more choices pass: ``sum floor(c / 2**s) <= floor(budget / 2**s)``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .depth_first import LARGEST, DepthFirst

__all__ = ["Bounds", "WholeMenus", "bounds", "power_of", "whole_multipliers"]

_TOTAL = 2.0**60
"""Totals estimated in float64 stay below this, so that the whole ones stay below 2**61."""
_FINEST = 40
"""P is at most 2 to this power: multipliers need no more digits."""


@dataclass(frozen=True, slots=True, eq=False)
class WholeMenus:
    """Menus in whole numbers; every job takes exactly one option.

    Attributes
    ----------
    worth
        int64 [options], to be maximised.
    uses
        int64 [capacities, options], at least 0.
    offsets
        int64 [jobs + 1]; no menu is empty.
    capacities
        int64 [capacities].
    """

    worth: NDArray[np.int64]
    uses: NDArray[np.int64]
    offsets: NDArray[np.int64]
    capacities: NDArray[np.int64]

    @property
    def num_jobs(self) -> int:
        """How many jobs there are."""
        return int(self.offsets.size - 1)

    def spread(self, per_job: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return [options, ...]: each job's entry repeated over its menu."""
        return np.repeat(per_job, np.diff(self.offsets), axis=-1)

    def take(self, options: NDArray[np.int64], sizes: NDArray[np.int64]) -> WholeMenus:
        """Return menus of the given options; the first `sizes[0]` are those of the first job, and so on."""
        offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
        uses = np.ascontiguousarray(self.uses.take(options, axis=1))
        return WholeMenus(self.worth[options], uses, offsets, self.capacities)

    def largest_worth(self) -> int:
        """Return a number that no choice's worth exceeds in magnitude."""
        return int(np.maximum.reduceat(np.abs(self.worth), self.offsets[:-1]).sum())


@dataclass(frozen=True, slots=True, eq=False)
class Bounds:
    """The bounds of several multiplier vectors over menus.

    Attributes
    ----------
    multipliers
        int64 [vectors, capacities]: Lambda.
    power
        P.
    top
        int64 [vectors]: ``Lambda . C + sum_j best_j``.
    loss
        int64 [vectors, options], at least 0.
    """

    multipliers: NDArray[np.int64]
    power: int
    top: NDArray[np.int64]
    loss: NDArray[np.int64]

    def take(self, options: NDArray[np.int64]) -> Bounds:
        """Return the same bounds with the options in another order."""
        return Bounds(self.multipliers, self.power, self.top, self.loss[:, options])

    def slack(self, floor: int) -> NDArray[np.int64]:
        """Return int64 [vectors]: the most that a choice worth more than `floor` may lose; negative: none."""
        return self.top - self.power * (floor + 1)

    def begin(self, menus: WholeMenus, floor: int) -> tuple[DepthFirst, NDArray[np.int64]] | None:
        """Return a search for choices worth more than `floor`, and int64 [vectors], the shift of each row.

        Menus stand in the order of the search, options in the order of their loss in row 0. ``None`` if a row
        shows at once that there is no such choice.
        """
        least = np.minimum.reduceat(menus.uses, menus.offsets[:-1], axis=1)
        costs = np.concatenate((self.loss, menus.uses - menus.spread(least)))
        budgets = np.concatenate((self.slack(floor), menus.capacities - least.sum(axis=1)))
        if (budgets < 0).any():
            return None
        shifts = np.zeros(budgets.size, dtype=np.int64)
        while (over := (budgets >> shifts) > LARGEST).any():
            shifts[over] += 1
        shifted = (costs >> shifts[:, None]).T
        search = DepthFirst.begin(menus.offsets, shifted, budgets >> shifts, menus.worth, floor)
        return search, shifts


def power_of(menus: WholeMenus) -> int:
    """Return P: the largest power of two for which P times the worth of a choice stays below 2**60."""
    return 1 << max(0, min(_FINEST, 59 - menus.largest_worth().bit_length()))


def whole_multipliers(menus: WholeMenus, multipliers: NDArray[np.float64], power: int) -> NDArray[np.int64]:
    """Return int64 [vectors, capacities]: multipliers rounded to 1/P, without those that could overflow.

    Parameters
    ----------
    menus
        For the largest sums.
    multipliers
        float64 [vectors, capacities], at least 0, in units of worth.
    power
        P.
    """
    most = np.maximum.reduceat(menus.uses, menus.offsets[:-1], axis=1).astype(np.float64).sum(axis=1)
    rounded = np.rint(multipliers * power)
    fits = np.isfinite(rounded).all(axis=1)
    # The price of all capacities, and of the largest uses: each a total that the search adds up.
    total = rounded @ np.maximum(most, menus.capacities.astype(np.float64))
    fits &= total < _TOTAL
    whole: NDArray[np.int64] = rounded[fits].astype(np.int64)
    return whole


def bounds(menus: WholeMenus, multipliers: NDArray[np.int64], power: int) -> Bounds:
    """Return the bounds of whole multipliers [vectors, capacities] over menus."""
    scores = power * menus.worth - multipliers @ menus.uses
    best = np.maximum.reduceat(scores, menus.offsets[:-1], axis=1)
    top = multipliers @ menus.capacities + best.sum(axis=1)
    return Bounds(multipliers, power, top, menus.spread(best) - scores)
