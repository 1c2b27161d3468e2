"""Gap filling by node count: a multiple-choice knapsack with one capacity, the idle nodes.

Nodes are interchangeable, so the published MILP's no-migration and one-job-per-node rows can be met for any
counts that fit; what remains is one option per job, its node count (derivation: BFTrainer, arXiv:2106.12091,
whose node-indexed model is in `by_node`).

==============  ===================================================================================
here            in the paper
==============  ===================================================================================
horizon         T_fwd, forward-looking time, seconds
C_j             current number of nodes of job j
rate_j(n)       O_j, throughput at n nodes, piecewise linear, samples per second
up_j, down_j    R_j^up, R_j^dw, seconds without progress after growing or shrinking
n in menu_j     {0} and N_j^min..min(N_j^max, |N|)
==============  ===================================================================================

    maximise    sum_j w_j (horizon rate_j(n_j) - rate_j(C_j) (up_j [n_j > C_j] + down_j [n_j < C_j]))
    subject to  sum_j n_j <= |N|,   n_j in menu_j,   rate_j(C_j) := 0 where C_j < N_j^min

From node counts to nodes: a growing job keeps its nodes, a shrinking one a subset, nobody migrates.

Nodes are interchangeable, so any counts that fit the idle nodes can be completed this way; this is why the
node-indexed MILP of BFTrainer collapses to counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from fractions import Fraction
from itertools import islice, pairwise
from typing import Any

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from apportion.formulations.protocol import Plan
from apportion.instances.draft import with_jobs
from apportion.instances.gap_filling import GapFillingInstance, GapFillingJob
from apportion.instances.gap_filling.check import exact_job_values
from apportion.models.lowering import Lowered, OptionLabels, lower
from apportion.models.multiple_choice import MultipleChoiceKnapsack, Present
from apportion.models.splice import difference

__all__ = ["GapFillingByCount", "complete"]


def complete(instance: GapFillingInstance, counts: Sequence[int]) -> dict[str, list[str]]:
    """Return the nodes of every job that gets any.

    Parameters
    ----------
    instance
        Idle nodes and current holders.
    counts
        Nodes per job, in job order; their sum is at most the number of idle nodes.

    Returns
    -------
    dict
        Job id to node names. Kept nodes come first in their present order; new ones follow in the order
        of the instance's node list, so the same counts always give the same nodes.
    """
    kept = [list(job.current_nodes[:count]) for job, count in zip(instance.jobs, counts, strict=True)]
    taken = {node for nodes in kept for node in nodes}
    free: Iterator[str] = (node for node in instance.nodes if node not in taken)
    allocation: dict[str, list[str]] = {}
    for job, nodes, count in zip(instance.jobs, kept, counts, strict=True):
        missing = count - len(nodes)
        if missing > 0:
            nodes.extend(islice(free, missing))
        if nodes:
            allocation[job.id] = nodes
    return allocation


_ROUNDING = 16 * float(np.finfo(np.float64).eps)
"""Relative rounding of one compiled value: fewer than sixteen operations of half an ulp each."""


class GapFillingByCount:
    """The knapsack of a gap-filling instance, and the way back to nodes.

    Attributes
    ----------
    instance
        What was compiled.
    model
        One option per job and admissible node count; every job is required, 0 nodes being an option.
    counts
        int64 [options]: the node count of each option; ascending within a job.
    largest
        float64 [jobs]: the largest magnitude that goes into a value of the job.
    value_error
        Bound on the rounding of any sum of compiled values, one per job.
    """

    __slots__ = ("counts", "instance", "largest", "model", "value_error")

    def __init__(self, instance: GapFillingInstance) -> None:
        self.instance = instance
        jobs = instance.jobs
        idle = len(instance.nodes)
        low = np.array([job.min_nodes for job in jobs], dtype=np.int64)
        top = np.minimum(np.array([job.max_nodes for job in jobs], dtype=np.int64), idle)
        sizes = 1 + np.maximum(top - low + 1, 0)
        offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
        job_of = np.repeat(np.arange(len(jobs)), sizes)
        position = np.arange(offsets[-1]) - offsets[job_of]
        counts = np.where(position == 0, 0, low[job_of] + position - 1)
        current = np.array([len(job.current_nodes) for job in jobs], dtype=np.int64)
        rate, running = _rates(instance, top, current, low, job_of, counts)
        weight = np.array([job.weight for job in jobs], dtype=np.float64)
        up = running * np.array([job.rescale_up_s for job in jobs], dtype=np.float64)
        down = running * np.array([job.rescale_down_s for job in jobs], dtype=np.float64)
        gain = instance.horizon_s * rate
        stall = np.where(counts > current[job_of], up[job_of], 0.0)
        stall += np.where(counts < current[job_of], down[job_of], 0.0)
        values = weight[job_of] * (gain - stall)
        largest = np.zeros(len(jobs))
        np.maximum.at(largest, job_of, weight[job_of] * (gain + stall))
        self.largest = largest
        self.value_error = _ROUNDING * float(largest.sum())
        kept = _admissible(instance, job_of, counts)
        if kept is not None:
            values, counts = values[kept], counts[kept]
            offsets = np.concatenate(([0], np.cumsum(np.bincount(job_of[kept], minlength=len(jobs)))))
        self.counts = counts
        self.model = MultipleChoiceKnapsack.from_arrays(
            values, counts.reshape(-1, 1), offsets.astype(np.int64), [idle], capacity_names=("idle_nodes",)
        )

    def patched(self, instance: GapFillingInstance) -> GapFillingByCount | None:
        """Return the formulation of a changed instance, made of this one; ``None`` where little stays.

        This one is given up: its arrays may be written to. The number of idle nodes matters to the menus of
        jobs that could use more than there are.
        """
        earlier = self.instance
        if instance.horizon_s != earlier.horizon_s:
            return None
        idle = len(instance.nodes)
        stale = None
        if idle != len(earlier.nodes):
            fewest = min(idle, len(earlier.nodes))
            stale = np.array([job.max_nodes > fewest for job in earlier.jobs], dtype=np.bool_)
        capacities = np.array([idle], dtype=np.int64)
        if instance.jobs is earlier.jobs and (stale is None or not stale.any()):
            other = copy(self)
            other.instance, other.model = instance, self.model.with_capacities(capacities)
            return other
        splice = difference(earlier.jobs, instance.jobs, stale)
        if len(splice.fresh) > len(instance.jobs) // 2:
            return None
        fresh = GapFillingByCount(with_jobs(instance, [instance.jobs[at] for at in splice.fresh]))
        other = copy(self)
        other.instance = instance
        offsets = self.model.offsets, fresh.model.offsets
        other.counts = splice.rows(self.counts, fresh.counts, *offsets)
        other.largest = splice.jobs(self.largest, fresh.largest)
        other.value_error = _ROUNDING * float(other.largest.sum())
        other.model = self.model.spliced(splice, fresh.model, capacities)
        return other

    def exact_values(self) -> list[Fraction]:
        """Return what every count is worth in rational arithmetic."""
        horizon, jobs = Fraction(self.instance.horizon_s), self.instance.jobs
        counts, menus = self.counts.tolist(), pairwise(self.model.offsets.tolist())
        return [
            value
            for job, (first, last) in zip(jobs, menus, strict=True)
            for value in exact_job_values(job, horizon, counts[first:last])
        ]

    def plan(self, choice: NDArray[np.int64]) -> Plan:
        """Return ``{"allocation": {job: [node, ...]}}`` for one chosen option per job."""
        return {"allocation": complete(self.instance, self.counts[choice].tolist())}

    def choice(self, plan: Any) -> NDArray[np.int64] | None:
        """Return the options with as many of the plan's nodes as are idle still; -1 where not in the menu."""
        allocation = plan.get("allocation") if isinstance(plan, Mapping) else None
        if not isinstance(allocation, Mapping):
            return None
        held = [allocation.get(job.id, ()) for job in self.instance.jobs]
        idle = set(self.instance.nodes)
        wanted = [
            sum(isinstance(node, str) and node in idle for node in nodes)
            if isinstance(nodes, list | tuple)
            else 0
            for nodes in held
        ]
        return self._rows(np.array(wanted, dtype=np.int64))

    def present(self) -> Present | None:
        """Return each job's option with its current node count; ``None`` if none holds any."""
        if not any(job.current_nodes for job in self.instance.jobs):
            return None
        held = np.array([len(job.current_nodes) for job in self.instance.jobs], dtype=np.int64)
        return Present.of(self._rows(held), self.counts == 0)

    def lowered(self) -> Lowered:
        """Return the count MILP, its columns named ``x[job,count]``."""
        jobs = [job.id for job in self.instance.jobs]
        labels = OptionLabels(self.model.offsets, jobs, _CountNames(self.counts))
        return lower(self.model, labels, jobs)

    def job_names(self) -> Sequence[str]:
        """Return the jobs' ids."""
        return tuple(job.id for job in self.instance.jobs)

    def option_name(self, row: int) -> str:
        """Return the option's node count in digits."""
        return str(self.counts[row])

    def demand(self) -> MultipleChoiceKnapsack:
        """Return one option per job, its least admissible count; none where pin and bans leave none."""
        least = [_least_count(job) for job in self.instance.jobs]
        uses = np.array([count for count in least if count is not None], dtype=np.int64)
        sizes = [0 if count is None else 1 for count in least]
        return MultipleChoiceKnapsack.from_arrays(
            np.zeros(uses.size),
            uses.reshape(-1, 1),
            np.concatenate(([0], np.cumsum(sizes))).astype(np.int64),
            self.model.capacities,
            capacity_names=self.model.capacity_names,
        )

    def _rows(self, wanted: NDArray[np.int64]) -> NDArray[np.int64]:
        offsets = self.model.offsets
        wanted_of_option = np.repeat(wanted, np.diff(offsets))
        rows = np.full(wanted.size, -1, dtype=np.int64)
        hits = np.flatnonzero(self.counts == wanted_of_option)
        rows[np.searchsorted(offsets, hits, side="right") - 1] = hits
        return rows


class _CountNames(Sequence[str]):
    """The node counts of the options as names, made on demand."""

    def __init__(self, counts: NDArray[np.int64]) -> None:
        self._counts = counts

    def __len__(self) -> int:
        return int(self._counts.size)

    def __getitem__(self, position: Any) -> Any:
        return str(self._counts[position])


def _least_count(job: GapFillingJob) -> int | None:
    forbidden = set(job.forbidden_counts)
    if job.pinned_count is not None:
        return job.pinned_count if job.allows(job.pinned_count) else None
    if 0 not in forbidden:
        return 0
    if job.allowed_counts is not UNSET:
        return min((count for count in job.allowed_counts if count not in forbidden), default=None)
    # one of the first len(forbidden) + 1 counts is not forbidden, if the job reaches that far
    reach = range(job.min_nodes, min(job.max_nodes, job.min_nodes + len(forbidden)) + 1)
    return next((count for count in reach if count not in forbidden), None)


def _rates(
    instance: GapFillingInstance,
    top: NDArray[np.int64],
    current: NDArray[np.int64],
    low: NDArray[np.int64],
    job_of: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the rate of every option and of every job as it runs now; equal curves are tabulated once."""
    index: dict[tuple[tuple[int, ...], tuple[float, ...]], int] = {}
    curve = np.array(
        [
            index.setdefault((tuple(job.scaling.nodes), tuple(job.scaling.rate)), len(index))
            for job in instance.jobs
        ],
        dtype=np.int64,
    )
    reach = np.zeros(len(index), dtype=np.int64)
    np.maximum.at(reach, curve, np.maximum(top, current))
    start = np.concatenate(([0], np.cumsum(reach + 1))).astype(np.int64)
    table = _interpolated(reach, start, list(index)) if index else np.zeros(0)
    running = np.where(current >= low, table[start[curve] + current], 0.0) if curve.size else np.zeros(0)
    return table[start[curve[job_of]] + counts], running


def _interpolated(
    reach: NDArray[np.int64],
    start: NDArray[np.int64],
    curves: Sequence[tuple[Sequence[int], Sequence[float]]],
) -> NDArray[np.float64]:
    """Return the rates of all curves on every count up to their reach, one behind another from `start` on.

    Between points they are sums of two amounts that cannot cancel.
    """
    at = np.array([node for nodes, _ in curves for node in nodes], dtype=np.int64)
    known = np.array([value for _, rate in curves for value in rate], dtype=np.float64)
    ends = np.cumsum([len(nodes) for nodes, _ in curves])
    first = np.concatenate(([0], ends[:-1]))
    span = int(max(at.max(), reach.max())) + 1  # behind one another, the points of all curves rise
    curve = np.repeat(np.arange(len(curves)), reach + 1)
    count = np.arange(start[-1]) - start[curve]
    points = at + np.repeat(np.arange(len(curves)), ends - first) * span
    right = np.minimum(np.searchsorted(points, count + curve * span), ends[curve] - 1)
    left = np.maximum(right - 1, first[curve])
    above, below = at[right] - count, count - at[left]
    between = np.flatnonzero((above > 0) & (right > left))
    rates: NDArray[np.float64] = known[right]
    above, below = above[between], below[between]
    mixed = above * known[left[between]] + below * known[right[between]]
    rates[between] = mixed / (above + below)
    return rates


def _admissible(
    instance: GapFillingInstance, job_of: NDArray[np.int64], counts: NDArray[np.int64]
) -> NDArray[np.bool_] | None:
    """Return which options pins and forbidden counts leave, or ``None`` if no job has any."""
    special = [
        (index, job)
        for index, job in enumerate(instance.jobs)
        if job.pinned_count is not None or job.forbidden_counts or job.allowed_counts is not UNSET
    ]
    if not special:
        return None
    kept = np.ones(counts.size, dtype=np.bool_)
    for index, job in special:
        own = job_of == index
        if job.pinned_count is not None:
            kept &= ~own | (counts == job.pinned_count)
        kept &= ~(own & np.isin(counts, np.array(job.forbidden_counts, dtype=np.int64)))
        if job.allowed_counts is not UNSET:
            kept &= ~own | np.isin(counts, np.array([0, *job.allowed_counts], dtype=np.int64))
    return kept
