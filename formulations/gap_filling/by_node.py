"""Gap filling by node: the published MILP, row family by row family.

BFTrainer's resource allocator (Liu, Kettimuthu, Papka, Foster, arXiv:2106.12091), which FreeTrain uses as it
is. Names as in the paper:

===============  ==================================================================================
symbol           meaning
===============  ==================================================================================
x_jn             node n serves job j
u_jn             x_jn XOR c_jn, whether node n changes for job j
z_j, z'_j        job j is off (for the minimum, for the maximum)
y_j              direction of change: 0 grows, 1 shrinks
a_j, b_j         job j scales up, scales down
w_ji             weight of breakpoint i of job j's curve; s_ji marks the segment that is in use
c_jn, C_j        present allocation and its size;  N_j = sum_n x_jn
Ns_ji, O_ji      breakpoints: node count and throughput
R_j^up, R_j^dw   rescale_up_s, rescale_down_s;  T_fwd the horizon;  M = |N| + 1
===============  ==================================================================================

Two things differ from the page of the paper. Its rows (5) use M although both sides reach 2 |N|, which
forbids a change of more than (|N| + 1) / 2 nodes, and its rows (1) cannot switch off a job whose minimum
exceeds |N| + 1; here they use 2 |N| + 1 and max(M, N_j^min) unless `published_big_m` asks for the original.
And SOS2 sets are written with one binary per segment, because HiGHS and CP-SAT have none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from apportion.formulations.protocol import Plan
from apportion.instances.gap_filling import GapFillingInstance, GapFillingJob
from apportion.models.affine import Affine
from apportion.models.linear import LinearModel, LinearModelBuilder

__all__ = ["GapFillingByNode"]


class GapFillingByNode:
    """The published MILP of a gap-filling instance.

    Parameters
    ----------
    instance
        What to compile.
    published_big_m
        Use the published big-M, too small in rows (1) and (5). The optimum can then be worse than
        the instance's, so no bound of this model is one of the instance.

    Attributes
    ----------
    model
        The linear model.
    exact
        Whether its optimum is the instance's: not `published_big_m`.
    """

    __slots__ = ("exact", "instance", "model")

    def __init__(self, instance: GapFillingInstance, published_big_m: bool = False) -> None:
        self.instance = instance
        self.exact = not published_big_m
        self.model = _compile(instance, published_big_m)

    def plan(self, point: NDArray[np.float64]) -> Plan:
        """Return ``{"allocation": {job: [node, ...]}}``: the nodes with x_jn = 1."""
        instance = self.instance
        x = point[self.model.variable("x")].reshape(len(instance.jobs), len(instance.nodes)) > 0.5
        allocation = {
            job.id: [instance.nodes[n] for n in np.flatnonzero(row)]
            for job, row in zip(instance.jobs, x, strict=True)
        }
        return {"allocation": {job: nodes for job, nodes in allocation.items() if nodes}}

    def point(self, plan: Any) -> NDArray[np.float64] | None:
        """Return the point of a feasible plan, every auxiliary variable at the value it is forced to."""
        allocation = plan.get("allocation") if isinstance(plan, Mapping) else None
        if not isinstance(allocation, Mapping):
            return None
        held = [allocation.get(job.id, ()) for job in self.instance.jobs]
        return _point(self.instance, self.model, [list(nodes) for nodes in held])


def _compile(instance: GapFillingInstance, published_big_m: bool) -> LinearModel:
    jobs, num_jobs, num_nodes = instance.jobs, len(instance.jobs), len(instance.nodes)
    job_ids = [job.id for job in jobs]
    by_job, by_pair = (job_ids,), (job_ids, list(instance.nodes))
    c = _present(instance)
    C = c.sum(axis=1)
    n_min = np.array([job.min_nodes for job in jobs], dtype=np.float64)
    n_max = np.array([job.max_nodes for job in jobs], dtype=np.float64)
    M = num_nodes + 1.0
    M5 = M if published_big_m else 2.0 * num_nodes + 1.0
    M1 = np.full(num_jobs, M) if published_big_m else np.maximum(M, n_min)
    offsets, breakpoints, throughput = _curves(jobs)

    m = LinearModelBuilder("maximize")
    x = m.binary("x", (num_jobs, num_nodes), by_pair)
    u = m.binary("u", (num_jobs, num_nodes), by_pair)
    z = m.binary("z", (num_jobs,), by_job)
    z_max = m.binary("z_max", (num_jobs,), by_job)
    y = m.binary("y", (num_jobs,), by_job)
    a = m.binary("a", (num_jobs,), by_job)
    b = m.binary("b", (num_jobs,), by_job)
    w = m.continuous("w", (breakpoints.size,), 0.0, 1.0)
    s = m.binary("s", (breakpoints.size - num_jobs,))
    N = x.sum(axis=1)

    m.at_least("off_or_min", N + M1 * z, n_min, by_job)  # (1)
    m.at_most("off_for_min", N + M * z, M, by_job)
    m.at_most("off_or_max", N - M * z_max, n_max, by_job)  # (2)
    m.at_most("off_for_max", N + M * z_max, M, by_job)
    m.at_most("idle_nodes", x.sum(axis=0), 1.0, (list(instance.nodes),))  # (3)
    m.at_most("xor_at_most_sum", u - x, c, by_pair)  # (4)
    m.at_least("xor_joins", u - x, -c, by_pair)
    m.at_least("xor_leaves", u + x, c, by_pair)
    m.at_most("xor_at_most_two", u + x, 2.0 - c, by_pair)
    change = u.sum(axis=1)
    m.at_least("no_migration_up", N - change + M5 * y, C, by_job)  # (5)
    m.at_most("no_migration_down", N + change + M5 * y, C + M5, by_job)
    m.equal("one_weight", w.segment_sum(offsets), 1.0, by_job)  # (6)
    m.equal("curve", N - (w * breakpoints).segment_sum(offsets), 0.0, by_job)
    _adjacent_weights(m, w, s, offsets)
    m.at_most("up_limit", N - (M - C) * a, C, by_job)  # (7)
    m.at_least("up_is_up", N - (C + 1.0) * a, 0.0, by_job)
    m.at_most("down_is_down", N + (M - (C - 1.0)) * b, M, by_job)  # (8)
    m.at_least("down_limit", N + C * b, C, by_job)
    _restrict_counts(m, jobs, N, M)

    weight = np.array([job.weight for job in jobs], dtype=np.float64)
    c_rate = _present_rates(jobs)
    up = weight * c_rate * np.array([job.rescale_up_s for job in jobs], dtype=np.float64)
    down = weight * c_rate * np.array([job.rescale_down_s for job in jobs], dtype=np.float64)
    worth = instance.horizon_s * np.repeat(weight, np.diff(offsets)) * throughput
    m.objective((w * worth).sum() - (a * up).sum() - (b * down).sum())
    return m.build()


def _adjacent_weights(m: LinearModelBuilder, w: Affine, s: Affine, offsets: NDArray[np.int64]) -> None:
    """Write SOS2: one segment per job is in use, and a breakpoint has weight only beside it."""
    num_jobs = offsets.size - 1
    segment_offsets = offsets - np.arange(num_jobs + 1)
    m.equal("one_segment", s.segment_sum(segment_offsets), 1.0)
    job = np.repeat(np.arange(num_jobs), np.diff(offsets))
    point = np.arange(offsets[-1])
    first, last = point == offsets[job], point == offsets[job + 1] - 1
    # the segment right of breakpoint i of job j is number i - j overall, the one left of it i - j - 1
    beside = (point - job) - last
    m.at_most("weight_beside_segment_end", w[first | last] - s[beside[first | last]], 0.0)
    inner = np.flatnonzero(~first & ~last)
    m.at_most("weight_beside_segment", w[inner] - s[beside[inner] - 1] - s[beside[inner]], 0.0)


def _restrict_counts(
    m: LinearModelBuilder,
    jobs: tuple[GapFillingJob, ...],
    N: Affine,
    M: float,
) -> None:
    """Add what the paper has not: pinned and forbidden node counts."""
    pinned = [j for j, job in enumerate(jobs) if job.pinned_count is not None]
    if pinned:
        m.equal("pinned_count", N[np.array(pinned)], [float(jobs[j].pinned_count or 0) for j in pinned])
    pairs = [(j, count) for j, job in enumerate(jobs) for count in _barred(job, M)]
    if pairs:
        above = m.binary("above_forbidden", (len(pairs),))
        counts = np.array([count for _, count in pairs], dtype=np.float64)
        chosen = N[np.array([j for j, _ in pairs])]
        m.at_most("below_forbidden", chosen - (M + 1.0) * above, counts - 1.0)
        m.at_least("above_forbidden", chosen - (M + 1.0) * above, counts + 1.0 - (M + 1.0))


def _present(instance: GapFillingInstance) -> NDArray[np.float64]:
    position = {node: n for n, node in enumerate(instance.nodes)}
    c = np.zeros((len(instance.jobs), len(instance.nodes)))
    for j, job in enumerate(instance.jobs):
        c[j, [position[node] for node in job.current_nodes]] = 1.0
    return c


def _barred(job: GapFillingJob, most: float) -> list[int]:
    """Return the node counts below a number that a job may not have though they are within its range."""
    barred = {count for count in job.forbidden_counts if count < most}
    if job.allowed_counts is not UNSET:
        barred |= set(range(job.min_nodes, min(job.max_nodes, int(most) - 1) + 1)).difference(
            job.allowed_counts
        )
    return sorted(barred)


def _present_rates(jobs: tuple[GapFillingJob, ...]) -> NDArray[np.float64]:
    return np.array(
        [
            np.interp(len(job.current_nodes), job.scaling.nodes, job.scaling.rate)
            if len(job.current_nodes) >= job.min_nodes
            else 0.0
            for job in jobs
        ],
        dtype=np.float64,
    )


def _curves(
    jobs: tuple[GapFillingJob, ...],
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    sizes = [len(job.scaling.nodes) for job in jobs]
    offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
    breakpoints = np.array([n for job in jobs for n in job.scaling.nodes], dtype=np.float64)
    throughput = np.array([o for job in jobs for o in job.scaling.rate], dtype=np.float64)
    return offsets, breakpoints, throughput


def _point(
    instance: GapFillingInstance, model: LinearModel, held: list[list[str]]
) -> NDArray[np.float64] | None:
    jobs = instance.jobs
    position = {node: n for n, node in enumerate(instance.nodes)}
    c = _present(instance)
    x = np.zeros_like(c)
    for j, nodes in enumerate(held):
        if any(node not in position for node in nodes):
            return None
        x[j, [position[node] for node in nodes]] = 1.0
    count, present = x.sum(axis=1), c.sum(axis=1)
    offsets, breakpoints, _ = _curves(jobs)
    w, s = np.zeros(breakpoints.size), np.zeros(breakpoints.size - len(jobs))
    for j in range(len(jobs)):
        points = breakpoints[offsets[j] : offsets[j + 1]]
        right = int(np.clip(np.searchsorted(points, count[j]), 1, points.size - 1))
        share = (count[j] - points[right - 1]) / (points[right] - points[right - 1])
        w[offsets[j] + right - 1], w[offsets[j] + right] = 1.0 - share, share
        s[offsets[j] - j + right - 1] = 1.0
    values: dict[str, NDArray[np.float64]] = {
        "x": x.ravel(),
        "u": np.abs(x - c).ravel(),
        "z": (count == 0).astype(np.float64),
        "z_max": np.zeros(len(jobs)),
        "y": (count < present).astype(np.float64),
        "a": (count > present).astype(np.float64),
        "b": (count < present).astype(np.float64),
        "w": w,
        "s": s,
        "above_forbidden": np.array(
            [
                float(count[j] > forbidden)
                for j, job in enumerate(jobs)
                for forbidden in _barred(job, len(instance.nodes) + 1)
            ]
        ),
    }
    point = np.zeros(model.num_columns)
    for block in model.variables:
        point[block.start : block.stop] = values[block.name]
    return point
