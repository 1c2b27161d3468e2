"""What every job has in a plan, and what it is worth there, by kind of instance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from apportion.explanation.variants import compiled
from apportion.instances.matching import MatchingInstance
from apportion.instances.matching.schedule import schedule

__all__ = ["sense_of", "shares"]


def sense_of(instance: Any) -> Literal["maximize", "minimize"]:
    """Return whether more of the objective is better."""
    if isinstance(instance, MatchingInstance):
        return "maximize" if instance.objective == "value" else "minimize"
    return compiled(instance).model.sense


def shares(instance: Any, plan: Any) -> dict[str, tuple[str | None, float]]:
    """Return the option of every job and its part of the objective; of a makespan, when the job ends."""
    if isinstance(instance, MatchingInstance):
        return _matched(instance, plan)
    structure = compiled(instance)
    rows = structure.choice(plan)
    assert rows is not None
    values = structure.model.values
    return {
        name: (None, 0.0) if row < 0 else (structure.option_name(row), float(values[row]))
        for name, row in zip(structure.job_names(), rows.tolist(), strict=True)
    }


def _matched(instance: MatchingInstance, plan: Mapping[str, Any]) -> dict[str, tuple[str | None, float]]:
    if instance.divisible:
        told: dict[str, tuple[str | None, float]] = {}
        for job in instance.jobs:
            held = {pool: part for pool, part in plan["fractions"][job.id].items() if part > 0}
            speed = sum(part / float(job.on[pool].time_s or 1.0) for pool, part in held.items())
            parts = " and ".join(f"{100 * part:.3g} % of {pool}" for pool, part in sorted(held.items()))
            told[job.id] = parts or None, 1.0 / speed if speed else 0.0
        return told
    if instance.objective == "makespan":
        placed = schedule(instance, plan)
        return {job.id: (placed[job.id].pool, placed[job.id].end) for job in instance.jobs}
    chosen = plan["assignment"]
    return {
        job.id: (None, 0.0)
        if (pool := chosen.get(job.id)) is None
        else (pool, float(getattr(job.on[pool], instance.field)))
        for job in instance.jobs
    }
