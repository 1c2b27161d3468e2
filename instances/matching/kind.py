"""Matching in the table of kinds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from apportion.instances.kind import Kind, Wording
from apportion.instances.matching import meaning
from apportion.instances.matching.edits import EDITS
from apportion.instances.matching.schema import MatchingInstance, MatchingJob
from apportion.instances.matching.sharing import OFFERING

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


def _menu(job: MatchingJob) -> Iterator[dict[str, Any]]:
    for machine, entry in job.on.items():
        fields = {name: getattr(entry, name) for name in entry.__struct_fields__}
        yield {"machine": machine, **{name: value for name, value in fields.items() if value is not None}}


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
    offering=OFFERING,
    menu=_menu,
    menu_field="on",
    wording=Wording(units={"makespan": " s"}, node="machine", runs=True),
)
