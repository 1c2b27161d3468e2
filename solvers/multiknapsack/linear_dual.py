"""Multipliers of many capacities that few jobs touch: the linear relaxation, written sparsely, on HiGHS.

Cutting planes price all capacities in one dense master and need some evaluations per capacity. Limits of
tenants are many, and a job touches only those of its own tenant and of the tenants above: the relaxation is
then as sparse as the menus, and a simplex solves it in about the time of some evaluations. With a feasible
choice at hand its columns come in portions (`sifted`).

Only the prices are taken. What they prove is computed from them as from any other multipliers.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from apportion.errors import BackendUnavailable
from apportion.outcome import Termination
from apportion.solvers.general.highs_call import call

from .option_table import OptionTable
from .sifting import sifted
from .written import written

__all__ = ["has_sparse_rows", "relaxed"]

Priced = tuple[NDArray[np.float64], NDArray[np.int64] | None]

_MANY = 32
"""Capacities above which the dense master's work grows beyond that of the simplex,"""
_DENSITY = 0.25
"""where no more than this part of the uses is not 0."""
_AGREES = 1e-5
"""Relative difference of HiGHS's optimum and of what its prices show."""
_WORTH = 4
"""Options per job above which columns come in portions."""


def has_sparse_rows(menus: OptionTable) -> bool:
    """Return whether the menus have many capacities of which an option uses few."""
    if menus.num_capacities <= _MANY:
        return False
    return bool(np.count_nonzero(menus.uses) <= _DENSITY * menus.uses.size)


def relaxed(
    menus: OptionTable, seconds: float | None, anchor: NDArray[np.int64] | None = None
) -> Priced | None:
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
        Without options where HiGHS says that no point keeps the capacities: at these prices their least uses
        should cost more. ``None`` where HiGHS does not solve it: nothing is concluded from that.
    """
    began = time.monotonic()

    def left() -> float | None:
        return None if seconds is None else seconds - (time.monotonic() - began)

    try:
        if anchor is not None and menus.num_options > _WORTH * menus.num_jobs:
            found = sifted(menus, left, anchor, _agree)
            if found is not None:
                return found
        return _solved(menus, left())
    except BackendUnavailable:
        return None


def _agree(shown: float, objective: float) -> bool:
    """Return whether values and prices are of sizes that HiGHS's tolerances see."""
    return abs(shown - objective) <= _AGREES * max(abs(shown), abs(objective))


def _solved(menus: OptionTable, seconds: float | None) -> Priced | None:
    """Solve the relaxation of menus whole; presolve would find nothing, for a third of the time."""
    model = replace(written(menus), integer=np.zeros(menus.num_options, dtype=np.bool_))
    settings: dict[str, object] = {"threads": 1, "presolve": "off"}
    if seconds is not None:
        settings["time_limit"] = max(0.0, seconds)
    said = call(model, settings)
    if said.ray is not None:
        return np.abs(said.ray[menus.num_jobs :]), None
    if said.termination is not Termination.OPTIMAL or said.duals is None or said.point is None:
        return None
    prices = np.maximum(said.duals[menus.num_jobs :], 0.0)
    scores = menus.scores(prices)
    shown = float(prices @ menus.capacities + menus.largest(scores).sum())
    if said.bound is None or not _agree(shown, said.bound):
        return None
    return prices, menus.best_choice(said.point)
