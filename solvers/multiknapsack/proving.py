"""The exact search over the menus left: in slices, with every choice it finds offered as an incumbent."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from apportion.outcome import SearchTree
from apportion.solvers.compiled import load
from apportion.solvers.search.menu_search import MenuSearch, Settings, Status
from apportion.solvers.search.rows import WholeMenus
from apportion.solvers.search.whole import Unit, unit_of

from .budget import Budget
from .dual import solve_dual
from .incumbent import Best
from .menus import Menus

__all__ = ["Proving", "provable"]

_SLICE = 2_000
"""Nodes between two looks at the clock: some 50 microseconds compiled, some 10 ms uncompiled."""
_MOST_OPTIONS = 50_000
"""Menus of more options are not searched exactly: starting a tree would take tenths of a second."""
_EXACT_USES = 2.0**53
"""Uses are kept in float64 by the menus, and are whole numbers only below this."""
_FITTING_ROUNDS = 60
_SECONDS_PER_NODE = {True: 1.5e-8, False: 4e-6}
"""By whether the search is compiled; what deterministic mode charges."""


def provable(menus: Menus) -> bool:
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
    budget
        Charged for every node.
    seed
        For the multiplier vectors that are drawn.
    settings
        Which ingredients the search has; all by default.
    """

    def __init__(
        self,
        menus: Menus,
        weights: NDArray[np.float64],
        best: Best,
        budget: Budget,
        seed: int,
        settings: Settings | None = None,
    ) -> None:
        self._menus, self._weights, self._best, self._budget = menus, weights, best, budget
        self._unit: Unit = unit_of(menus.values, menus.num_jobs, best.step)
        whole = WholeMenus(
            self._unit.worths(menus.values),
            menus.uses.astype(np.int64),
            menus.offsets,
            menus.capacities.astype(np.int64),
        )
        self._known = best.value
        self._price = _SECONDS_PER_NODE[load("search.depth_first_c") is not None]
        self.seconds = 0.0
        floor = None if best.rows is None else self._floor(best.rows)
        self._search = MenuSearch(whole, weights / float(self._unit.size), floor, self._fit, seed, settings)

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
        """Search on for so many seconds of the budget; true if nothing better than the incumbent exists."""
        best, budget, search = self._best, self._budget, self._search
        if best.value != self._known and best.rows is not None:
            self._known = best.value
            search.raise_floor(self._floor(best.rows))
        began = budget.elapsed()
        try:
            while True:
                before = search.nodes
                status = search.run(_SLICE if budget.nodes_left is None else min(_SLICE, budget.nodes_left))
                budget.charge_nodes(search.nodes - before, self._price)
                if status is Status.EXHAUSTED:
                    return True
                if status is Status.LEAF:
                    self._take(search.leaf())
                if budget.spent() or best.close or budget.elapsed() - began >= seconds:
                    return False
        finally:
            self.seconds += budget.elapsed() - began

    def _take(self, choice: NDArray[np.int64]) -> None:
        """Offer a choice; a capacity whose row was rounded may refuse it, and then it raises nothing."""
        rows = self._menus.rows[choice]
        self._best.offer(rows)
        if self._best.fits(rows):
            self._known = self._best.value
            self._search.raise_floor(self._floor(rows))

    def _floor(self, rows: NDArray[np.int64]) -> int:
        return self._unit.floor(self._best.values_of(rows))

    def _fit(self, decided: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return multipliers of the linear relaxation of what is open once some options are chosen."""
        menus = self._menus
        still = np.ones(menus.num_jobs, dtype=np.bool_)
        still[menus.job[decided]] = False
        if not still.any():
            return self._weights / float(self._unit.size)
        left = menus.part(np.flatnonzero(still), menus.capacities - menus.used(decided))
        dual = solve_dual(left, gap=1e-4, rounds=_FITTING_ROUNDS, start=self._weights, late=self._budget.late)
        return dual.multipliers / float(self._unit.size)
