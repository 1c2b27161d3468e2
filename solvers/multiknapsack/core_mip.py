"""The reduced core as a mixed-integer program on HiGHS: the proof where the menus left are few."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .menus import Menus

__all__ = ["CoreAnswer", "solve_core"]


@dataclass(frozen=True, slots=True, eq=False)
class CoreAnswer:
    """What HiGHS said about the core.

    Attributes
    ----------
    choice
        int64 [jobs]: options of its best point, or ``None``.
    bound
        Its dual bound over the core, or ``None``.
    proven
        Whether it proved its point optimal, or, without a point, the core infeasible.
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
    menus: Menus,
    *,
    start: NDArray[np.int64] | None,
    seconds: float | None,
    nodes: int | None,
    step: float,
    gap: float,
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
    gap
        Relative gap that is enough.
    threads, seed
        Given to HiGHS.
    """
    import highspy

    num, jobs, caps = menus.num_options, menus.num_jobs, menus.capacities.size
    rows, columns = np.nonzero(menus.uses)
    pointer = np.concatenate((menus.offsets, num + np.cumsum(np.bincount(rows, minlength=caps)))).astype(
        np.int32
    )
    index = np.concatenate((np.arange(num), columns)).astype(np.int32)
    data = np.concatenate((np.ones(num), menus.uses[rows, columns]))
    solver = highspy.Highs()
    settings: dict[str, object] = {
        "output_flag": False,
        "threads": threads,
        "random_seed": seed,
        "mip_rel_gap": gap,
        "mip_abs_gap": max(1e-9, 0.999 * step),
    }
    if seconds is not None:
        settings["time_limit"] = max(0.0, seconds)
    if nodes is not None:
        settings["mip_max_nodes"] = nodes
    for name, value in settings.items():
        if solver.setOptionValue(name, value) != highspy.HighsStatus.kOk:
            raise RuntimeError(f"HiGHS refused option {name}={value!r}")
    status = solver.passModel(
        num,
        jobs + caps,
        int(data.size),
        int(highspy.MatrixFormat.kRowwise),
        int(highspy.ObjSense.kMaximize),
        0.0,
        menus.values,
        np.zeros(num),
        np.ones(num),
        np.concatenate((np.ones(jobs), np.full(caps, -np.inf))),
        np.concatenate((np.ones(jobs), menus.capacities)),
        pointer,
        index,
        data,
        np.ones(num, dtype=np.int32),
    )
    if status == highspy.HighsStatus.kError:
        return CoreAnswer(None, None, False, 0, "model refused")
    if start is not None:
        point = np.zeros(num)
        point[start] = 1.0
        known = highspy.HighsSolution()
        known.col_value = point.tolist()
        solver.setSolution(known)
    solver.run()
    said = solver.getModelStatus()
    info = solver.getInfo()
    words = solver.modelStatusToString(said)
    visited = max(0, int(info.mip_node_count))
    if said == highspy.HighsModelStatus.kInfeasible:
        return CoreAnswer(None, None, True, visited, words)
    bound = float(info.mip_dual_bound)
    choice = None
    if info.primal_solution_status == int(highspy.SolutionStatus.kSolutionStatusFeasible):
        value = np.asarray(solver.getSolution().col_value)
        picked = np.flatnonzero(value > 0.5)
        if picked.size == jobs and (menus.job[picked] == np.arange(jobs)).all():
            choice = picked
    proven = said == highspy.HighsModelStatus.kOptimal and choice is not None
    return CoreAnswer(choice, bound if np.isfinite(bound) else None, proven, visited, words)
