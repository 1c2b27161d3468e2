"""The bound that a call states, what shows it, and the rows that make it tighter.

Every choice keeps these rows because uses are whole, and prices of the capacities alone do not see them. A
capacity counts as no more than the greatest sum that its uses can reach. For every use l of it at most
floor(capacity / l) jobs of that use or more fit, so sum floor(use / l) <= floor(capacity / l): the rounding
of Chvatal and Gomory with 1 / l, implied where l divides the capacity. On racks whose jobs take 4, 8, 16 or
32 GPUs the relaxation is then the hull of what one rack can hold.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from apportion.core.options import KnownBound
from apportion.core.outcome import SearchTree, Termination
from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.solvers.clock import Clock
from apportion.solvers.general.highs_call import HIGHS_ERROR
from apportion.solvers.multiknapsack.anytime import StopReason
from apportion.solvers.multiknapsack.dual import Dual, model_bound
from apportion.solvers.multiknapsack.option_table import ChoiceIncumbent, OptionTable, noise

__all__ = [
    "ProvenBound",
    "filled_by_few",
    "with_implied_rows",
]


class Exhaustive(Protocol):
    """A search that ends when nothing is left open."""

    def tree(self, num_capacities: int) -> SearchTree:
        """Return what a proof needs to know of it, in terms of the model."""


class ProvenBound:
    """The bound of one call; its value stands with the incumbent that it is measured against.

    Parameters
    ----------
    model
        The model.
    best
        The incumbent; its `bound` is set.
    known
        A bound that holds.

    Attributes
    ----------
    source
        What shows it; see `apportion.core.outcome.Outcome`.
    multipliers
        float64 [capacities]: those of the last bound by multipliers.
    tree
        The tree that ended the exact search.
    """

    def __init__(
        self, model: MultipleChoiceKnapsack, best: ChoiceIncumbent, known: KnownBound | None
    ) -> None:
        self._model, self._best, self._known = model, best, known
        self.source = "multipliers"
        self.multipliers: NDArray[np.float64] | None = None
        self.tree: SearchTree | None = None

    def by_known(self) -> bool:
        """Take the bound that was known before, if there is one."""
        if self._known is None:
            return False
        self._best.bound, self.source = self._known
        return True

    def at(self, multipliers: NDArray[np.float64]) -> None:
        """Take the bound at some multipliers, or what was known before if that is as good."""
        bound = model_bound(self._model, multipliers)
        if bound is not None:
            self.by_prices(multipliers, bound)

    def by_prices(self, multipliers: NDArray[np.float64], bound: float) -> None:
        """Take the bound that some multipliers are known to show, or what was known before; see `at`."""
        self.multipliers = multipliers
        if self._known is None or self._best.sign * (bound - self._known.value) < 0:
            self._best.bound, self.source = bound, "multipliers"
        else:
            self.by_known()

    def over_fitting(self, menus: OptionTable, dual: Dual, implied: bool = False) -> None:
        """Take what prices show over the options that fit, and under implied rows, if it is less.

        Others are in no choice. Multipliers alone know neither: this is a step of the search.
        """
        best, model = self._best, self._model
        whole = menus.num_options == model.num_options + np.count_nonzero(~model.required)
        if best.bound is None or (whole and not implied):
            return
        stated = best.sign * (dual.bound + noise(menus, dual.multipliers))
        if best.sign * (best.bound - stated) > 0:
            best.bound, self.source = stated, "branch_and_bound"

    def by_enumeration(self) -> None:
        """State that the incumbent is the best of all choices."""
        self._best.bound, self.source = self._best.objective, "enumeration"

    def keep_tree(self, search: Exhaustive, menus: OptionTable) -> None:
        """Keep the tree of a search that has looked at all there is, for a proof that can name its rows."""
        if menus.num_capacities > menus.binding.size:
            return
        self.tree = search.tree(self._model.num_capacities)

    def on_grid(self) -> None:
        """State the bound of the values' common step: no objective lies between it and the incumbent."""
        if self._best.step > 0:
            self._best.bound = self._best.objective
            self.source = self.source if self.source == "solver" else "branch_and_bound"

    def by_search(self, rounding: float) -> None:
        """State what an exhaustive search shows: nothing is better by more than the floor and the rounding.

        Where values lie on a grid nothing lies between a value and the next one, a step away. Options that
        reduced costs fixed away need not be counted: what that lets pass has its own margin (`reachable`).
        """
        best = self._best
        if best.objective is None or best.floor is None or best.value is None:
            return
        slack = 0.0 if best.step > 2.0 * rounding else rounding
        if slack <= 1e-10 * abs(best.value):
            slack = 0.0
        stated = best.objective + best.sign * slack
        if best.bound is None or best.sign * (stated - best.bound) < 0:
            best.bound, self.source = stated, "branch_and_bound"

    def beyond(self, bound: float, source: str) -> None:
        """Take what nothing better than the incumbent exceeds, unless what is known is near enough."""
        best = self._best
        if best.value is None or best.bound is None or best.close:
            return
        stated = best.sign * max(bound, best.value)
        if best.sign * (stated - best.bound) < 0:
            best.bound, self.source = stated, source

    def by_ending(self, ending: StopReason, live: OptionTable, weights: NDArray[np.float64]) -> StopReason:
        """State what an ending shows, and return it; `live` are the options that were searched."""
        best = self._best
        if ending.proving is not None:
            self.keep_tree(ending.proving, live)
        if ending.reason == "claimed":  # by the word of HiGHS, as where it is asked about the whole
            if best.objective is not None and not best.proven:
                best.bound, self.source = best.objective, "solver"
            return ending
        shown = ending.reason == "proven" or ending.by_solver
        if shown and not ending.infeasible and not best.proven:
            # the exact search counts in whole numbers, the beams in sums of float64
            rounding = 0.0 if ending.proving is not None else max(noise(live, weights), ending.rounding)
            if ending.by_solver and best.value is not None:
                rounding += HIGHS_ERROR * abs(best.value)
            self.by_search(rounding)
            if ending.by_solver and self.source == "branch_and_bound":
                self.source = "solver"
        elif best.proven:
            self.on_grid()
        elif ending.counts is not None:
            self.beyond(ending.counts.bound, "solver" if ending.counts.by_solver else "branch_and_bound")
        return ending

    def ended(self, clock: Clock) -> StopReason | None:
        """Say how it ended if the incumbent is good enough, or a limit is reached."""
        best = self._best
        if best.proven:
            self.on_grid()
            return StopReason("proven")
        if best.close:
            return StopReason("gap")
        if (stopped := clock.stopped()) is not None:
            return StopReason("work" if stopped is Termination.NODE_LIMIT else "limit")
        return None


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
    ends, option, use = menus.by_capacity()
    found: list[tuple[int, int, int]] = []
    for k in range(capacities.size):
        own = use[ends[k] : ends[k + 1]].astype(np.int64)
        unit = max(1, int(np.gcd.reduce(own)))
        room = int(capacities[k]) // unit
        capacities[k] = float(room * unit)
        largest = max(room, int(own.max(initial=0)) // unit)
        sizes = np.flatnonzero(np.bincount(own // unit)) if largest <= _LARGEST else own[:0]
        if not 0 < sizes.size <= _SIZES:
            continue
        room = _reachable(sizes, room)
        capacities[k] = float(room * unit)
        found += [(k, size * unit, room * unit) for size in sizes[sizes > 1].tolist() if room % size]
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
    paid, few = prices * menus.capacities, np.zeros(menus.num_capacities, dtype=np.bool_)
    few[menus.above(np.nextafter(_CHUNK * menus.capacities, 0.0))[0]] = True
    return bool(2.0 * paid[few].sum() >= paid.sum())
