"""Branch and bound by HiGHS on what is left of a model after fixing."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.models.linear import LinearModel
from apportion.solvers.assignment.quietly import new_highs
from apportion.solvers.assignment.restricted import restricted, spread

__all__ = ["Branched", "branch_and_bound"]


@dataclass(frozen=True, slots=True, eq=False)
class Branched:
    """What branch and bound came to.

    Attributes
    ----------
    status
        ``"optimal"``, ``"infeasible"`` or ``"limit"``.
    point
        The best point, or ``None``.
    bound
        Its dual bound in the model's sense, or ``None``.
    nodes
        Nodes searched.
    raw
        HiGHS's own words.
    """

    status: str
    point: NDArray[np.float64] | None
    bound: float | None
    nodes: int
    raw: str


def branch_and_bound(
    model: LinearModel,
    seconds: float | None,
    start: NDArray[np.float64] | None = None,
    allowed: NDArray[np.bool_] | None = None,
    gap: float = 0.0,
    seed: int = 0,
    node_limit: int | None = None,
    ceiling: float | None = None,
    quick: bool = False,
) -> Branched:
    """Solve a model over the columns that are still allowed.

    Parameters
    ----------
    model
        The model.
    seconds
        Time limit, ``None`` for none.
    start
        A feasible point.
    allowed
        bool [columns]; the others stay at zero.
    gap
        Relative gap at which to stop.
    seed
        Random seed.
    node_limit
        Limit on the nodes, ``None`` for none.
    ceiling
        Upper bound on the last column, which is the makespan.
    quick
        For small models with a good start: no restarts and next to no search for better points, which
        halves to thirds the time of OR-Library's smaller files.
    """
    import highspy

    highs = new_highs(seconds)
    keep = np.arange(model.num_columns) if allowed is None else np.flatnonzero(allowed)
    settings: dict[str, object] = {"mip_rel_gap": gap, "mip_abs_gap": 0.0, "random_seed": seed}
    if quick:
        settings |= {"mip_allow_restart": False, "mip_heuristic_effort": 0.01}
    if node_limit is not None:
        settings["mip_max_nodes"] = node_limit
    for name, value in settings.items():
        if highs.setOptionValue(name, value) != highspy.HighsStatus.kOk:
            raise RuntimeError(f"HiGHS refuses the option {name} = {value!r}")
    part = restricted(model, keep, ceiling)
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = part.num_columns, part.num_rows
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = part.cost, part.lower, part.upper
    lp.row_lower_, lp.row_upper_ = part.row_lower, part.row_upper
    lp.integrality_ = [
        highspy.HighsVarType.kInteger if integer else highspy.HighsVarType.kContinuous
        for integer in part.integer.tolist()
    ]
    lp.sense_ = highspy.ObjSense.kMaximize if part.sense == "maximize" else highspy.ObjSense.kMinimize
    lp.offset_ = part.offset
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = part.indptr, part.indices, part.data
    if highs.passModel(lp) == highspy.HighsStatus.kError:
        return Branched("limit", None, None, 0, "passModel failed")
    if start is not None and np.count_nonzero(start) == np.count_nonzero(start[keep]):
        known = highspy.HighsSolution()
        known.col_value = start[keep].tolist()
        highs.setSolution(known)
    if highs.run() == highspy.HighsStatus.kError:
        return Branched("limit", None, None, 0, "run failed")
    raw = highs.modelStatusToString(highs.getModelStatus())
    info = highs.getInfo()
    if highs.getModelStatus() == highspy.HighsModelStatus.kInfeasible:
        return Branched("infeasible", None, None, int(info.mip_node_count), raw)
    bound = float(info.mip_dual_bound)
    point = None
    if info.primal_solution_status == 2:  # kSolutionStatusFeasible
        point = spread(np.array(highs.getSolution().col_value), keep, model.num_columns)
    optimal = highs.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return Branched(
        "optimal" if optimal and point is not None else "limit",
        point,
        bound if math.isfinite(bound) else None,
        int(info.mip_node_count),
        raw,
    )
