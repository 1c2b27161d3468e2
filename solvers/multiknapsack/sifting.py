"""The linear relaxation of many sparse rows in portions of columns, from rough prices.

Sifting: Bixby, Gregory, Lustig, Marsten and Shanno, *Very large-scale linear programming*, Operations
Research 40(5), 1992. The options of least loss at rough prices come first, then those that are worth more
than their job's best one at the prices of these, until there are none. An iteration of the simplex costs what
the columns are, and a job needs few of them; with each portion it goes on from the optimum over those before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from apportion.solvers.general.highs_columns import GrowingProgramme

from .option_table import OptionTable

__all__ = ["sifted"]

_STEPS = 15
"""Steps towards rough prices,"""
_SHORTER = 0.8
"""by how much they get shorter with each that finds no lower bound,"""
_FIRST = 2
"""and options per job of the first portion at these."""
_PORTIONS = 20
"""Portions after which all options are handed over at once."""
_CLOSE = 1e-9
"""Relative difference of what the prices of some columns show over all of them that counts as none."""
_EXACT = 2.0**40
"""Uses up to which one unit too much is far beyond HiGHS's tolerances, without rows being scaled."""


class _Entries(NamedTuple):
    """What is used, capacity by capacity: of which one, by which option, and how much."""

    capacity: NDArray[np.int64]
    option: NDArray[np.int64]
    use: NDArray[np.float64]

    def paid(self, prices: NDArray[np.float64], num_options: int) -> NDArray[np.float64]:
        """Return what every option pays."""
        paid = np.bincount(self.option, weights=self.use * prices[self.capacity], minlength=num_options)
        return np.asarray(paid, dtype=np.float64)

    def of(self, options: NDArray[np.bool_]) -> _Entries:
        """Return the entries of some options."""
        at = np.flatnonzero(options[self.option])
        return _Entries(self.capacity[at], self.option[at], self.use[at])


def sifted(
    menus: OptionTable,
    left: Callable[[], float | None],
    anchor: NDArray[np.int64],
    agree: Callable[[float, float], bool],
) -> tuple[NDArray[np.float64], NDArray[np.int64]] | None:
    """Solve portions that grow by what their prices leave out.

    Parameters
    ----------
    menus
        At least one job and one capacity.
    left
        The seconds that are left; ``None`` for no limit.
    anchor
        int64 [jobs]: the options of a choice that keeps every capacity.
    agree
        Whether what prices show and the optimum that they come from are the same number.

    Returns
    -------
    tuple or None
        Prices and every job's largest option; ``None`` if the last portion still leaves some, or HiGHS fails.
    """
    entries = _Entries(*menus.entries())
    if entries.use.max(initial=0.0) > _EXACT:
        return None
    loss = menus.values - entries.paid(_rough(menus, entries, anchor), menus.num_options)
    loss = menus.per_option(menus.largest(loss)) - loss
    first = min(loss.size - 1, _FIRST * menus.num_jobs)
    kept = loss <= np.partition(loss, first)[first]
    kept[anchor] = True
    one, none = np.ones(menus.num_jobs), np.full(menus.num_capacities, -np.inf)
    rows = np.concatenate((one, none)), np.concatenate((one, menus.capacities))
    programme = GrowingProgramme(*rows, menus.values)
    fresh, order = kept.copy(), list[NDArray[np.int64]]()
    for _ in range(_PORTIONS):
        programme.add(*_columns(menus, entries, fresh))
        order.append(np.flatnonzero(fresh))
        found = programme.solved(left())
        if found is None:
            return None
        prices = np.maximum(found.duals[menus.num_jobs :], 0.0)
        scores = menus.values - entries.paid(prices, menus.num_options)
        top = menus.largest(np.where(kept, scores, -np.inf))
        shown = float(prices @ menus.capacities + top.sum())
        if not agree(shown, found.objective):
            return None
        if float((menus.largest(scores) - top).sum()) <= _CLOSE * abs(shown):
            part = np.zeros(menus.num_options)
            part[np.concatenate(order)] = found.point
            return prices, menus.best_choice(part)
        fresh = ~kept & (scores > menus.per_option(top))
        kept |= fresh
    return None


def _columns(
    menus: OptionTable, entries: _Entries, chosen: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Return some options as columns: what they are worth, and their entries, the row of the job first."""
    options, own = np.flatnonzero(chosen), entries.of(chosen)
    whose = np.concatenate((options, own.option))
    order = np.argsort(whose, kind="stable")
    sizes = np.bincount(whose, minlength=menus.num_options)[options]
    rows = np.concatenate((menus.job[options], menus.num_jobs + own.capacity))[order]
    data = np.concatenate((np.ones(options.size), own.use))[order]
    return menus.values[options], np.concatenate(([0], np.cumsum(sizes))), rows, data


def _rough(menus: OptionTable, entries: _Entries, anchor: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the best of a few prices: steps of Polyak's length towards what a feasible choice is worth.

    A capacity is measured in its own amount, so that none of them rules a step.
    """
    scale = np.maximum(menus.capacities, 1.0)
    floor = float(menus.values[anchor].sum())
    prices, best, least = np.zeros(scale.size), np.zeros(scale.size), np.inf
    length = 1.0
    for _ in range(_STEPS):
        scores = menus.values - entries.paid(prices, menus.num_options)
        choice = menus.best_choice(scores)
        bound = float(prices @ menus.capacities + scores[choice].sum())
        if bound < least:
            least, best = bound, prices
        else:
            length *= _SHORTER
        taken = np.zeros(menus.num_options, dtype=np.bool_)
        taken[choice] = True
        own = entries.of(taken)
        used = np.bincount(own.capacity, weights=own.use, minlength=scale.size)
        over = (used - menus.capacities) / scale
        over[(prices <= 0.0) & (over < 0.0)] = 0.0
        norm = float(over @ over)
        if norm <= 0.0 or bound <= floor:
            break
        prices = np.maximum(0.0, prices + length * (bound - floor) / norm * over / scale)
    return best
