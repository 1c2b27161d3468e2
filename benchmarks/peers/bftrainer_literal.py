"""BFTrainer's node-indexed MILP as its authors write it, in python-mip with SOS2 on CBC, big-M corrected.

Rows (1) to (8) of arXiv:2106.12091 as the authors' replayer has them (names as in
``formulations/gap_filling/by_node.py``). One thing differs: rows (5) use M_5 = 2 |N| + 1 rather than
|N| + 1, which forbids a change of more than half the nodes, and row (1) max(M, N_min). CBC runs without
preprocessing: with it and SOS2 it ends the process (python-mip 1.17.6 and 2.0.0).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from apportion.instances.gap_filling import GapFillingInstance
from benchmarks.peers.python_mip import finish, new_model
from benchmarks.peers.task import Answer, CannotTake, Limits, Task, Watch

__all__ = ["solve"]


def solve(task: Task, limits: Limits) -> Answer:
    """Write every row over jobs and nodes, as the authors do."""
    instance = task.instance
    if not isinstance(instance, GapFillingInstance):
        raise CannotTake("is a model of gap filling only")
    if any(job.pinned_count is not None or job.forbidden_counts for job in instance.jobs):
        raise CannotTake("has no pinned or forbidden counts")
    watch = Watch()
    m, x = _model(instance)
    watch.lap("build")
    answer = finish(m, [x[j][n] for j in range(len(x)) for n in range(len(instance.nodes))], limits, watch)
    if answer.x is None:
        return answer
    given = answer.x.reshape(len(instance.jobs), len(instance.nodes)) > 0.5
    allocation = {
        job.id: [instance.nodes[n] for n in np.flatnonzero(row)]
        for job, row in zip(instance.jobs, given, strict=True)
        if row.any()
    }
    return Answer(
        termination=answer.termination,
        raw_status=answer.raw_status,
        plan={"allocation": allocation},
        objective=answer.objective,
        bound=answer.bound,
        watch=watch,
    )


def _model(instance: GapFillingInstance) -> tuple[Any, list[list[Any]]]:
    import mip

    m = new_model("max")
    m.preprocess = 0
    size = len(instance.nodes)
    position = {node: n for n, node in enumerate(instance.nodes)}
    M, M5 = size + 1, 2 * size + 1
    objective: list[Any] = []
    x: list[list[Any]] = []
    for job in instance.jobs:
        c = np.zeros(size, dtype=int)
        c[[position[node] for node in job.current_nodes]] = 1
        C = int(c.sum())
        running = job.min_nodes <= C
        rate = float(np.interp(C, job.scaling.nodes, job.scaling.rate)) if running else 0.0
        x_j = [m.add_var(var_type=mip.BINARY) for _ in range(size)]
        u_j = [m.add_var(var_type=mip.BINARY) for _ in range(size)]
        z, z_max, y, a, b = (m.add_var(var_type=mip.BINARY) for _ in range(5))
        N, change = mip.xsum(x_j), mip.xsum(u_j)
        m += job.min_nodes - max(M, job.min_nodes) * z <= N  # (1)
        m += M * (1 - z) >= N
        m += job.max_nodes >= N - M * z_max  # (2)
        m += M * (1 - z_max) >= N
        for x_n, u_n, c_n in zip(x_j, u_j, c.tolist(), strict=True):  # (4)
            m += u_n <= x_n + c_n
            m += u_n >= x_n - c_n
            m += u_n >= c_n - x_n
            m += u_n <= 2 - x_n - c_n
        m += change - M5 * y <= N - C  # (5)
        m += -1 * change + M5 * (1 - y) >= N - C
        w = [m.add_var(ub=1.0) for _ in job.scaling.nodes]
        m += mip.xsum(w) == 1  # (6)
        m += mip.xsum(count * v for count, v in zip(job.scaling.nodes, w, strict=True)) == N
        m.add_sos(list(zip(w, job.scaling.nodes, strict=True)), 2)
        m += C + (M - C) * a >= N  # (7)
        m += (C + 1) * a <= N
        m += (C - 1) + (M - (C - 1)) * (1 - b) >= N  # (8)
        m += C * (1 - b) <= N
        gained = mip.xsum(o * v for o, v in zip(job.scaling.rate, w, strict=True))
        stalled = rate * (job.rescale_up_s * a + job.rescale_down_s * b)
        objective.append(job.weight * (instance.horizon_s * gained - stalled))
        x.append(x_j)
    for n in range(size):  # (3)
        m += mip.xsum(x_j[n] for x_j in x) <= 1
    m.objective = mip.xsum(objective)
    return m, x
