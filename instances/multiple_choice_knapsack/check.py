"""What a multiple-choice knapsack plan means: the rules and the objective."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from msgspec import UNSET

from apportion.core.outcome import Report, Violation
from apportion.core.solution import MAX_CHANGES
from apportion.instances.multiple_choice_knapsack.schema import (
    KnapsackJob,
    KnapsackOption,
    MultipleChoiceKnapsackInstance,
)

__all__ = ["check", "exact_objective"]


def check(instance: MultipleChoiceKnapsackInstance, plan: Any) -> Report:
    """Check ``{"choice": {job: option}}`` and recompute its objective; absent jobs are left out."""
    choice = plan.get("choice") if isinstance(plan, Mapping) else None
    if not isinstance(choice, Mapping) or set(plan) != {"choice"}:
        return Report(None, (Violation("shape", "plan", 'must be {"choice": {job: option}}'),))
    violations: list[Violation] = []
    known = {job.id for job in instance.jobs}
    for job_id in choice:
        if job_id not in known:
            violations.append(Violation("known_job", str(job_id), "is not a job of the instance"))
    used = dict.fromkeys(instance.capacities, 0)
    values: list[float] = []
    for job in instance.jobs:
        named = choice.get(job.id)
        option = None if named is None else _option(job, named)
        if option is None or job.pinned is not None or job.forbidden:
            violations.extend(_job_violations(job, named, option))
        if option is not None:
            values.append(option.value)
            for name, use in option.uses.items():
                used[name] += use
    for name, capacity in instance.capacities.items():
        if used[name] > capacity:
            violations.append(Violation("capacity", name, f"uses {used[name]} of {capacity}"))
    if instance.max_changes is not UNSET:
        changed = sum(job.current is not None and choice.get(job.id) != job.current for job in instance.jobs)
        if changed > instance.max_changes:
            said = f"changes {changed} jobs, {instance.max_changes} at most may change"
            violations.append(Violation(MAX_CHANGES, "plan", said))
    return Report(math.fsum(values), tuple(violations))


def exact_objective(instance: MultipleChoiceKnapsackInstance, plan: Mapping[str, Any]) -> Fraction:
    """Return the objective of a feasible plan in rational arithmetic."""
    chosen = (_option(job, plan["choice"].get(job.id)) for job in instance.jobs)
    return sum((Fraction(option.value) for option in chosen if option is not None), Fraction(0))


def _option(job: KnapsackJob, named: Any) -> KnapsackOption | None:
    for option in job.options:  # a generator takes twice as long, for every job of every plan
        if option.id == named:
            return option
    return None


def _job_violations(job: KnapsackJob, named: Any, option: KnapsackOption | None) -> Iterator[Violation]:
    if named is None:
        if job.required:
            yield Violation("required", job.id, "must get one of its options")
        elif job.pinned is not None:
            yield Violation("pinned", job.id, f"is left out, is pinned to {job.pinned!r}")
        return
    if option is None:
        yield Violation("option", job.id, f"{named!r} is not in its menu")
        return
    if job.pinned is not None and named != job.pinned:
        yield Violation("pinned", job.id, f"gets {named!r}, is pinned to {job.pinned!r}")
    if named in job.forbidden:
        yield Violation("forbidden", job.id, f"gets {named!r}, which is forbidden")
