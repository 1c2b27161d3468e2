"""Multipliers of many capacities that few jobs touch: the linear relaxation, written sparsely, on HiGHS.

Cutting planes price all capacities in one dense master and need some evaluations per capacity. Limits of
tenants are many, and a job touches only those of its own tenant and of the tenants above: the relaxation is
then as sparse as the menus, and a simplex solves it in about the time of some evaluations.

Only the prices are taken. What they prove is computed from them as from any other multipliers.
"""

from __future__ import annotations

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


def has_sparse_rows(menus: OptionTable) -> bool:
    """Return whether the menus have many capacities of which an option uses few."""
    if menus.num_capacities <= _MANY:
        return False
    return bool(np.count_nonzero(menus.uses) <= _DENSITY * menus.uses.size)


def relaxed(
    menus: OptionTable, seconds: float | None
) -> tuple[NDArray[np.float64], NDArray[np.int64]] | None:
    """Return the relaxation's prices, float64 [capacities] >= 0, and every job's largest option in it.

    Parameters
    ----------
    menus
        At least one job and one capacity.
    seconds
        A limit; ``None`` for none.

    Returns
    -------
    tuple or None
        ``None`` where HiGHS does not solve it: nothing is concluded from that.
    """
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
    scores = menus.values - prices @ menus.uses
    shown = float(prices @ menus.capacities + menus.largest(scores).sum())
    if said.bound is None or not abs(shown - said.bound) <= _AGREES * max(abs(shown), abs(said.bound)):
        return None  # values or prices are of sizes that its tolerances do not see
    return prices, menus.best_choice(said.point)
