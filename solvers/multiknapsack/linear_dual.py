"""Multipliers of many capacities that few jobs touch: the linear relaxation, written sparsely, on HiGHS.

Cutting planes price all capacities in one dense master and need some evaluations per capacity. Limits of
tenants are many, and a job touches only those of its own tenant and of the tenants above: the relaxation is
then as sparse as the menus, and a simplex solves it in about the time of some evaluations.

With a feasible choice at hand its columns come in portions (sifting: Bixby, Gregory, Lustig, Marsten and
Shanno, *Very large-scale linear programming*, Operations Research 40(5), 1992): the options of least loss at
rough prices first, then those that are worth more than their job's best one at the prices of these, until
there are none. An iteration of the simplex costs what the columns are, and a job needs few of them.

Only the prices are taken. What they prove is computed from them as from any other multipliers.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from apportion.errors import BackendUnavailable
from apportion.outcome import Termination
from apportion.solvers.general.highs_call import call

from .option_table import OptionTable
from .written import written

__all__ = ["has_sparse_rows", "relaxed"]

_MANY = 32
"""Capacities above which the dense master's work grows beyond that of the simplex,"""
_DENSITY = 0.25
"""where no more than this part of the uses is not 0."""

_AGREES = 1e-5
"""Relative difference of HiGHS's optimum and of what its prices show."""

_STEPS = 15
"""Steps towards rough prices,"""
_SHORTER = 0.8
"""by how much they get shorter with each that finds no lower bound,"""
_FIRST = 3
"""and options per job of the first portion at these."""
_PORTIONS = 6
"""Portions after which all options are handed over at once."""
_CLOSE = 1e-9
"""Relative difference of what the prices of some columns show over all of them that counts as none."""


def has_sparse_rows(menus: OptionTable) -> bool:
    """Return whether the menus have many capacities of which an option uses few."""
    if menus.num_capacities <= _MANY:
        return False
    return bool(np.count_nonzero(menus.uses) <= _DENSITY * menus.uses.size)


def relaxed(
    menus: OptionTable, seconds: float | None, anchor: NDArray[np.int64] | None = None
) -> tuple[NDArray[np.float64], NDArray[np.int64]] | None:
    """Return the relaxation's prices, float64 [capacities] >= 0, and every job's largest option in it.

    Parameters
    ----------
    menus
        At least one job and one capacity.
    seconds
        A limit; ``None`` for none.
    anchor
        int64 [jobs]: the options of a choice that keeps every capacity, if one is known.

    Returns
    -------
    tuple or None
        ``None`` where HiGHS does not solve it: nothing is concluded from that.
    """
    began = time.monotonic()

    def left() -> float | None:
        return None if seconds is None else seconds - (time.monotonic() - began)

    if anchor is not None and menus.num_options > (_FIRST + 1) * menus.num_jobs:
        found = _sifted(menus, left, anchor)
        if found is not None:
            return found
    return _solved(menus, left())


def _sifted(
    menus: OptionTable, left: Callable[[], float | None], anchor: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.int64]] | None:
    """Solve portions that grow by what their prices leave out; ``None`` if the last one still leaves some."""
    loss = menus.loss(_rough(menus, anchor))
    first = _FIRST * menus.num_jobs
    kept = loss <= np.partition(loss, first)[first]
    kept[anchor] = True
    for _ in range(_PORTIONS):
        portion = menus.keep(kept)
        found = _solved(portion, left())
        if found is None:
            return None
        prices, choice = found
        scores, top = menus.scores(prices), portion.largest(portion.scores(prices))
        beyond = float((menus.largest(scores) - top).sum())
        if beyond <= _CLOSE * abs(float(prices @ menus.capacities + top.sum())):
            return prices, np.flatnonzero(kept)[choice]
        kept |= scores > menus.per_option(top)
    return None


def _rough(menus: OptionTable, anchor: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the best of a few prices: steps of Polyak's length towards what a feasible choice is worth.

    A capacity is measured in its own amount, so that none of them rules a step.
    """
    rows, columns = np.nonzero(menus.uses)
    use, scale = menus.uses[rows, columns], np.maximum(menus.capacities, 1.0)
    floor = float(menus.values[anchor].sum())
    prices, best, least = np.zeros(scale.size), np.zeros(scale.size), np.inf
    length = 1.0
    for _ in range(_STEPS):
        paid = np.bincount(columns, weights=use * prices[rows], minlength=menus.num_options)
        scores = menus.values - paid
        choice = menus.best_choice(scores)
        bound = float(prices @ menus.capacities + scores[choice].sum())
        if bound < least:
            least, best = bound, prices
        else:
            length *= _SHORTER
        taken = np.zeros(menus.num_options)
        taken[choice] = 1.0
        used = np.bincount(rows, weights=use * taken[columns], minlength=scale.size)
        over = (used - menus.capacities) / scale
        over[(prices <= 0.0) & (over < 0.0)] = 0.0
        norm = float(over @ over)
        if norm <= 0.0 or bound <= floor:
            break
        prices = np.maximum(0.0, prices + length * (bound - floor) / norm * over / scale)
    return best


def _solved(
    menus: OptionTable, seconds: float | None
) -> tuple[NDArray[np.float64], NDArray[np.int64]] | None:
    """Solve the relaxation of menus whole."""
    model = replace(written(menus), integer=np.zeros(menus.num_options, dtype=np.bool_))
    settings: dict[str, object] = {
        "threads": 1,
        "presolve": "off",
    }  # it finds nothing, for a third of the time
    if seconds is not None:
        settings["time_limit"] = max(0.0, seconds)
    try:
        said = call(model, settings)
    except BackendUnavailable:
        return None
    if said.termination is not Termination.OPTIMAL or said.duals is None or said.point is None:
        return None
    prices = np.maximum(said.duals[menus.num_jobs :], 0.0)
    scores = menus.scores(prices)
    shown = float(prices @ menus.capacities + menus.largest(scores).sum())
    if said.bound is None or not abs(shown - said.bound) <= _AGREES * max(abs(shown), abs(said.bound)):
        return None  # values or prices are of sizes that its tolerances do not see
    return prices, menus.best_choice(said.point)
