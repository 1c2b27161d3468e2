"""The canonical order of an instance: jobs and options by id; how they were listed decides nothing."""

from __future__ import annotations

import msgspec

from apportion.instances.kinds import Instance
from apportion.instances.multiple_choice_knapsack import KnapsackJob, MultipleChoiceKnapsackInstance

__all__ = ["in_id_order"]


def in_id_order(instance: Instance) -> Instance:
    """Return the same instance with its jobs, and the options of their menus, sorted by id.

    The order of nodes and of current nodes is kept: it is the site's own, and means something.
    """
    if isinstance(instance, MultipleChoiceKnapsackInstance):
        menus = tuple(_menu_in_order(job) for job in instance.jobs)
        return msgspec.structs.replace(instance, jobs=tuple(sorted(menus, key=lambda job: job.id)))
    return msgspec.structs.replace(instance, jobs=tuple(sorted(instance.jobs, key=lambda job: job.id)))


def _menu_in_order(job: KnapsackJob) -> KnapsackJob:
    return msgspec.structs.replace(job, options=tuple(sorted(job.options, key=lambda option: option.id)))
