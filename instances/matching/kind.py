"""Matching in the table of kinds."""

from __future__ import annotations

from msgspec.structs import replace

from apportion.instances.kind import Kind, Wording
from apportion.instances.matching import meaning
from apportion.instances.matching.edits import EDITS
from apportion.instances.matching.schema import MatchingInstance, MatchingJob

__all__ = ["MATCHING"]


def _in_id_order(instance: MatchingInstance) -> MatchingInstance:
    """Sort the jobs, the machines, and the machines that each job names."""
    jobs = tuple(sorted(map(_machines_in_order, instance.jobs), key=lambda job: job.id))
    machines = tuple(sorted(instance.machines, key=lambda machine: machine.id))
    same = all(old is new for old, new in zip(instance.jobs, jobs, strict=True))
    if same and machines == instance.machines:
        return instance
    return replace(instance, machines=machines, jobs=jobs)


def _machines_in_order(job: MatchingJob) -> MatchingJob:
    names = sorted(job.on)
    return job if names == list(job.on) else replace(job, on={name: job.on[name] for name in names})


MATCHING = Kind(
    "matching",
    MatchingInstance,
    lambda instance: bool(instance.objective == "value"),
    meaning.check,
    meaning.exact_objective,
    meaning.exact_bound,
    in_id_order=_in_id_order,
    measure=lambda instance: str(instance.objective),
    edits=EDITS,
    wording=Wording(units={"makespan": " s"}, node="machine", runs=True),
)
