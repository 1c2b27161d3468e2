"""The reduced core as a mixed-integer program on HiGHS: the proof where the menus left are few."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.errors import BackendUnavailable
from apportion.outcome import Termination
from apportion.solvers.general.highs_call import call
from apportion.solvers.general.points import Start

from .option_table import OptionTable
from .written import written

__all__ = ["CoreAnswer", "solve_core"]

_EQUAL = 5e-10
"""Relative difference of objectives that counts as none: half of what the judge lets pass as optimal."""
_LARGEST = 1e9
"""Capacities up to which HiGHS is believed: it takes differences below a billionth of a row for rounding.

Of uses near 2e11 that fill a capacity to the unit it cuts off choices that fit, and of uses of 10^12 it has
called optimal, without presolve, what is not."""


@dataclass(frozen=True, slots=True, eq=False)
class CoreAnswer:
    """What HiGHS said about the core.

    Attributes
    ----------
    choice
        int64 [jobs]: options of its best point, or ``None``.
    bound
        Its dual bound over the core, loosened by HiGHS's tolerance, or ``None``.
    proven
        Whether that bound meets the point, or, without a point, HiGHS calls the core infeasible; never where
        a unit of some use is too small for its tolerances.
    nodes
        Branch-and-bound nodes.
    status
        HiGHS's own words.
    """

    choice: NDArray[np.int64] | None
    bound: float | None
    proven: bool
    nodes: int
    status: str


def solve_core(
    menus: OptionTable,
    *,
    start: NDArray[np.int64] | None,
    seconds: float | None,
    nodes: int | None,
    step: float,
    threads: int,
    seed: int,
    enough: Callable[[float], bool] | None = None,
    reduced: bool = False,
) -> CoreAnswer:
    """Solve the menus as a mixed-integer program.

    Parameters
    ----------
    menus
        The options left; at least one per job.
    start
        int64 [jobs]: options of a feasible choice, if one is known.
    seconds, nodes
        Limits; ``None`` for none.
    step
        Objectives differ by at least this much (0 if unknown), so a smaller absolute gap is a proof.
    threads, seed
        Given to HiGHS.
    enough
        Whether a point of some value ends the search.
    reduced
        Whether reduced costs have left nothing to reduce: HiGHS then looks for no reductions, for no point
        before it has solved the relaxation, and shifts the relaxation's point until it is whole.
    """
    model = written(menus)
    settings: dict[str, object] = {
        "threads": threads,
        "random_seed": seed,
        "mip_rel_gap": 0.0,
        "mip_abs_gap": 0.999 * step,
    }
    if reduced:
        settings |= {
            "presolve": "off",
            "mip_heuristic_run_feasibility_jump": False,
            "mip_heuristic_run_shifting": True,
        }
    if seconds is not None:
        settings["time_limit"] = max(0.0, seconds)
    if nodes is not None:
        settings["mip_max_nodes"] = nodes
    known = None
    if start is not None:
        point = np.zeros(menus.num_options)
        point[start] = 1.0
        known = Start(point, model.objective(point))

    def listen(point: NDArray[np.float64] | None, _: float | None) -> bool:
        return point is not None and enough is not None and enough(model.objective(point))

    try:
        said = call(model, settings, known, listen=None if enough is None else listen)
    except BackendUnavailable as error:
        return CoreAnswer(None, None, False, 0, str(error))
    believed = bool((np.minimum(menus.capacities, menus.uses.sum(axis=1)) <= _LARGEST).all())
    if said.termination is Termination.INFEASIBLE:
        return CoreAnswer(None, None, believed, said.nodes, said.raw)
    choice = None
    if said.point is not None:
        picked = np.flatnonzero(said.point > 0.5)
        if picked.size == menus.num_jobs and (menus.job[picked] == np.arange(menus.num_jobs)).all():
            choice = picked
    proven = False
    if believed and choice is not None and said.bound is not None and said.termination is Termination.OPTIMAL:
        value = float(menus.values[choice].sum())
        proven = said.bound - value <= max(0.9995 * step, _EQUAL * abs(value))
    return CoreAnswer(choice, said.bound, proven, said.nodes, said.raw)
