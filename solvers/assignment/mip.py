"""Branch and bound by HiGHS on what is left of a model after fixing."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.models.linear import LinearModel
from apportion.solvers.assignment.quietly import new_highs

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
    upper = model.upper
    if ceiling is not None:
        upper = upper.copy()
        upper[-1] = ceiling
    place = np.full(model.num_columns, -1, dtype=np.int64)
    place[keep] = np.arange(keep.size)
    kept = place[model.indices] >= 0
    row = np.repeat(np.arange(model.num_rows), np.diff(model.indptr))
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = int(keep.size), model.num_rows
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = model.cost[keep], model.lower[keep], upper[keep]
    lp.row_lower_, lp.row_upper_ = model.row_lower, model.row_upper
    lp.integrality_ = [
        highspy.HighsVarType.kInteger if integer else highspy.HighsVarType.kContinuous
        for integer in model.integer[keep].tolist()
    ]
    lp.sense_ = highspy.ObjSense.kMaximize if model.sense == "maximize" else highspy.ObjSense.kMinimize
    lp.offset_ = model.offset
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = np.concatenate(
        ([0], np.cumsum(np.bincount(row[kept], minlength=model.num_rows)))
    ).astype(np.int32)
    lp.a_matrix_.index_ = place[model.indices[kept]].astype(np.int32)
    lp.a_matrix_.value_ = model.data[kept]
    if highs.passModel(lp) == highspy.HighsStatus.kError:
        return Branched("limit", None, None, 0, "passModel failed")
    if start is not None and (start[place < 0] == 0).all():
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
        point = np.zeros(model.num_columns)
        point[keep] = np.array(highs.getSolution().col_value)
    optimal = highs.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return Branched(
        "optimal" if optimal and point is not None else "limit",
        point,
        bound if math.isfinite(bound) else None,
        int(info.mip_node_count),
        raw,
    )
