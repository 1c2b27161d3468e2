"""The reduced core as a mixed-integer program on HiGHS: the proof where the menus left are few."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.errors import BackendUnavailable
from apportion.models.linear import Block, LinearModel
from apportion.outcome import Termination
from apportion.solvers.general.highs_call import call
from apportion.solvers.general.points import Start

from .option_table import OptionTable

__all__ = ["CoreAnswer", "solve_core"]

_EQUAL = 5e-10
"""Relative difference of objectives that counts as none: half of what the judge lets pass as optimal."""


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
        Whether that bound meets the point, or, without a point, HiGHS calls the core infeasible.
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
    """
    model = _written(menus)
    settings: dict[str, object] = {
        "threads": threads,
        "random_seed": seed,
        "mip_rel_gap": 0.0,
        "mip_abs_gap": 0.999 * step,
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
    try:
        said = call(model, settings, known)
    except BackendUnavailable as error:
        return CoreAnswer(None, None, False, 0, str(error))
    if said.termination is Termination.INFEASIBLE:
        return CoreAnswer(None, None, True, said.nodes, said.raw)
    choice = None
    if said.point is not None:
        picked = np.flatnonzero(said.point > 0.5)
        if picked.size == menus.num_jobs and (menus.job[picked] == np.arange(menus.num_jobs)).all():
            choice = picked
    proven = False
    if choice is not None and said.bound is not None and said.termination is Termination.OPTIMAL:
        value = float(menus.values[choice].sum())
        proven = said.bound - value <= max(0.9995 * step, _EQUAL * abs(value))
    return CoreAnswer(choice, said.bound, proven, said.nodes, said.raw)


def _written(menus: OptionTable) -> LinearModel:
    """Return the menus as a linear model: a row per job, then a row per capacity."""
    num, jobs, caps = menus.num_options, menus.num_jobs, menus.num_capacities
    rows, columns = np.nonzero(menus.uses)
    ends = num + np.cumsum(np.bincount(rows, minlength=caps))
    return LinearModel(
        sense="maximize",
        cost=menus.values,
        offset=0.0,
        lower=np.zeros(num),
        upper=np.ones(num),
        integer=np.ones(num, dtype=np.bool_),
        row_lower=np.concatenate((np.ones(jobs), np.full(caps, -np.inf))),
        row_upper=np.concatenate((np.ones(jobs), menus.capacities)),
        indptr=np.concatenate((menus.offsets, ends)).astype(np.int32),
        indices=np.concatenate((np.arange(num), columns)).astype(np.int32),
        data=np.concatenate((np.ones(num), menus.uses[rows, columns])),
        variables=(Block("x", 0, (num,)),),
        rows=(Block("one_option", 0, (jobs,)), Block("capacity", jobs, (caps,))),
    )
