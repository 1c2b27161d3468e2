"""What a gap-filling plan means: the rules it must keep, its objective, and the weak-duality bound.

Nothing here is shared with a formulation or a solver. The objective is that of BFTrainer's allocator:
``sum_j weight_j (horizon rate_j(n_j) - rate_j(c_j) (up_j [n_j > c_j] + down_j [n_j < c_j]))`` with c_j the
current node count and rate_j(c_j) = 0 where c_j < min_nodes_j.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from msgspec import UNSET

from apportion.core.outcome import Report, Violation
from apportion.instances.gap_filling.schema import GapFillingInstance, GapFillingJob, ScalingCurve

__all__ = ["CAPACITY", "check", "exact_job_value", "exact_job_values", "exact_objective", "rate_at"]

CAPACITY = "idle_nodes"
"""The one capacity of the problem, as it is named in multipliers."""
_ROUNDING = 16 * 2.0**-52
_SEEN = 1e-13
"""Rounding of no more than this part of the objective is left as it is."""


def check(instance: GapFillingInstance, plan: Any) -> Report:
    """Check ``{"allocation": {job: [node, ...]}}`` and recompute its objective; absent jobs get no node."""
    allocation = plan.get("allocation") if isinstance(plan, Mapping) else None
    if not isinstance(allocation, Mapping) or set(plan) != {"allocation"}:
        return _malformed("plan", 'must be {"allocation": {job: [node, ...]}}')
    for job_id, held in allocation.items():
        if not isinstance(held, list | tuple) or not all(isinstance(node, str) for node in held):
            return _malformed(str(job_id), "must be given a list of node names")
    violations = list(_strangers(instance, allocation)) + list(_node_conflicts(instance, allocation))
    for job in instance.jobs:
        violations.extend(_job_violations(job, allocation.get(job.id, ())))
    counts = [len(set(allocation.get(job.id, ()))) for job in instance.jobs]
    return Report(_objective(instance, counts), tuple(violations))


def exact_objective(instance: GapFillingInstance, plan: Mapping[str, Any]) -> Fraction:
    """Return the objective of a feasible plan in rational arithmetic."""
    allocation = plan["allocation"]
    return sum(
        (
            exact_job_value(job, Fraction(instance.horizon_s), len(allocation.get(job.id, ())))
            for job in instance.jobs
        ),
        Fraction(0),
    )


def _malformed(subject: str, message: str) -> Report:
    return Report(None, (Violation("shape", subject, message),))


def _strangers(instance: GapFillingInstance, allocation: Mapping[str, Any]) -> Iterator[Violation]:
    known = {job.id for job in instance.jobs}
    for job_id in allocation:
        if job_id not in known:
            yield Violation("known_job", str(job_id), "is not a job of the instance")


def _node_conflicts(instance: GapFillingInstance, allocation: Mapping[str, Any]) -> Iterator[Violation]:
    idle = set(instance.nodes)
    holder: dict[str, str] = {}
    for job_id, held in allocation.items():
        for node in held:
            if node not in idle:
                yield Violation("idle_nodes", node, f"given to {job_id!r} but is not idle")
            elif node in holder:
                yield Violation("one_job_per_node", node, f"given to {holder[node]!r} and {job_id!r}")
            holder.setdefault(node, job_id)


def _job_violations(job: GapFillingJob, held: Any) -> Iterator[Violation]:
    count, kept, new = len(held), set(job.current_nodes) & set(held), set(held) - set(job.current_nodes)
    if count and count < job.min_nodes:
        yield Violation("min_nodes", job.id, f"gets {count} nodes, fewer than {job.min_nodes}")
    if count > job.max_nodes:
        yield Violation("max_nodes", job.id, f"gets {count} nodes, more than {job.max_nodes}")
    if new and len(kept) < len(job.current_nodes):
        lost = len(job.current_nodes) - len(kept)
        yield Violation("no_migration", job.id, f"gives up {lost} of its nodes and takes {len(new)} others")
    if job.pinned_count is not None and count != job.pinned_count:
        yield Violation("pinned_count", job.id, f"gets {count} nodes, is pinned to {job.pinned_count}")
    if count in job.forbidden_counts:
        yield Violation("forbidden_counts", job.id, f"gets {count} nodes, which is forbidden")
    if count and job.allowed_counts is not UNSET and count not in job.allowed_counts:
        yield Violation("allowed_counts", job.id, f"gets {count} nodes, which is not among what it may have")


def _objective(instance: GapFillingInstance, counts: Sequence[int]) -> float:
    """Return the objective of node counts; exactly, then rounded, where the rounding of terms would show.

    A term is the difference of a gain and a loss. Each takes fewer than sixteen roundings of half an ulp of
    itself, and `math.fsum` adds them up exactly.
    """
    terms = [_job_terms(job, instance.horizon_s, n) for job, n in zip(instance.jobs, counts, strict=True)]
    total = math.fsum(gain - loss for gain, loss in terms)
    size = math.fsum(gain + loss for gain, loss in terms)
    if _ROUNDING * size <= _SEEN * abs(total):
        return total
    horizon = Fraction(instance.horizon_s)
    exact = (exact_job_value(job, horizon, n) for job, n in zip(instance.jobs, counts, strict=True))
    return float(sum(exact, Fraction(0)))


def _job_terms(job: GapFillingJob, horizon: float, count: int) -> tuple[float, float]:
    """Return what a node count gains, and what rescaling to it loses; both at least 0."""
    current = len(job.current_nodes)
    stall = job.rescale_up_s if count > current else job.rescale_down_s if count < current else 0.0
    running = rate_at(job.scaling, current) if current >= job.min_nodes else 0.0
    return job.weight * horizon * rate_at(job.scaling, count), job.weight * running * stall


def rate_at(curve: ScalingCurve, count: int) -> float:
    """Return the throughput at a node count, linear between the points of the curve."""
    right = bisect_left(curve.nodes, count)
    if right == len(curve.nodes):
        return curve.rate[-1]
    if curve.nodes[right] == count:
        return curve.rate[right]
    left = right - 1
    above, below = curve.nodes[right] - count, count - curve.nodes[left]
    # a sum of two amounts: `left + share * (right - left)` would cancel where the curve falls
    return (above * curve.rate[left] + below * curve.rate[right]) / (above + below)


def exact_job_value(job: GapFillingJob, horizon: Fraction, count: int) -> Fraction:
    """Return what a job adds to the objective on a number of nodes, exactly."""
    return next(exact_job_values(job, horizon, (count,)))


def exact_job_values(job: GapFillingJob, horizon: Fraction, counts: Iterable[int]) -> Iterator[Fraction]:
    """Yield what a job adds to the objective on numbers of nodes, exactly."""
    weight, current = Fraction(job.weight), len(job.current_nodes)
    running = weight * _exact_rate(job.scaling, current) if current >= job.min_nodes else Fraction(0)
    up, down = running * Fraction(job.rescale_up_s), running * Fraction(job.rescale_down_s)
    gained = weight * horizon
    for count in counts:
        stalled = up if count > current else down if count < current else Fraction(0)
        yield gained * _exact_rate(job.scaling, count) - stalled


def _exact_rate(curve: ScalingCurve, count: int) -> Fraction:
    right = bisect_left(curve.nodes, count)
    if right == len(curve.nodes) or curve.nodes[right] == count:
        return Fraction(curve.rate[min(right, len(curve.nodes) - 1)])
    left = right - 1
    low, high = Fraction(curve.rate[left]), Fraction(curve.rate[right])
    return low + (high - low) * Fraction(count - curve.nodes[left], curve.nodes[right] - curve.nodes[left])
