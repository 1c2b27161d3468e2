"""What a plan of licences means: ``{"licensed": {job: number of licences}}``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from apportion.core.outcome import Report, Violation
from tests.instances.licences.schema import LicenceInstance

__all__ = ["check", "exact_bound", "exact_objective"]


def check(instance: LicenceInstance, plan: Any) -> Report:
    """Check the plan and recompute its objective."""
    licensed = plan.get("licensed") if isinstance(plan, Mapping) else None
    if not isinstance(licensed, Mapping) or set(plan) != {"licensed"}:
        return Report(None, (Violation("shape", "plan", 'must be {"licensed": {job: number}}'),))
    jobs = {job.id: job for job in instance.jobs}
    broken = [
        Violation("number", str(name), "has not the licences it needs")
        for name, number in licensed.items()
        if name not in jobs or number != jobs[name].needs
    ]
    broken += [
        Violation("held", job.id, "must run") for job in instance.jobs if job.held and job.id not in licensed
    ]
    if not broken and sum(licensed.values()) > instance.licences:
        broken.append(Violation("capacity", "licences", "too few"))
    return Report(math.fsum(job.worth for job in instance.jobs if job.id in licensed), tuple(broken))


def exact_objective(instance: LicenceInstance, plan: Mapping[str, Any]) -> Fraction:
    """Return the objective of a feasible plan in rational arithmetic."""
    return sum((Fraction(job.worth) for job in instance.jobs if job.id in plan["licensed"]), Fraction(0))


def exact_bound(instance: LicenceInstance, multipliers: Mapping[str, float]) -> Fraction | None:
    """Return ``lambda C + sum_j max(v_j - lambda n_j, 0)``, without the 0 for a job that must run."""
    price = Fraction(multipliers["licences"])
    total = price * instance.licences
    for job in instance.jobs:
        net = Fraction(job.worth) - price * job.needs
        total += net if job.held else max(net, Fraction(0))
    return total
