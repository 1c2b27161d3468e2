"""The canonical order of an instance: jobs and options by id; how they were listed decides nothing."""

from __future__ import annotations

import msgspec

from apportion.instances.freezing import FreezingInstance, FreezingJob
from apportion.instances.kinds import Instance
from apportion.instances.matching import MatchingInstance, MatchingJob
from apportion.instances.multiple_choice_knapsack import KnapsackJob, MultipleChoiceKnapsackInstance

__all__ = ["in_id_order"]


def in_id_order(instance: Instance) -> Instance:
    """Return the same instance with its jobs, and their options or machines, sorted by id.

    The rows of a freezing menu have a place for an id: GPU type and count; its GPU types are sorted too, and
    so are the machines of a matching and those that each of its jobs names. What is in order already stays
    the same object, which has been checked. The order of nodes and of current nodes is kept: it is the
    site's own, and means something.
    """
    if isinstance(instance, MultipleChoiceKnapsackInstance):
        menus = tuple(_menu_in_order(job) for job in instance.jobs)
        return msgspec.structs.replace(instance, jobs=tuple(sorted(menus, key=lambda job: job.id)))
    if isinstance(instance, FreezingInstance):
        return _freezing_in_order(instance)
    if isinstance(instance, MatchingInstance):
        return _matching_in_order(instance)
    return msgspec.structs.replace(instance, jobs=tuple(sorted(instance.jobs, key=lambda job: job.id)))


def _matching_in_order(instance: MatchingInstance) -> MatchingInstance:
    jobs = tuple(sorted(map(_machines_in_order, instance.jobs), key=lambda job: job.id))
    machines = tuple(sorted(instance.machines, key=lambda machine: machine.id))
    same = all(old is new for old, new in zip(instance.jobs, jobs, strict=True))
    if same and machines == instance.machines:
        return instance
    return msgspec.structs.replace(instance, machines=machines, jobs=jobs)


def _machines_in_order(job: MatchingJob) -> MatchingJob:
    names = sorted(job.on)
    if names == list(job.on):
        return job
    return msgspec.structs.replace(job, on={name: job.on[name] for name in names})


def _freezing_in_order(instance: FreezingInstance) -> FreezingInstance:
    jobs = tuple(sorted(map(_rows_in_order, instance.jobs), key=lambda job: job.id))
    gpus = dict(sorted(instance.gpus.items()))
    same = all(old is new for old, new in zip(instance.jobs, jobs, strict=True))
    if same and list(gpus) == list(instance.gpus):
        return instance
    return msgspec.structs.replace(instance, jobs=jobs, gpus=gpus)


def _rows_in_order(job: FreezingJob) -> FreezingJob:
    menu = tuple(sorted(job.menu, key=lambda row: (row.gpu_type, row.gpus)))
    same = all(old is new for old, new in zip(job.menu, menu, strict=True))
    return job if same else msgspec.structs.replace(job, menu=menu)


def _menu_in_order(job: KnapsackJob) -> KnapsackJob:
    return msgspec.structs.replace(job, options=tuple(sorted(job.options, key=lambda option: option.id)))
