"""What shares cost at prices: a refutation of floors, and a bound on how many can rise, without any search.

At prices pi >= 0 a claimant with floor f pays at least f times the least price of one unit of share among its
options, whatever it chooses. If all together would have to pay more than ``pi . capacities``, the floors
cannot all be reached. Prices are found by ascent in floating point, then rounded to whole numbers; what they
show is computed in whole numbers and fractions alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from apportion.fairness.claimants import Claimant

__all__ = ["SharePrices"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_ROUNDS = 60
_NOTHING = 1e-200
"""What prices of all capacities come to where they mean nothing any more."""
_FINE = 1 << 20
"""Whole units of the largest price."""


class SharePrices:
    """The options of disjoint claimants, and what their shares cost.

    Parameters
    ----------
    claimants
        Whose jobs are disjoint.
    rows
        The rows of every claimant's options, in the same order.
    uses, share, capacities
        Of the menus.
    scopes
        bool [capacities] each: the cluster's own capacities, and the limits of every tenant that has some.
    """

    def __init__(
        self,
        claimants: Sequence[Claimant],
        rows: Sequence[Integers],
        uses: Integers,
        share: Integers,
        capacities: Integers,
        scopes: Sequence[NDArray[np.bool_]],
    ) -> None:
        kept = [part[share[part] > 0] for part in rows]
        self._index = {one: place for place, one in enumerate(claimants)}
        flat = np.concatenate([*kept, np.zeros(0, dtype=np.int64)])
        whose = np.repeat(np.arange(len(kept)), [part.size for part in kept])
        # a claimant's jobs often have options that use and share alike: one of them is enough
        told = _distinct(np.column_stack([whose, share[flat], uses[flat]]))
        self._share, self._uses = told[:, 1], np.ascontiguousarray(told[:, 2:])
        sizes = np.bincount(told[:, 0], minlength=len(kept))
        self._starts = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
        self._some = np.flatnonzero(sizes > 0)
        self._per_share = self._uses / np.maximum(1, self._share)[:, None]
        self._capacities = capacities
        self._begin: Floats | None = None
        each = 1.0 / np.maximum(1.0, capacities.astype(np.float64))
        self._even: list[Floats] = [np.where(scope, each, 0.0) for scope in scopes]

    def refuted(self, floors: Mapping[Claimant, int]) -> bool:
        """Return whether prices show that the floors cannot all be reached."""
        wanted = self._wanted(floors)
        for prices in self._climbed(wanted):
            whole = self._whole(prices)
            if self._cost(whole, wanted) > self._paid(whole):
                self._begin = prices
                return True
        return False

    def most_rising(self, floors: Mapping[Claimant, int], goals: Mapping[Claimant, int]) -> int:
        """Return a bound on how many of the goals can be reached beside the floors."""
        wanted = self._wanted({**floors, **goals})
        best = len(goals)
        for prices in self._climbed(wanted):
            whole = self._whole(prices)
            unit = self._least(whole)
            slack = self._paid(whole) - self._cost(whole, self._wanted(floors))
            steps = sorted(
                unit[self._index[one]] * (goal - floors.get(one, 0))
                for one, goal in goals.items()
                if one in self._index
            )
            count, spent = len(goals) - len(steps), Fraction(0)
            for step in steps:
                spent += step
                if spent > slack:
                    break
                count += 1
            best = min(best, count)
        return best

    def _wanted(self, floors: Mapping[Claimant, int]) -> Integers:
        wanted = np.zeros(len(self._index), dtype=np.int64)
        for one, floor in floors.items():
            if one in self._index:
                wanted[self._index[one]] = floor
        return wanted

    def _climbed(self, wanted: Integers) -> list[Floats]:
        """Return even prices of every scope, and the best of an ascent for what is wanted."""
        scale = np.maximum(1.0, self._capacities.astype(np.float64))
        prices = 1.0 / scale if self._begin is None else self._begin.copy()
        found: list[tuple[float, Floats]] = []
        if not self._some.size:
            return []
        for even in self._even:
            least = np.minimum.reduceat(self._per_share @ even, self._starts[self._some])
            if float(least @ wanted[self._some]) > float(even @ self._capacities):
                return [even]
        for turn in range(_ROUNDS):
            costs = self._per_share @ prices
            least = np.minimum.reduceat(costs, self._starts[self._some])
            part = np.repeat(least, np.diff(self._starts)[self._some])
            at_least = np.flatnonzero(costs <= part)
            owner = np.searchsorted(self._starts[self._some], at_least, side="right") - 1
            first = at_least[np.unique(owner, return_index=True)[1]]
            need = self._per_share[first].T @ wanted[self._some].astype(np.float64)
            paid = float(prices @ self._capacities)
            found.append((float(least @ wanted[self._some]) / max(paid, _NOTHING), prices))
            if found[-1][0] > 1.0 and turn > _ROUNDS // 4:
                break
            direction = need / scale - 1.0
            prices = np.maximum(0.0, prices * np.exp(np.clip(direction, -1, 1) / (2 + turn / 4)))
            paid = float(prices @ self._capacities)
            if paid < _NOTHING:  # what is scarce has no capacity at all
                break
            prices /= paid
        found.sort(key=lambda one: -one[0])
        return [*self._even, *(prices for _, prices in found[:2])]

    def _whole(self, prices: Floats) -> list[int]:
        top = float(prices.max(initial=0.0)) or 1.0
        return [round(price / top * _FINE) for price in prices.tolist()]

    def _least(self, whole: Sequence[int]) -> list[Fraction]:
        """Return the least price of a unit of share of every claimant; 0 for one without options."""
        costs = self._uses @ np.array(whole, dtype=np.int64)
        near = costs / np.maximum(1, self._share)
        found = [Fraction(0)] * len(self._index)
        least = np.minimum.reduceat(near, self._starts[self._some])
        for place, low in zip(self._some.tolist(), least.tolist(), strict=True):
            start, end = self._starts[place], self._starts[place + 1]
            close = start + np.flatnonzero(near[start:end] <= low * (1 + 1e-9))
            pairs = {(int(costs[row]), int(self._share[row])) for row in close.tolist()}
            found[place] = min(Fraction(cost, share) for cost, share in pairs)
        return found

    def _cost(self, whole: Sequence[int], wanted: Integers) -> Fraction:
        least = self._least(whole)
        return sum((low * floor for low, floor in zip(least, wanted.tolist(), strict=True)), Fraction(0))

    def _paid(self, whole: Sequence[int]) -> int:
        return sum(price * room for price, room in zip(whole, self._capacities.tolist(), strict=True))


def _distinct(rows: Integers) -> Integers:
    """Return the distinct rows, sorted by their first column."""
    if not rows.size:
        return rows
    whole = np.ascontiguousarray(rows).view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1])))
    found = rows[np.unique(whole.ravel(), return_index=True)[1]]
    return found[np.argsort(found[:, 0], kind="stable")]
