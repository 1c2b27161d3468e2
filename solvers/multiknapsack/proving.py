"""The exact search over the menus left: in slices, with every choice it finds offered as an incumbent."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from apportion.outcome import SearchTree
from apportion.solvers.clock import Clock
from apportion.solvers.compiled import load
from apportion.solvers.search.menu_search import MenuSearch, Settings
from apportion.solvers.search.rows import WholeMenus
from apportion.solvers.search.status import Status
from apportion.solvers.search.whole import Unit, unit_of

from .dual import solve_dual
from .incumbent import BestChoice
from .option_table import OptionTable

__all__ = ["Proving", "provable"]

_SLICE = {True: 10_000, False: 2_000}
"""Nodes between two looks at the clock, by whether the search is compiled: some 0.15 ms, and some 10 ms."""
_SLICE_OF_THREADS = 20_000
"""The same for every thread of several: they meet after a slice, which costs some microseconds."""
_MOST_OPTIONS = 50_000
"""Menus of more options are not searched exactly: starting a tree would take tenths of a second."""
_EXACT_USES = 2.0**53
"""Uses are kept in float64 by the menus, and are whole numbers only below this."""
_FITTING_ROUNDS = 60
_SECONDS_PER_NODE = {True: 1.5e-8, False: 4e-6}
"""By whether the search is compiled; what deterministic mode charges."""


def provable(menus: OptionTable) -> bool:
    """Whether the exact search takes menus of this size and of such uses."""
    return (
        menus.num_options <= _MOST_OPTIONS
        and float(menus.capacities.max(initial=0.0)) < _EXACT_USES
        and float(menus.uses.max(initial=0.0)) * menus.num_jobs < _EXACT_USES
    )


class Proving:
    """One exact search, taken up again and again.

    Parameters
    ----------
    menus
        At least one job; see `provable`.
    weights
        float64 [capacities]: near-optimal multipliers, in units of value.
    best
        The incumbent, raised by what is found and raising what is looked for.
    clock
        Charged for every node.
    seed
        For the multiplier vectors that are drawn.
    settings
        Which ingredients the search has; all by default.
    threads
        Among how many the tree is divided where the search is compiled.
    """

    def __init__(
        self,
        menus: OptionTable,
        weights: NDArray[np.float64],
        best: BestChoice,
        clock: Clock,
        seed: int,
        settings: Settings | None = None,
        threads: int = 1,
    ) -> None:
        self._menus, self._weights, self._best, self._clock = menus, weights, best, clock
        self._unit: Unit = unit_of(menus.values, menus.num_jobs, best.step)
        whole = WholeMenus(
            self._unit.worths(menus.values),
            menus.uses.astype(np.int64),
            menus.offsets,
            menus.capacities.astype(np.int64),
        )
        self._worth, self._most = whole.worth, whole.largest_worth()
        self._known = best.value
        compiled = load("search.depth_first_c") is not None
        self._price = _SECONDS_PER_NODE[compiled]
        threads = threads if compiled else 1
        self._slice = _SLICE[compiled] if threads == 1 else threads * _SLICE_OF_THREADS
        self.seconds = 0.0
        floor = None if best.point is None else self._floor(best.point)
        scaled = weights / float(self._unit.size)
        self._search = MenuSearch(whole, scaled, floor, self._fit, seed, settings, threads)

    @property
    def nodes(self) -> int:
        """How many nodes were searched so far."""
        return self._search.nodes

    def tree(self, num_capacities: int) -> SearchTree:
        """Return what a proof needs to know of the tree that ended the search, in terms of the model."""
        record = self._search.record()
        prices = np.zeros((record.multipliers.shape[0], num_capacities), dtype=np.int64)
        prices[:, self._menus.binding] = record.multipliers
        return SearchTree(prices, self._unit.size / record.power, record.order, record.nodes)

    def run(self, seconds: float) -> bool:
        """Search on for so many seconds of the clock; true if nothing better than the incumbent exists."""
        best, clock, search = self._best, self._clock, self._search
        if best.value != self._known and best.point is not None:
            self._known = best.value
            search.raise_floor(self._floor(best.point))
        began = clock.elapsed
        try:
            while True:
                before = search.nodes
                status = search.run(
                    self._slice if clock.work_left is None else min(self._slice, clock.work_left)
                )
                clock.charge(search.nodes - before, (search.nodes - before) * self._price)
                if status is Status.EXHAUSTED:
                    return True
                if status is Status.FOUND:
                    self._take(search.leaf())
                if clock.stopped() is not None or best.close or clock.elapsed - began >= seconds:
                    return False
        finally:
            self.seconds += clock.elapsed - began

    def _take(self, choice: NDArray[np.int64]) -> None:
        """Offer a choice; a capacity whose row was rounded may refuse it, and then it raises nothing."""
        rows = self._menus.rows[choice]
        if self._best.take(rows) or self._best.fits(rows):
            self._known = self._best.value
            exact = self._unit.exact
            self._search.raise_floor(int(self._worth[choice].sum()) if exact else self._floor(rows))

    def _floor(self, rows: NDArray[np.int64]) -> int:
        """Return what a choice is worth, as far as any choice of these menus is."""
        worth = self._unit.floor(self._best.values_of(rows))
        return min(max(worth, -self._most - 1), self._most)

    def _fit(self, decided: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return multipliers of the linear relaxation of what is open once some options are chosen."""
        menus = self._menus
        still = np.ones(menus.num_jobs, dtype=np.bool_)
        still[menus.job[decided]] = False
        if not still.any():
            return self._weights / float(self._unit.size)
        left = menus.part(np.flatnonzero(still), menus.capacities - menus.used(decided))
        dual = solve_dual(left, gap=1e-4, rounds=_FITTING_ROUNDS, start=self._weights, late=self._clock.late)
        return dual.multipliers / float(self._unit.size)
