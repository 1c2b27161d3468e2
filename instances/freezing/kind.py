"""Layer freezing in the table of kinds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from apportion.instances.freezing import meaning
from apportion.instances.freezing.edits import EDITS, WAITING
from apportion.instances.freezing.job import FreezingJob
from apportion.instances.freezing.offering import OFFERING
from apportion.instances.freezing.schema import FreezingInstance
from apportion.instances.kind import Kind, Wording

__all__ = ["FREEZING"]


def _in_id_order(instance: FreezingInstance) -> FreezingInstance:
    """Sort the jobs, the GPU types, and the rows of every menu by GPU type and count."""
    jobs = tuple(sorted(map(_rows_in_order, instance.jobs), key=lambda job: job.id))
    gpus = dict(sorted(instance.gpus.items()))
    same = all(old is new for old, new in zip(instance.jobs, jobs, strict=True))
    if same and list(gpus) == list(instance.gpus):
        return instance
    return replace(instance, jobs=jobs, gpus=gpus)


def _rows_in_order(job: FreezingJob) -> FreezingJob:
    menu = tuple(sorted(job.menu, key=lambda row: (row.gpu_type, row.gpus)))
    same = all(old is new for old, new in zip(job.menu, menu, strict=True))
    return job if same else replace(job, menu=menu)


def _menu(job: FreezingJob) -> Iterator[dict[str, Any]]:
    for row in job.menu:
        for at, (depth, progress) in enumerate(zip(row.depths, row.effective_progress, strict=True)):
            place = {"gpu_type": row.gpu_type, "gpus": row.gpus, "depth": depth}
            penalty = {"penalty_millionths": row.penalty_millionths[at]} if row.penalty_millionths else {}
            yield {**place, "effective_progress": progress, **penalty}


FREEZING = Kind(
    "freezing",
    FreezingInstance,
    lambda instance: bool(instance.power > 0),
    meaning.check,
    meaning.exact_objective,
    meaning.exact_bound,
    in_id_order=_in_id_order,
    edits=EDITS,
    offering=OFFERING,
    menu=_menu,
    menu_field="menu",
    wording=Wording(
        runs=True,
        waiting=WAITING,
        option=lambda name: name.replace(", 0 layers frozen", ", nothing frozen"),
    ),
)
