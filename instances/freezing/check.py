"""What a layer-freezing plan means: the rules it must keep, and its objective.

Nothing here is shared with a formulation or a solver. With x = r EP / ref, a configuration is worth

    v = weight x^p,    p > 0: the sum is maximised, p < 0: minimised;    a job with nothing adds lambda,

the form of Sia's objective (SOSP 2023, section 3.3) over effective progress. r is Sia's restart factor where
GPU type or count change, (T - N S) / (T + S) and at least 0; max(0, 1 - rebuild_s / round_s) where only the
depth changes; 1 otherwise, also for a job that does not run yet. A power is irrational: v is *defined* as the
double that IEEE arithmetic and the C library's pow give, in the order written here, and everything after it
is exact: sums, capacities and budgets are rational. A configuration with x = 0 is inadmissible where p < 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from apportion.core.outcome import Report, Violation
from apportion.instances.freezing.nodes import node_violations
from apportion.instances.freezing.schema import PENALTY, FreezingInstance, FreezingJob, FreezingRow
from apportion.instances.options import Option

__all__ = [
    "capacities_of",
    "check",
    "configuration_name",
    "configurations",
    "exact_objective",
    "offered",
    "value_of",
]

_KEYS = {"gpu_type", "gpus", "depth"}
_SHAPE = '{"gpu_type", "gpus", "depth"} and, where nodes have a size, "nodes"'


class _Entry(NamedTuple):
    row: FreezingRow
    depth: int
    progress: float
    penalty: int

    def __str__(self) -> str:
        return f"{self.row.gpus} x {self.row.gpu_type} with {self.depth} frozen layers"


def check(instance: FreezingInstance, plan: Any) -> Report:
    """Check ``{"configuration": {job: {"gpu_type", "gpus", "depth", "nodes"}}}``; absent jobs get nothing.

    ``nodes`` may be left out; see `apportion.instances.freezing.nodes.node_violations`.
    """
    chosen = plan.get("configuration") if isinstance(plan, Mapping) else None
    if not isinstance(chosen, Mapping) or set(plan) != {"configuration"}:
        return _malformed("plan", f'must be {{"configuration": {{job: {_SHAPE}}}}}')
    for job_id, configuration in chosen.items():
        if not isinstance(configuration, Mapping) or configuration.keys() - {"nodes"} != _KEYS:
            return _malformed(str(job_id), f"must be given {_SHAPE}")
    known = {job.id for job in instance.jobs}
    violations = [
        Violation("known_job", str(job_id), "is not a job of the instance")
        for job_id in chosen
        if job_id not in known
    ]
    used = _capacities(instance, 0)
    terms: list[float] = []
    placed: dict[str, Mapping[str, Any]] = {}
    for job in instance.jobs:
        configuration = chosen.get(job.id)
        if configuration is None:
            if job.required:
                violations.append(Violation("required", job.id, "must get GPUs"))
            terms.append(instance.queue_penalty)
            continue
        reference = _reference(job)
        entry = _find(job, configuration)
        if entry is None:
            violations.append(Violation("menu", job.id, f"{dict(configuration)} is not in its menu"))
            continue
        violations.extend(_broken(instance, job, entry, reference))
        placed[job.id] = configuration
        for name, use in _uses(instance, entry).items():
            used[name] += use
        value = _value(instance, job, entry, reference)
        if value is not None:
            terms.append(value)
    for name, capacity in _capacities(instance, None).items():
        if used[name] > capacity:
            violations.append(Violation("capacity", name, f"uses {used[name]} of {capacity}"))
            placed = {
                job: configuration
                for job, configuration in placed.items()
                if configuration["gpu_type"] != name
            }
    violations.extend(node_violations(instance, placed))
    return Report(math.fsum(terms), tuple(violations))


def exact_objective(instance: FreezingInstance, plan: Mapping[str, Any]) -> Fraction:
    """Return the objective of a feasible plan: the exact sum of the values as doubles."""
    total = Fraction(0)
    for job in instance.jobs:
        configuration = plan["configuration"].get(job.id)
        entry = None if configuration is None else _find(job, configuration)
        value = instance.queue_penalty if entry is None else _value(instance, job, entry, _reference(job))
        total += Fraction(0 if value is None else value)
    return total


def configurations(
    instance: FreezingInstance, job: FreezingJob
) -> Iterator[tuple[str, int, float, dict[str, int]]]:
    """Yield a job's admissible configurations: GPU type, GPUs, value as a double, uses by capacity."""
    for entry, value in _admissible(instance, job, _reference(job)):
        yield entry.row.gpu_type, entry.row.gpus, value, _uses(instance, entry)


def offered(instance: FreezingInstance, job: FreezingJob) -> Iterator[Option]:
    """Yield what a job may get, as tenants see it; its rate is r EP / ref."""
    reference, now = _reference(job), job.current
    for entry, value in _admissible(instance, job, reference):
        name = configuration_name(entry.row.gpu_type, entry.row.gpus, entry.depth)
        rate = _restart_factor(instance, job, entry) * entry.progress / reference
        holds = now is not None and (now.gpu_type, now.gpus) == (entry.row.gpu_type, entry.row.gpus)
        yield Option(name, _uses(instance, entry), value, rate, holds)
    if not job.required:
        yield Option("waiting", {}, instance.queue_penalty, 0.0, idle=True)


def configuration_name(gpu_type: str, gpus: int, depth: int) -> str:
    """Return how a configuration is called in explanations."""
    return f"{gpus}x{gpu_type}, {depth} layers frozen"


def value_of(
    instance: FreezingInstance, job: FreezingJob, gpu_type: str, gpus: int, depth: int
) -> float | None:
    """Return the value of a configuration of a job's menu; ``None`` where it has none."""
    entry = _find(job, {"gpu_type": gpu_type, "gpus": gpus, "depth": depth})
    return None if entry is None else _value(instance, job, entry, _reference(job))


def capacities_of(instance: FreezingInstance) -> dict[str, int]:
    """Return every capacity by name: the GPUs of each type, and the penalty cap where there is one."""
    return _capacities(instance, None)


def _reference(job: FreezingJob) -> float:
    """Return the effective progress that counts as 1: as given, else the least positive one of the menu."""
    if job.reference_progress is not None:
        return job.reference_progress
    least = job.menu_arrays.least
    return 1.0 if least is None else least


def _value(instance: FreezingInstance, job: FreezingJob, entry: _Entry, reference: float) -> float | None:
    """Return weight (r EP / ref)^p as a double; ``None`` where that is infinite."""
    ratio = _restart_factor(instance, job, entry) * entry.progress / reference
    if ratio == 0.0:
        return 0.0 if instance.power > 0 else None
    return float(job.weight * math.pow(ratio, instance.power))


def _restart_factor(instance: FreezingInstance, job: FreezingJob, entry: _Entry) -> float:
    now = job.current
    if now is None:
        return 1.0
    if (now.gpu_type, now.gpus) != (entry.row.gpu_type, entry.row.gpus):
        lived, lost = job.age_s, job.restart_s
        if lived + lost == 0.0:
            return 1.0
        return max(0.0, (lived - job.restarts * lost) / (lived + lost))
    if now.depth != entry.depth:
        return max(0.0, 1.0 - job.rebuild_s / instance.round_s)
    return 1.0


def _broken(
    instance: FreezingInstance, job: FreezingJob, entry: _Entry, reference: float
) -> Iterator[Violation]:
    """Yield what makes a configuration inadmissible by itself."""
    if job.max_depth is not None and entry.depth > job.max_depth:
        yield Violation("max_depth", job.id, f"gets {entry}, may freeze {job.max_depth} this round")
    if entry.depth > _affordable(instance, job):
        spent = Fraction(entry.depth, job.layers) * Fraction(instance.round_s)
        yield Violation(
            "accuracy_budget", job.id, f"gets {entry}: {float(spent):g} of {job.budget_frozen_s:g} s"
        )
    if not _fills_nodes(instance, entry.row):
        size = instance.gpus_per_node[entry.row.gpu_type]
        yield Violation("whole_nodes", job.id, f"gets {entry}, nodes have {size} GPUs")
    if _value(instance, job, entry, reference) is None:
        yield Violation("progress", job.id, f"gets {entry} without any effective progress")


def _admissible(
    instance: FreezingInstance, job: FreezingJob, reference: float
) -> Iterator[tuple[_Entry, float]]:
    """Yield the entries of a job's menu of which nothing is `_broken`, with their values."""
    deepest = _affordable(instance, job)
    if job.max_depth is not None:
        deepest = min(deepest, job.max_depth)
    for entry in _entries(job):
        if entry.depth <= deepest and _fills_nodes(instance, entry.row):
            value = _value(instance, job, entry, reference)
            if value is not None:
                yield entry, value


def _affordable(instance: FreezingInstance, job: FreezingJob) -> int:
    """Return the deepest depth that is within the accuracy budget for a round."""
    if job.budget_frozen_s is None:
        return job.layers
    return math.floor(Fraction(job.budget_frozen_s) * job.layers / Fraction(instance.round_s))


def _fills_nodes(instance: FreezingInstance, row: FreezingRow) -> bool:
    """Return whether so many GPUs lie on one node or fill whole ones."""
    size = instance.gpus_per_node.get(row.gpu_type)
    return size is None or row.gpus <= size or row.gpus % size == 0


def _find(job: FreezingJob, configuration: Mapping[str, Any]) -> _Entry | None:
    gpu_type, gpus, depth = configuration["gpu_type"], configuration["gpus"], configuration["depth"]
    if type(gpus) is not int or type(depth) is not int:
        return None
    for row in job.menu:
        if row.gpus == gpus and row.gpu_type == gpu_type and depth in row.depths:
            at = row.depths.index(depth)
            penalty = row.penalty_millionths[at] if row.penalty_millionths else 0
            return _Entry(row, depth, row.effective_progress[at], penalty)
    return None


def _entries(job: FreezingJob) -> Iterator[_Entry]:
    for row in job.menu:
        penalties = row.penalty_millionths or (0,) * len(row.depths)
        for depth, progress, penalty in zip(row.depths, row.effective_progress, penalties, strict=True):
            yield _Entry(row, depth, progress, penalty)


def _uses(instance: FreezingInstance, entry: _Entry) -> dict[str, int]:
    uses = {entry.row.gpu_type: entry.row.gpus}
    if instance.penalty_cap_millionths is not None:
        uses[PENALTY] = entry.penalty
    return uses


def _capacities(instance: FreezingInstance, start: int | None) -> dict[str, int]:
    """Return every capacity by name, or `start` for each."""
    capacities = dict(instance.gpus)
    if instance.penalty_cap_millionths is not None:
        capacities[PENALTY] = instance.penalty_cap_millionths
    return capacities if start is None else dict.fromkeys(capacities, start)


def _malformed(where: str, message: str) -> Report:
    return Report(None, (Violation("shape", where, message),))
