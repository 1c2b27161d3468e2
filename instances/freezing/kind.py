"""Layer freezing in the table of kinds.

What the jobs of a layer-freezing round may get, as tenants see it: configurations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from apportion.instances.freezing import check
from apportion.instances.freezing.check import configuration_name, offered
from apportion.instances.freezing.edits import EDITS, WAITING
from apportion.instances.freezing.job import FreezingJob
from apportion.instances.freezing.nodes import NodeWeights
from apportion.instances.freezing.schema import FreezingInstance
from apportion.instances.kind import Kind, Wording
from apportion.instances.tenants.options import DerivedCapacity, Option, OptionSet

__all__ = ["FREEZING", "OPTION_SET"]


def _taken(_: FreezingInstance, plan: Mapping[str, Any]) -> Mapping[str, str | None]:
    return {
        job: configuration_name(one["gpu_type"], one["gpus"], one["depth"])
        for job, one in plan["configuration"].items()
    }


def _further(instance: FreezingInstance, name: str) -> DerivedCapacity | None:
    """Return the capacity of node weights."""
    weights = NodeWeights.named(instance, name)
    if weights is None:
        return None

    def use(_: str, offer: Option) -> int:
        gpus = offer.uses.get(weights.gpu_type, 0)
        return weights.of(gpus) if gpus else 0

    cut = weights.gpu_type, weights.weights
    return DerivedCapacity(weights.capacity(instance.gpus[weights.gpu_type]), use, cut)


OPTION_SET = OptionSet(offered, _taken, _further)


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
    check.check,
    check.exact_objective,
    check.exact_bound,
    in_id_order=_in_id_order,
    edits=EDITS,
    offering=OPTION_SET,
    menu=_menu,
    menu_field="menu",
    wording=Wording(
        runs=True,
        waiting=WAITING,
        option=lambda name: name.replace(", 0 layers frozen", ", nothing frozen"),
    ),
)
