"""Multipliers for a proof: near the least bound of all menus, and of what is left deep in the walk.

They are found in doubles and need no trust: a proof rounds them to whole numbers, and any numbers >= 0 give a
valid bound.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from apportion.models.products import over_columns

__all__ = ["FloatMenus", "descend", "fitted_to_depths"]


class FloatMenus:
    """Menus in doubles: worths [options], uses [options, capacities], offsets, capacities."""

    def __init__(
        self,
        worths: NDArray[np.float64],
        uses: NDArray[np.float64],
        offsets: NDArray[np.int64],
        capacities: NDArray[np.float64],
    ) -> None:
        self.worths, self.uses, self.offsets, self.capacities = worths, uses, offsets, capacities

    def best(self, prices: NDArray[np.float64]) -> tuple[float, NDArray[np.int64]]:
        """Return the bound of prices and the row each job takes at them, its first best one."""
        term = self.worths - over_columns(self.uses, prices)
        top = np.maximum.reduceat(term, self.offsets[:-1])
        owner = np.repeat(np.arange(self.offsets.size - 1), np.diff(self.offsets))
        hits = np.flatnonzero(term == top[owner])
        rows = hits[np.searchsorted(owner[hits], np.arange(top.size))]
        return float(top.sum() + self.capacities @ prices), rows

    def part(self, jobs: NDArray[np.int64], capacities: NDArray[np.float64]) -> FloatMenus:
        """Return the menus of some jobs under other capacities."""
        rows = np.concatenate([np.arange(self.offsets[j], self.offsets[j + 1]) for j in jobs])
        sizes = np.diff(self.offsets)[jobs]
        offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
        return FloatMenus(self.worths[rows], self.uses[rows], offsets, capacities)


def descend(
    menus: FloatMenus, begin: NDArray[np.float64], target: float, rounds: int = 150, fixed: bool = False
) -> list[NDArray[np.float64]]:
    """Return the prices of the least bound found from `begin`, and the mean of the prices passed late.

    Subgradient steps of Polyak's length towards `target`, deflected by the steps before; a capacity is
    measured in its own amount, so that none of them rules the step. With `fixed`, prices keep the sum they
    pay for all capacities: where every worth is 0 only their proportion matters.
    """
    unit = 1.0 / np.maximum(menus.capacities, 1.0)
    prices, step = begin.copy(), np.zeros_like(begin)
    best, least = begin.copy(), np.inf
    mean = np.zeros_like(begin)
    length, stale = 1.0, 0
    for at in range(rounds):
        bound, rows = menus.best(prices)
        if bound < least - 1e-12 * abs(bound):
            best, least, stale = prices.copy(), bound, 0
        else:
            stale += 1
            if stale >= 8:
                length, stale = 0.6 * length, 0
                prices, step = best.copy(), np.zeros_like(step)
                bound, rows = menus.best(prices)
        if at >= rounds // 2:
            mean += prices
        if least < target:
            break
        step = 0.7 * step + 0.3 * unit * (menus.capacities - menus.uses[rows].sum(axis=0))
        norm = float(step @ step)
        if norm <= 1e-300 or length < 1e-7:
            break
        prices = np.maximum(
            prices - length * max(bound - target, 1e-9 * abs(bound)) / norm * step * unit, 0.0
        )
        if fixed:
            paid = float(menus.capacities @ prices)
            prices = prices / paid if paid > 0 else best.copy()
    return [best, mean / max(1, rounds - rounds // 2)] if mean.any() else [best]


def fitted_to_depths(
    menus: FloatMenus, order: NDArray[np.int64], prices: NDArray[np.float64], shares: tuple[float, ...]
) -> list[NDArray[np.float64]]:
    """Return prices fitted to the last jobs of an order, one vector for each share of them."""
    found = []
    _, rows = menus.best(prices)
    for share in shares:
        open_jobs = order[order.size - max(1, round(share * order.size)) :]
        decided = np.setdiff1d(order, open_jobs)
        left = np.maximum(menus.capacities - menus.uses[rows[decided]].sum(axis=0), 0.0)
        part = menus.part(open_jobs, left)
        bound, _ = part.best(prices)
        found.append(descend(part, prices, bound - 0.02 * abs(bound) - 1e-9, rounds=60)[0])
    return found
