"""Branch on the options of gangs: jobs that need most of several capacities, as the whole nodes of a block.

A relaxation gives such a job a little of every place, so that nearly nobody has to leave anywhere: its bound
says next to nothing (a cost of 36 where the least is 138), and a search that moves single jobs leaves the
gang where it is. With the gang in one place the relaxation is nearly exact. So each of its options gets a
branch: a relaxation that begins at the prices above, the choice that it is repaired to, and a short local
search; where there are several gangs, such branches are divided by the options of the next. A branch whose
prices show nothing better than the incumbent is closed. One without a gang left goes under covers
(`cover_rows`), and what these leave is solved over growing cores. The greatest bound of an open branch is one
of all choices: each of them is in exactly one branch.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import count
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from apportion.core.options import SolveOptions
from apportion.core.outcome import Cover, SearchTree
from apportion.solvers.clock import Clock
from apportion.solvers.multiknapsack.cover_rows import CoverRelaxation
from apportion.solvers.multiknapsack.dual import overdrawn_by_all
from apportion.solvers.multiknapsack.expanding_core import ExpandingCore
from apportion.solvers.multiknapsack.linear_dual import relaxed
from apportion.solvers.multiknapsack.local_search import LocalSearch
from apportion.solvers.multiknapsack.option_table import ChoiceIncumbent, OptionTable, bound_at, noise
from apportion.solvers.multiknapsack.proven_bound import ProvenBound
from apportion.solvers.multiknapsack.repair import cheapest, near_choices

__all__ = ["GangBranches", "gangs_of"]


_MOST_OF_ONE, _CAPACITIES = 0.5, 2
"""A gang takes more than this share of a capacity, of so many capacities at least,"""
_FEW = 4
"""and there are at most so many: where every job may take whole nodes a branch says little."""
_LOOK, _PAYS = 4, 0.1
"""Branches to look at, and the share of the gap by which half of all must lower the bound."""
_LAST_CORE = (0.2, 0.4, 0.8)
"""Shares of the time left that the last core of a branch has: HiGHS begins anew each time."""
_SEARCHED = 0.5
"""Seconds of the local search in a branch, for each that its relaxation and first choice took."""
_PRICE_BITS = 40
"""Bits of the largest price in a proof."""
_SECONDS_PER_BRANCH = 1e-2
"""What deterministic mode charges for a branch."""


def gangs_of(menus: OptionTable) -> NDArray[np.int64]:
    """Return the jobs that are gangs, those that take most first; none where there are many."""
    _, much = menus.above(_MOST_OF_ONE * menus.capacities)
    filled = np.bincount(much, minlength=menus.num_options)
    most = menus.largest(filled.astype(np.float64))
    gangs = np.flatnonzero(most >= _CAPACITIES)
    return gangs[np.argsort(-most[gangs], kind="stable")] if gangs.size <= _FEW else gangs[:0]


@dataclass(frozen=True, slots=True, eq=False)
class _Branch:
    """Options that gangs have, in the order of the gangs, and the prices of the relaxation under them.

    `is_priced` says whether these are its own; before that they are those of the branch above. `tries` counts
    how often it was solved without an end.
    """

    fixed: tuple[int, ...]
    prices: NDArray[np.float64]
    is_priced: bool = False
    tries: int = 0


class _Shown(NamedTuple):
    """What prices of a branch show: of its capacities, and of covers, the first of them at a position."""

    bound: float
    prices: NDArray[np.float64]
    first: int = 0


class GangBranches:
    """One search; the branch of greatest bound is divided or solved first.

    Parameters
    ----------
    menus, prices, bound
        All options, near-optimal prices, and L there.
    gangs
        int64 [gangs]: see `gangs_of`.
    best
        The incumbent, a choice among the menus; it is raised by what is found.
    shown
        The bound that is stated, lowered as branches are closed.
    options, clock, counters
        Of the solve call.

    Attributes
    ----------
    by_solver
        Whether what HiGHS says of a branch closed it, or bounds it.
    """

    def __init__(
        self,
        menus: OptionTable,
        prices: NDArray[np.float64],
        bound: float,
        gangs: NDArray[np.int64],
        best: ChoiceIncumbent,
        shown: ProvenBound,
        options: SolveOptions,
        clock: Clock,
        counters: dict[str, float],
    ) -> None:
        self._menus, self._gangs = menus, gangs
        self._best, self._shown, self._options = best, shown, options
        self._clock, self._counters = clock, counters
        self._order, self.by_solver = count(), False
        self._steps, self._covers = list[_Shown](), list[Cover]()
        """Of all branches that have prices of their own, and the covers of one after the other."""
        self._looked = self._helped = 0
        """How many branches have prices of their own, and of how many these say much more."""
        self._open: list[tuple[int, float, int, _Branch]] = []
        self._push(bound, _Branch((), prices, is_priced=True))

    @property
    def bound(self) -> float:
        """What nothing better than the incumbent exceeds, maximising; minus infinity if nothing is open."""
        return max((-lost for _, lost, _, _ in self._open), default=-np.inf)

    def run(self, seconds: float) -> bool:
        """Go through branches for so many seconds of the clock; true if none is open in the end."""
        until = self._clock.elapsed + seconds

        def late() -> bool:
            ended = self._clock.stopped() is not None or self._best.close or self._best.proven
            return ended or self._clock.elapsed >= until

        while self._open and self._open[0][0] < len(_LAST_CORE) and not self._is_hopeless and not late():
            _, lost, _, branch = self._open[0]
            found = self._divided(branch, -lost) if branch.is_priced else self._priced(branch, -lost, late)
            heapq.heappop(self._open)  # an interruption leaves it where it is
            for bound, part in found:
                self._push(bound, part)
            self._shown.beyond(self.bound, "solver" if self.by_solver else "branch_and_bound")
        return not self._open

    @property
    def is_priced(self) -> bool:
        """Whether any branch has prices of its own."""
        return bool(self._steps)

    def tree(self, num_capacities: int) -> SearchTree:
        """Return what a proof needs to know: the prices of branches, the gangs as the first jobs.

        Whatever a gang has, the prices of its branch show of all the rest what they showed here. The other
        jobs come as the prices of the branch that is open longest want it: those they decide most clearly.
        """
        menus, steps = self._menus, sorted(self._steps, key=lambda step: -step.bound)
        caps = menus.num_capacities
        unit = Fraction(2) ** (_PRICE_BITS - math.frexp(max(float(step.prices.max()) for step in steps))[1])
        prices = np.zeros((len(steps), num_capacities + len(self._covers)), dtype=np.int64)
        for own, step in zip(prices, steps, strict=True):
            whole = np.rint(step.prices * float(unit)).astype(np.int64)
            own[menus.binding] = whole[:caps]
            own[num_capacities + step.first :][: whole.size - caps] = whole[caps:]
        priced = np.flatnonzero(prices[:, num_capacities:].any(axis=0))
        prices = prices[:, np.append(np.arange(num_capacities), num_capacities + priced)]
        loss = menus.loss(steps[0].prices[:caps])
        loss[menus.best_choice(-loss)] = np.inf
        order = np.argsort(-menus.smallest(loss), kind="stable")
        others = order[~np.isin(order, self._gangs)]
        order = np.concatenate((self._gangs, others))
        binding = menus.binding.tolist()
        covers = [self._covers[k] for k in priced.tolist()]
        rows = tuple(replace(cover, capacity=binding[cover.capacity]) for cover in covers)
        return SearchTree(prices, 1 / unit, order, self._looked, rows)

    @property
    def _is_hopeless(self) -> bool:
        """Whether gangs are not what keeps the bound from the incumbent."""
        return self._looked >= _LOOK and 2 * self._helped < self._looked

    def _push(self, bound: float, branch: _Branch) -> None:
        heapq.heappush(self._open, (branch.tries, -bound, next(self._order), branch))

    def _divided(self, branch: _Branch, bound: float) -> list[tuple[float, _Branch]]:
        """Return the branches of the next gang's options, likely ones first; solve it if there is none."""
        floor = self._best.floor
        if floor is not None and bound < floor:
            return []
        if len(branch.fixed) == self._gangs.size:
            return self._solved(branch, bound)
        own = self._options_of(len(branch.fixed))
        if branch.fixed and self._are_alike(len(branch.fixed)):  # two of them could exchange what they have
            own = own[branch.fixed[-1] - self._options_of(len(branch.fixed) - 1)[0] :]
        own = own[np.argsort(self._expected(own, branch.prices), kind="stable")]
        return [(bound, _Branch((*branch.fixed, option), branch.prices)) for option in own.tolist()]

    def _expected(self, own: NDArray[np.int64], prices: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what options lose at these prices, and all that is in their way by going elsewhere."""
        menus, loss = self._menus, self._menus.loss(prices)
        now, lost = self._best.among(menus), loss[own]
        if now is not None:
            other = loss.copy()
            other[now] = np.inf
            leaving = np.where(np.diff(menus.offsets) > 1, menus.smallest(other), loss.max())
            leaving[self._gangs] = 0.0
            capacity, job, _ = menus.entries_by_option(now)
            there = np.bincount(capacity, weights=leaving[job], minlength=menus.num_capacities)
            capacity, place, _ = menus.entries_by_option(own)
            lost = lost + np.bincount(place, weights=there[capacity], minlength=own.size)
        return lost

    def _options_of(self, at: int) -> NDArray[np.int64]:
        first, end = self._menus.offsets[self._gangs[at] : self._gangs[at] + 2].tolist()
        return np.arange(first, end)

    def _are_alike(self, at: int) -> bool:
        """Return whether a gang has the same menu as the one before."""
        menus, own, other = self._menus, self._options_of(at), self._options_of(at - 1)
        if not np.array_equal(menus.values[own], menus.values[other]):
            return False
        mine, theirs = menus.entries_by_option(own), menus.entries_by_option(other)
        return all(map(np.array_equal, mine, theirs))

    def _within(self, branch: _Branch) -> OptionTable:
        """Return the menus with nothing else for gangs than what they have."""
        kept = np.ones(self._menus.num_options, dtype=np.bool_)
        for at, option in enumerate(branch.fixed):
            kept[self._options_of(at)] = False
            kept[option] = True
        return self._menus.keep(kept)

    def _anchor(self, menus: OptionTable) -> NDArray[np.int64] | None:
        """Return the incumbent, who is in a gang's way with least; ``None`` if that overfills something."""
        before = self._best.point
        if before is None:
            return None
        found, least = menus.locate(before), cheapest(menus)
        gangs = self._gangs[np.diff(menus.offsets)[self._gangs] == 1]
        found = np.where(found < 0, least, found)
        over = menus.used(found) > menus.capacities
        if over.any():
            capacity, place, _ = menus.entries_by_option(found)
            found[place[over[capacity]]] = least[place[over[capacity]]]
            found[gangs] = menus.offsets[gangs]
        return found if (menus.used(found) <= menus.capacities).all() else None

    def _priced(self, branch: _Branch, bound: float, late: Callable[[], bool]) -> list[tuple[float, _Branch]]:
        """Return a branch with a bound of its own, nothing where that closes it; raise the incumbent."""
        began, best, clock = self._clock.elapsed, self._best, self._clock
        menus = self._within(branch)
        anchor = self._anchor(menus)
        floor = -np.inf if best.floor is None else best.floor
        priced = relaxed(menus, clock.uncounted, anchor, branch.prices, is_close=True, enough=floor)
        clock.charge(1, _SECONDS_PER_BRANCH)
        unknown = [(bound, replace(branch, is_priced=True))]
        if priced is None:
            return unknown
        prices, choice = priced
        if choice is None:
            return [] if overdrawn_by_all(menus, prices) else unknown
        above, bound = bound, min(bound, bound_at(menus, prices) + noise(menus, prices))
        self._looked += 1
        self._helped += bound <= max(floor, above - _PAYS * (above - floor))
        self._steps.append(_Shown(bound, prices))
        if bound < floor:
            return []
        own = best.of_a_part()
        if anchor is not None:
            own.take(menus.rows[anchor])
        near_choices(menus, menus, prices, (choice,), own, late)
        search = LocalSearch(menus, menus.loss(prices), prices, own, clock, self._options.seed)
        search.run(_SEARCHED * (clock.elapsed - began))
        if own.point is not None:
            best.take(own.point)
        return [(bound, _Branch(branch.fixed, prices, is_priced=True))]

    def _solved(self, branch: _Branch, bound: float) -> list[tuple[float, _Branch]]:
        """Solve a branch without a gang; return it where that decides nothing, to come after all others."""
        menus, prices, best, clock = self._within(branch), branch.prices, self._best, self._clock
        covers = CoverRelaxation(menus, prices, bound, best)
        is_done = covers.run(clock)
        self._steps += [_Shown(shown, own, len(self._covers)) for shown, own in covers.steps]
        self._covers += covers.covers
        if is_done:
            return []
        local = LocalSearch(menus, menus.loss(prices), prices, best, clock, self._options.seed)
        limits = local, best, self._options, clock, self._counters
        share = _LAST_CORE[branch.tries]
        cores = ExpandingCore(covers.menus, covers.prices, covers.bound, *limits, share, soon=True)
        ended = cores.run()
        if ended is not None and ended.reason == "proven":
            self.by_solver |= ended.by_solver
            return []
        self.by_solver |= cores.bound < covers.bound
        return [(min(covers.bound, cores.bound), replace(branch, tries=branch.tries + 1))]
