"""The search of menus with many capacities of which an option uses few: racks, periods, limits of tenants.

A local search, and cores that grow under rows that follow from the capacities.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from apportion.core.options import SolveOptions
from apportion.solvers.clock import Clock
from apportion.solvers.general.highs_call import HIGHS_ERROR
from apportion.solvers.multiknapsack.anytime import StopReason
from apportion.solvers.multiknapsack.dual import Dual, alike_prices, at_prices, solve_large
from apportion.solvers.multiknapsack.expanding_core import FEW_ENTRIES, ExpandingCore
from apportion.solvers.multiknapsack.gang_branches import GangBranches, gangs_of
from apportion.solvers.multiknapsack.local_search import LocalSearch, is_far
from apportion.solvers.multiknapsack.option_table import ChoiceIncumbent, OptionTable, reachable
from apportion.solvers.multiknapsack.place_patterns import PlacePatterns
from apportion.solvers.multiknapsack.proven_bound import ProvenBound, with_implied_rows
from apportion.solvers.multiknapsack.proving import Proving, provable
from apportion.solvers.multiknapsack.repair import near_choices
from apportion.solvers.multiknapsack.ruin_recreate import RuinRecreate

__all__ = ["SparseSearch", "roughly_priced"]

_LEAST_PROOF, _PROOF_SHARE = 0.3, 0.5
"""Seconds, or the share of what cores took, to prove by the exact search what HiGHS claims."""
_FIRST_EJECTION, _PER_ENTRY, _CORES_AFTER = 0.03, 8e-6, 0.2
"""Seconds, seconds per use, and share of the time left, that the local search has at most before cores,"""
_NEAR_SHARE = 0.5
"""The share of the time left that it has before rows that follow, where these take long."""
_NEEDED_PER_USE = 1e-7
"""Seconds that implied rows with their prices, or cores, take at least for every use of all options."""
_FIRST_TREE = 0.1
"""Seconds that the exact search has before HiGHS is asked about all options within reach at once,"""
_EJECTION, _EJECTION_SHARE = 2.0, 0.8
"""and after them: seconds without a limit, else the share of the time left."""
_PLACES_SHARE, _MUCH, _LAST_CORE = 0.75, 2e-3, 0.3
"""Share of the time left in which places are filled anew; what part of the value is open where that comes
before cores as well, and the share that the last core has then."""
_FEW_SETS, _PATTERNS_SHARE, _PATTERNS = 1e-3, 0.8, 10.0
"""What part of the value is open where places are filled by sets of options, the share of the time left that
this has, and seconds without a limit."""
_SLOW, _FAR_SHARE = 0.25, 0.25
"""What part of the gap the local search leaves where it is tried whether it may exceed capacities, and the
share of the time left that it has before cores if it may."""
_WIDE = 0.05
"""What part of the value is open where the last core has as little, beside a local search that may exceed
capacities."""
_BRANCHES_SHARE = 0.9
"""Share of the time left for branches on the options of gangs."""
_CELLS = 4_000_000
"""Cells within reach up to which they are searched as the menus of few capacities are."""
_ROWS_OF_TREES = 48
"""Capacities and rows that follow from them up to which the exact search goes under both."""
_PAYS = 0.2
"""Share of the gap that implied rows must close: more rows take longer in all that follows."""


def roughly_priced(menus: OptionTable, dual: Dual, best: ChoiceIncumbent) -> tuple[OptionTable, Dual] | None:
    """Return menus under rows that follow, and prices at which alike ones cost alike, if these pay.

    Parameters
    ----------
    menus, dual
        All options, and prices of them.
    best
        The incumbent that what is open is measured from.
    """
    rows = with_implied_rows(menus)
    priced = at_prices(rows, alike_prices(rows, _priced_at(rows, dual.multipliers)))
    return (rows, priced) if _pays(priced, dual, best) else None


def _priced_at(rows: OptionTable, prices: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return prices of menus under more rows than those that have some."""
    return np.append(prices, np.zeros(rows.num_capacities - prices.size))


def _pays(priced: Dual, dual: Dual, best: ChoiceIncumbent) -> bool:
    """Return whether prices of more rows close enough of what others leave open."""
    return priced.bound <= dual.bound - _PAYS * best.distance_to(dual.bound)


class SparseSearch:
    """One search.

    Parameters
    ----------
    menus, dual
        All options, and their prices.
    best, shown
        The incumbent, raised by what is found, and the bound that is stated.
    options, clock, counters
        Of the solve call.
    mark
        Called with the name of a phase that ends.
    places, patterns
        What fills places anew, ``None`` where capacities do not fall into places; and sets of options for
        them, ``None`` where most jobs differ as well.
    rough
        The menus under rows that follow, and prices that close enough of the gap, if they are known.
    """

    def __init__(
        self,
        menus: OptionTable,
        dual: Dual,
        best: ChoiceIncumbent,
        shown: ProvenBound,
        options: SolveOptions,
        clock: Clock,
        counters: dict[str, float],
        mark: Callable[[str], None],
        places: RuinRecreate | None,
        patterns: PlacePatterns | None,
        rough: tuple[OptionTable, Dual] | None,
    ) -> None:
        self._menus, self._dual = menus, dual
        self._best, self._shown, self._options = best, shown, options
        self._clock, self._counters, self._mark, self._places = clock, counters, mark, places
        self._patterns = patterns
        self._rows, self._priced = (menus, dual) if rough is None else rough
        """The menus under implied rows, and their prices, where these close enough of the gap."""
        self._local: LocalSearch | None = None
        """Of plans before there are such rows."""
        self._tried = False
        """Whether the exact search has had its first turn."""

    def run(self) -> StopReason | OptionTable:
        """Return how it ended, or what is within reach and to be searched as of few capacities."""
        menus, best, clock = self._menus, self._best, self._clock
        implied = self._rows is not menus
        self._shown.over_fitting(self._rows, self._priced, implied=implied)
        if clock.late() and (stopped := self._shown.ended(clock)) is not None:
            return stopped
        self._by_patterns()
        if (stopped := self._shown.ended(clock)) is not None:
            return stopped
        local = self._local or self._local_search()
        ended, few, before = None, False, best.distance_to(self._priced.bound)
        if not best.proven and not best.close:
            most = clock.seconds_of(_CORES_AFTER)
            local.run(min(_FIRST_EJECTION, _PER_ENTRY * menus.num_entries, most))
            self._mark("local search")
            turn = min(_FIRST_TREE, most)
            reach = self._reach()
            few = not best.proven and not best.close and menus.entries_of(reach) <= FEW_ENTRIES
            if few and best.value is not None:
                self._tried, ended = True, self._by_tree(reach, turn)
        if ended is None and not few:  # a core holds all options within reach at once
            ended = self._by_gangs()
        slow = best.distance_to(self._priced.bound) > _SLOW * before and is_far(best, self._priced.bound)
        if ended is None and slow:
            if local.try_overuse():
                local.from_far(self._priced.bound, clock.seconds_of(_FAR_SHARE))
            self._mark("local search")
        if ended is None and self._much_open() and not self._filled_anew(patient=False):
            self._places = None
        ended = ended or self._cores(local)
        if ended is not None:
            return self._stated(ended)
        if clock.late() and (stopped := self._shown.ended(clock)) is not None:
            return stopped
        near = menus.keep(self._reach())
        self._filled_anew(patient=True)
        if slow and is_far(best, self._priced.bound):
            local.try_overuse()
        left, large = clock.remaining, near.num_options * near.num_capacities > _CELLS
        local.run(_EJECTION if left is None else left * (1.0 if large else _EJECTION_SHARE))
        self._mark("local search")
        if (np.diff(near.offsets) == 0).any():  # none of a job's options can be in a better choice
            return self._stated(StopReason("proven"))
        if large:
            return self._shown.ended(clock) or StopReason("exhausted")
        return near.dense()

    @property
    def has_time(self) -> bool:
        """Whether there is time for what looks at every use again and again."""
        needed = _NEEDED_PER_USE * self._menus.num_entries
        return not self._clock.late() and not self._clock.is_short_of(needed)

    def come_near(self) -> None:
        """Search near the prices at hand where the incumbent is far."""
        if is_far(self._best, self._dual.bound):
            self._local = self._local_search()
            self._local.run(self._clock.seconds_of(_NEAR_SHARE))
            self._mark("local search")

    def _local_search(self) -> LocalSearch:
        loss, prices = self._rows.loss(self._priced.multipliers), self._dual.multipliers
        return LocalSearch(self._menus, loss, prices, self._best, self._clock, self._options.seed)

    def _by_gangs(self) -> StopReason | None:
        """Divide what is open by the options of a few gangs, if there are any."""
        best = self._best
        if best.proven or best.close or not self.has_time or not (gangs := gangs_of(self._menus)).size:
            return None
        limits = best, self._shown, self._options, self._clock, self._counters
        branches = GangBranches(self._rows, self._priced.multipliers, self._priced.bound, gangs, *limits)
        is_done = branches.run(self._clock.seconds_of(_BRANCHES_SHARE))
        self._mark("branches")
        if (is_done or best.proven) and branches.is_priced and self._rows is self._menus:
            self._shown.keep_tree(branches, self._rows)
        if not is_done or best.point is None:
            return None
        is_claim = branches.by_solver and not best.seen_by_highs
        return StopReason("claimed" if is_claim else "proven", by_solver=branches.by_solver)

    def _by_patterns(self) -> None:
        """Price jobs and fill places by sets of options, where jobs are alike and much is open."""
        if self._patterns is None or not self._much_open(_FEW_SETS):
            return
        self._patterns.run(self._dual.multipliers, self._clock.seconds_of(_PATTERNS_SHARE, _PATTERNS))
        self._shown.beyond(self._patterns.bound, "branch_and_bound")
        self._mark("patterns")

    def _much_open(self, part: float = _MUCH) -> bool:
        """Whether so much of the value is open that cores seldom close it."""
        value = self._best.value
        return value is not None and self._best.distance_to(self._priced.bound) > part * abs(value)

    def _filled_anew(self, *, patient: bool) -> bool:
        """Fill places anew in a share of the time left, or as long as it helps; return whether it did."""
        places, prices, before = self._places, self._dual.multipliers, self._best.value
        if places is None:
            return False
        seconds = self._clock.seconds_of(_PLACES_SHARE, _EJECTION)
        places.sweep(prices, seconds)
        places.run(prices, seconds, patient=patient)
        self._mark("places")
        return self._best.value != before

    def _stated(self, ended: StopReason) -> StopReason:
        return self._shown.by_ending(ended, self._rows, self._priced.multipliers)

    def _reach(self) -> NDArray[np.bool_]:
        """Return bool [options]: those that a better choice can contain."""
        floor = self._best.floor
        if floor is None:
            return np.ones(self._menus.num_options, dtype=np.bool_)
        return reachable(self._rows, self._priced.multipliers, self._priced.bound, floor)

    def tightened(self, rows: OptionTable) -> bool:
        """Return whether menus under rows that follow close enough of the gap: then these are searched."""
        menus, dual, best = self._menus, self._dual, self._best
        if best.value is None or rows is menus:
            return False
        left, late = self._clock.uncounted, self._clock.late
        near, anchor = _priced_at(rows, self._priced.multipliers), best.among(menus)
        priced, _ = solve_large(rows, gap=1e-8, start=near, late=late, seconds=left, anchor=anchor)
        self._mark("dual")
        if not _pays(priced, dual, best):
            return False
        near_choices(menus, menus, dual.multipliers, priced.choices, best, late)
        self._mark("repair")
        self._rows, self._priced = rows, priced
        return True

    def _cores(self, local: LocalSearch) -> StopReason | None:
        """Solve growing cores; what HiGHS says of the last one our own trees are to prove."""
        if not self.has_time:
            return None
        best, clock, began, before = self._best, self._clock, self._clock.elapsed, self._best.value
        limits = best, self._options, clock, self._counters
        wide = _MUCH if self._places is not None else _WIDE if local.overuses else math.inf
        prices, last = self._priced, _LAST_CORE if self._much_open(wide) else 1.0
        cores = ExpandingCore(self._rows, prices.multipliers, prices.bound, local, *limits, last)
        ended = cores.run()
        self._shown.beyond(cores.bound, "solver")
        self._mark("cores")
        if ended is None or not ended.by_solver or best.seen_by_highs or self._options.gap > HIGHS_ERROR:
            return ended
        if best.proven:
            return StopReason("proven")
        took = clock.elapsed - began
        if self._tried and best.value == before and took <= _FIRST_TREE:  # it would take as long once more
            return StopReason("claimed", by_solver=True)
        turn = min(max(_LEAST_PROOF, _PROOF_SHARE * took), clock.seconds_of(1.0))
        claimed = ended if ended.infeasible else StopReason("claimed", by_solver=True)
        return self._by_tree(self._reach(), turn) or claimed

    def _by_tree(self, reach: NDArray[np.bool_], seconds: float) -> StopReason | None:
        """Let the exact search prove what is within reach, where it takes so many options."""
        menus, prices = self._rows.keep(reach), self._priced.multipliers
        if (np.diff(menus.offsets) == 0).any():  # none of a job's options can be in a better choice
            return StopReason("proven")
        if not provable(menus) or (self._rows is not self._menus and menus.num_capacities > _ROWS_OF_TREES):
            return None
        seed, threads = self._options.seed, self._options.threads
        proving = Proving(menus, prices, self._best, self._clock, seed, threads=threads)
        proven = proving.run(seconds)
        self._counters["nodes"] = float(proving.nodes)
        self._mark("proof")
        # a tree names prices of capacities: not one of what rows that follow leave within reach
        tree = proving if self._rows is self._menus else None
        return StopReason("proven", self._best.point is None, tree) if proven else None
