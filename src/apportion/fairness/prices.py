"""What shares cost at prices: a refutation of floors, and a bound on how many can rise, without any search.

At prices pi >= 0 a holder with floor f pays at least f times the least price of one unit of share among its
options, whatever it chooses. If all together would have to pay more than ``pi . capacities``, the floors
cannot all be reached. A requirement k that R_k holders must reach has a price mu_k >= 0 too, and all
pay at least

    sum_k mu_k R_k + sum_i min_r (price_i height_ir - sum_(k <= r) mu_k)

Prices are found by ascent in floating point, then rounded to whole numbers; what they show is computed in
whole numbers alone.

A job has one option, so more share costs more than the cheapest unit of it. What a holder pays at least for
a floor is a knapsack over its jobs, solved by dynamic programming over what is paid, in steps, each option's
cost rounded down (Kellerer, Pferschy and Pisinger, *Knapsack Problems*, 2004, section 11.5). On one capacity
nothing is lost.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise, product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from apportion.fairness.share_holders import LevelRequirement, ShareHolder
from apportion.models.exact_sums import over_columns, over_rows

__all__ = ["SharePrices"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_ROUNDS = 60
_NOTHING = 1e-200
"""What prices of all capacities come to where they mean nothing any more."""
_HOPEFUL = 1.0 - 1e-5
"""What a demand costs over what there is, in doubles, below which whole prices do not refute it."""
_FINE = 1 << 20
"""Whole units of the largest price."""
_PARTS = 1 << 60
"""Parts of a whole price of one unit of share."""
_SWEEPS = 4
_STEPS, _CELLS = 4_000, 8_000_000
"""Steps of what all capacities cost, and cells of the tables of jobs up to which knapsacks are solved."""
_KEPT = 4
"""Prices for which tables are kept."""
_MOST_SETS = 2_000
"""Holders times counts on requirements up to which the cheapest set of holders is looked for."""
_RELAXED = 20_000
"""Options up to which the relaxation is solved for its prices."""
_HIGHEST = 1 << 62
"""Heights above, which nobody has, count as this: what is shown of less that is demanded holds of more."""


class _Demand(NamedTuple):
    """What every holder has by its floor and by every requirement, and how many must meet each requirement.

    Attributes
    ----------
    heights
        int64 [1 + requirements, holders], never falling; who is not on a requirement stays where it was
        before.
    counted
        bool [1 + requirements, holders]: who counts on a requirement; nobody on the ground.
    rise
        int64 [1 + requirements]: how many must.
    """

    heights: Integers
    counted: NDArray[np.bool_]
    rise: Integers

    def rising(self, count: int) -> _Demand:
        """Return the same with so many on the last requirement."""
        return self._replace(rise=np.append(self.rise[:-1], count))


class _Priced(NamedTuple):
    """The least cost of a demand beyond the capacities, and what more each adds on the last requirement."""

    excess: int
    forced: list[int]


class _Bought(NamedTuple):
    """The most share of every holder, int64 [paid + 1] each, for what is paid in steps of so much."""

    step: int
    most: list[Integers]


class SharePrices:
    """The options of disjoint holders, and what their shares cost.

    Parameters
    ----------
    holders
        Whose jobs are disjoint.
    rows
        The rows of every holder's options, in the same order.
    uses, share, owner, capacities
        Of the menus; owner is the job of every option.
    scopes
        bool [capacities] each: the cluster's own capacities, and the limits of every tenant that has some.
    """

    def __init__(
        self,
        holders: Sequence[ShareHolder],
        rows: Sequence[Integers],
        uses: Integers,
        share: Integers,
        owner: Integers,
        capacities: Integers,
        scopes: Sequence[NDArray[np.bool_]],
    ) -> None:
        kept = [part[share[part] > 0] for part in rows]
        self._index = {one: place for place, one in enumerate(holders)}
        flat = np.concatenate([*kept, np.zeros(0, dtype=np.int64)])
        whose = np.repeat(np.arange(len(kept)), [part.size for part in kept])
        # a holder's jobs often have options that use and share alike: one of them is enough
        distinct = _distinct(np.column_stack([whose, share[flat], uses[flat]]))
        self._share, self._uses = distinct[:, 1], np.ascontiguousarray(distinct[:, 2:])
        sizes = np.bincount(distinct[:, 0], minlength=len(kept))
        self._starts = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
        self._sizes, self._owner = sizes, distinct[:, 0]
        self._menus = whose, owner[flat], share[flat], uses, flat
        self._bought: dict[tuple[int, ...], _Bought | None] = {}
        self._some = np.flatnonzero(sizes > 0)
        self._per_share = self._uses / np.maximum(1, self._share)[:, None]
        self._capacities = capacities
        self._begin: Floats | None = None
        self._units = np.zeros(len(holders))
        each = 1.0 / np.maximum(1.0, capacities.astype(np.float64))
        self._even: list[Floats] = [np.where(scope, each, 0.0) for scope in scopes]
        self._several = any(len(one.jobs) > 1 for one in holders)
        self._alone = [even for even in self._even if self._several and np.count_nonzero(even) == 1]
        self._relaxed_at: dict[bytes, Floats] = {}

    def refuted(
        self, floors: Mapping[ShareHolder, int], requirements: Sequence[LevelRequirement] = ()
    ) -> bool:
        """Return whether prices show that floors and requirements cannot all be met.

        Where one capacity counts alone, what the options of every job use of it is looked at as well: on one
        capacity, and with few holders, nothing else can be refuted then.
        """
        demand = self._demand(floors, requirements)
        for prices in self._climbed(demand, hopeful=True):
            if self._priced(prices, demand).excess > 0:
                self._begin = prices
                return True
        return any(self._priced(prices, demand, jobs=True).excess > 0 for prices in self._alone)

    def refuted_by_jobs(
        self, floors: Mapping[ShareHolder, int], requirements: Sequence[LevelRequirement] = ()
    ) -> bool:
        """Return whether what the options of every job cost at the relaxation's prices shows it."""
        if self._alone or not self._several:
            return False
        demand = self._demand(floors, requirements)
        return self._priced(self._relaxed(demand), demand, jobs=True).excess > 0

    def most_rising(
        self,
        floors: Mapping[ShareHolder, int],
        requirements: Sequence[LevelRequirement],
        goals: Mapping[ShareHolder, int],
    ) -> int:
        """Return a bound on how many of some goals can be reached beside floors and requirements."""
        demand = self._demand(floors, (*requirements, LevelRequirement(goals, 0)))
        best = len(goals)
        for prices in self._climbed(demand):
            low = 0
            while low < best:
                count = (low + best + 1) // 2
                if self._priced(prices, demand.rising(count), jobs=self._several).excess > 0:
                    best = count - 1
                else:
                    low = count
        return best

    def never_rising(
        self,
        floors: Mapping[ShareHolder, int],
        requirements: Sequence[LevelRequirement],
        goals: Mapping[ShareHolder, int],
        count: int,
    ) -> set[ShareHolder]:
        """Return who is shown to be in no set of so many that reach their goals."""
        demand = self._demand(floors, (*requirements, LevelRequirement(goals, len(goals) - count)))
        found = set[ShareHolder]()
        for prices in self._climbed(demand):
            priced = self._priced(prices, demand, jobs=self._several)
            found |= {
                one
                for one in goals
                if one in self._index and priced.excess + priced.forced[self._index[one]] > 0
            }
        return found

    def cheapest(
        self, floors: Mapping[ShareHolder, int], requirement: LevelRequirement
    ) -> dict[ShareHolder, float]:
        """Return what it costs each to reach a requirement, at the prices found last."""
        return {
            one: float(self._units[self._index[one]]) * max(0, height - floors.get(one, 0))
            for one, height in requirement.heights.items()
            if one in self._index
        }

    def _demand(self, floors: Mapping[ShareHolder, int], requirements: Sequence[LevelRequirement]) -> _Demand:
        """Return the demand on those who are priced; requirements of others, met before, are left out."""
        own = [
            requirement
            for requirement in requirements
            if all(one in self._index for one in requirement.heights)
        ]
        heights = np.zeros((1 + len(own), len(self._index)), dtype=np.int64)
        counted = np.zeros(heights.shape, dtype=np.bool_)
        for one, floor in floors.items():
            if one in self._index:
                heights[:, self._index[one]] = min(floor, _HIGHEST)
        for k, requirement in enumerate(own, start=1):
            places = [self._index[one] for one in requirement.heights]
            wanted = [min(height, _HIGHEST) for height in requirement.heights.values()]
            heights[k:, places] = np.maximum(heights[k, places], wanted)
            counted[k, places] = True
        rise = np.array([0, *(max(0, requirement.rise) for requirement in own)], dtype=np.int64)
        return _Demand(heights, counted, rise)

    def _climbed(self, demand: _Demand, *, hopeful: bool = False) -> list[Floats]:
        """Return even prices of every scope, and the best of an ascent for what is demanded.

        `hopeful` leaves out those at which, in doubles, it clearly costs no more than there is.
        """
        scale = np.maximum(1.0, self._capacities.astype(np.float64))
        prices = 1.0 / scale if self._begin is None else self._begin.copy()
        found: list[tuple[float, Floats]] = []
        if not self._some.size:
            return []
        begins, sizes = self._starts[self._some], self._sizes[self._some]
        for even in self._even:
            least = np.minimum.reduceat(over_columns(self._per_share, even), begins)
            if _least_cost(self._spread(least) * demand.heights, demand)[0] > float(even @ self._capacities):
                return [even]
        for turn in range(_ROUNDS):
            costs = over_columns(self._per_share, prices)
            least = np.minimum.reduceat(costs, begins)
            at_least = np.flatnonzero(costs <= np.repeat(least, sizes))
            first = at_least[np.searchsorted(at_least, begins)]
            cost, met, _ = _least_cost(self._spread(least) * demand.heights, demand)
            need = over_rows(met[self._some].astype(np.float64), self._per_share[first])
            paid = float(prices @ self._capacities)
            found.append((cost / max(paid, _NOTHING), prices))
            if found[-1][0] > 1.0 and turn > _ROUNDS // 4:
                break
            direction = need / scale - 1.0
            prices = np.maximum(0.0, prices * np.exp(np.clip(direction, -1, 1) / (2 + turn / 4)))
            paid = float(prices @ self._capacities)
            if paid < _NOTHING:  # what is scarce has no capacity at all
                break
            prices /= paid
        found.sort(key=lambda one: -one[0])
        self._units[self._some] = np.minimum.reduceat(over_columns(self._per_share, found[0][1]), begins)
        if hopeful:
            return [prices for ratio, prices in found[:2] if ratio > _HOPEFUL]
        return [*self._even, *(prices for _, prices in found[:2])]

    def _spread(self, least: Floats) -> Floats:
        """Return prices of a unit of share with those of holders without options, which are 0."""
        found = np.zeros(len(self._index))
        found[self._some] = least
        return found

    def _priced(self, prices: Floats, demand: _Demand, *, jobs: bool = False) -> _Priced:
        """Return in whole numbers what a demand costs at least beyond what all capacities cost.

        `jobs` asks what the options of every job cost, not only the cheapest unit of share.
        """
        top = float(prices.max(initial=0.0)) or 1.0
        fine = _FINE if np.count_nonzero(prices) > 1 else 1
        whole = [round(price / top * fine) for price in prices.tolist()]
        paid = sum(price * room for price, room in zip(whole, self._capacities.tolist(), strict=True))
        costs_of = self._costs(whole, self._bought_at(whole, paid) if jobs else None, demand.heights.T)
        requirements = _least_cost(np.array(costs_of, dtype=np.float64).T / _PARTS, demand)[2]
        worth = [round(price * _PARTS) for price in requirements.tolist()]
        excess = sum(price * rise for price, rise in zip(worth, demand.rise.tolist(), strict=True))
        forced = []
        for costs, counted in zip(costs_of, demand.counted.T.tolist(), strict=True):
            spared = accumulate(price if counts else 0 for counts, price in zip(counted, worth, strict=True))
            net = [cost - less for cost, less in zip(costs, spared, strict=True)]
            excess += min(net)
            forced.append(net[-1] - min(net))
        if jobs and excess <= _PARTS * paid:
            excess = max(excess, _cheapest(costs_of, demand))
        return _Priced(excess - _PARTS * paid, forced)

    def _costs(self, whole: Sequence[int], bought: _Bought | None, heights: Integers) -> list[list[int]]:
        """Return what every holder pays at least for each of its heights, in parts of a whole price."""
        unit = self._least(whole)
        linear = [[low * height for height in own] for low, own in zip(unit, heights.tolist(), strict=True)]
        if bought is None:
            return linear
        part = _PARTS * bought.step
        return [
            [
                max(cost, part * step)
                for cost, step in zip(costs, np.searchsorted(most, own).tolist(), strict=True)
            ]
            for costs, most, own in zip(linear, bought.most, heights, strict=True)
        ]

    def _relaxed(self, demand: _Demand) -> Floats:
        """Return the prices of capacities in the relaxation where all reach as much of their heights."""
        key = demand.counted[-1].tobytes() + demand.rise.tobytes()
        if key not in self._relaxed_at:
            few = 0 < self._menus[-1].size <= _RELAXED
            self._relaxed_at[key] = self._found_relaxed(demand.heights[-1]) if few else self._even[0]
        return self._relaxed_at[key]

    def _found_relaxed(self, heights: Integers) -> Floats:
        """Return the dual values of capacities where the part of heights that all reach is made greatest."""
        from scipy.optimize import linprog
        from scipy.sparse import csr_array, hstack, vstack

        holder, job, share, uses, rows = self._menus
        scale, due = np.maximum(1.0, self._capacities.astype(np.float64)), np.maximum(1, heights)
        at, whose = np.arange(rows.size), np.unique(job, return_inverse=True)[1]
        once = csr_array((np.ones(rows.size), (whose, at)))
        needs = csr_array((-share / due[holder], (holder, at)), shape=(due.size, rows.size))
        reached = csr_array((heights > 0).astype(np.float64)[:, None])
        limits = np.concatenate((self._capacities / scale, np.ones(once.shape[0]), np.zeros(due.size)))
        left = vstack([csr_array(uses[rows].T / scale[:, None]), once, needs])
        level = vstack([csr_array((limits.size - due.size, 1)), reached])
        matrix: Any = hstack([left, level]).tocsr()
        found = linprog(np.append(np.zeros(rows.size), -1.0), A_ub=matrix, b_ub=limits)
        if found.status != 0:
            return self._even[0]
        return np.maximum(0.0, -found.ineqlin.marginals[: scale.size]) / scale

    def _bought_at(self, whole: Sequence[int], paid: int) -> _Bought | None:
        """Return the most share for what is paid at prices, ``None`` where tables are too large."""
        key = tuple(whole)
        if key not in self._bought:
            if len(self._bought) == _KEPT:
                self._bought.clear()
            self._bought[key] = self._found_bought(np.array(whole, dtype=np.int64), paid)
        return self._bought[key]

    def _found_bought(self, whole: Integers, paid: int) -> _Bought | None:
        """Solve the knapsack of every holder, job by job, at prices in whole numbers."""
        holder, job, share, uses, rows = self._menus
        priced = np.flatnonzero(whole)
        costs = np.maximum(
            0, uses[np.ix_(rows, priced)] @ whole[priced]
        )  # beyond 64 bits it is less than it is
        step = max(int(np.gcd.reduce(costs)), -(-paid // _STEPS), 1)
        top = paid // step
        beyond = max(float(step), float(share.astype(np.float64).sum())) > _HIGHEST
        if beyond or (top + 1) * (share.size + len(self._index)) > _CELLS:
            return None
        cost = costs // step
        order = np.lexsort((-share, cost, job, holder))
        order = order[cost[order] <= top]
        begins = np.flatnonzero(np.diff(job[order], prepend=-1))
        most = [np.zeros(top + 1, dtype=np.int64) for _ in self._index]
        for a, b in pairwise([*begins.tolist(), order.size]):
            own = order[a:b]
            better = np.flatnonzero(np.diff(np.maximum.accumulate(share[own]), prepend=0))
            before = most[holder[own[0]]]
            after = before.copy()
            for paid_for, gained in zip(cost[own[better]].tolist(), share[own[better]].tolist(), strict=True):
                np.maximum(after[paid_for:], before[: top + 1 - paid_for] + gained, out=after[paid_for:])
            most[holder[own[0]]] = after
        return _Bought(step, most)

    def _least(self, whole: Sequence[int]) -> list[int]:
        """Return the least price of a unit of share of every holder, rounded down to parts of one."""
        costs = self._uses @ np.array(whole, dtype=np.int64)
        near = costs / np.maximum(1, self._share)
        if not self._some.size:
            return [0] * len(self._index)
        low = np.minimum.reduceat(near, self._starts[self._some])
        close = np.flatnonzero(near <= np.repeat(low * (1 + 1e-9), self._sizes[self._some]))
        found = dict[int, int]()
        for place, cost, share in {
            *zip(self._owner[close].tolist(), costs[close].tolist(), self._share[close].tolist(), strict=True)
        }:
            part = _PARTS * cost // share
            found[place] = min(found.get(place, part), part)
        return [found.get(place, 0) for place in range(len(self._index))]


def _cheapest(costs_of: Sequence[Sequence[int]], demand: _Demand) -> int:
    """Return what a demand costs at least whoever meets the requirements, 0 where too many could."""
    rise = tuple(demand.rise.tolist())
    if len(costs_of) * math.prod(count + 1 for count in rise) > _MOST_SETS:
        return 0
    least = {(0,) * len(rise): 0}  # by how many are on each requirement so far
    for costs, counted in zip(costs_of, demand.counted.T.tolist(), strict=True):
        found = dict[tuple[int, ...], int]()
        for (on, paid), (at, cost) in product(least.items(), enumerate(costs)):
            more = tuple(
                min(most, count + (counts and k <= at))
                for k, (most, count, counts) in enumerate(zip(rise, on, counted, strict=True))
            )
            found[more] = min(found.get(more, paid + cost), paid + cost)
        least = found
    return least.get(rise, 0)


def _distinct(rows: Integers) -> Integers:
    """Return the distinct rows, sorted by their first column."""
    if not rows.size:
        return rows
    whole = np.ascontiguousarray(rows).view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1])))
    found = rows[np.unique(whole.ravel(), return_index=True)[1]]
    return found[np.argsort(found[:, 0], kind="stable")]


def _least_cost(cost: Floats, demand: _Demand) -> tuple[float, Integers, Floats]:
    """Return a bound on what a demand costs, who then has what, and the prices of the requirements.

    `cost`, float64 [1 + requirements, holders], is what each pays at least for each height.

    One requirement after the other gets its best price beside those of the others: there so many would
    be on it.
    """
    heights, counted, rise = demand
    worth = np.zeros(rise.size)
    for _ in range(_SWEEPS if rise.size > 2 else rise.size - 1):
        before = worth.copy()
        for k in range(1, rise.size):
            worth[k] = 0.0
            net = cost - np.cumsum(counted * worth[:, None], axis=0)
            extra = (net[k:].min(axis=0) - net[:k].min(axis=0))[counted[k]]
            if 0 < rise[k] <= extra.size:
                worth[k] = max(0.0, float(np.partition(extra, rise[k] - 1)[rise[k] - 1]))
        if (worth == before).all():
            break
    net = cost - np.cumsum(counted * worth[:, None], axis=0)
    at = net.argmin(axis=0)
    met: Integers = heights[at, np.arange(at.size)]
    return float(net.min(axis=0).sum() + worth @ rise), met, worth
