"""The multiple-choice knapsack in the table of kinds."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from operator import attrgetter
from typing import Any

from msgspec.structs import force_setattr

from apportion.instances.kind import Kind
from apportion.instances.multiple_choice_knapsack import meaning
from apportion.instances.multiple_choice_knapsack.edits import EDITS
from apportion.instances.multiple_choice_knapsack.offering import OFFERING
from apportion.instances.multiple_choice_knapsack.schema import KnapsackJob, MultipleChoiceKnapsackInstance

__all__ = ["MULTIPLE_CHOICE_KNAPSACK"]


def _in_id_order(instance: MultipleChoiceKnapsackInstance) -> MultipleChoiceKnapsackInstance:
    """Sort the jobs, their options, and the capacities; no order breaks a rule."""
    found = copy(instance)
    force_setattr(found, "capacities", dict(sorted(instance.capacities.items())))
    jobs = sorted(map(_options_in_order, instance.jobs), key=lambda job: job.id)
    force_setattr(found, "jobs", tuple(jobs))
    return found


def _options_in_order(job: KnapsackJob) -> KnapsackJob:
    found = copy(job)
    force_setattr(found, "options", tuple(sorted(job.options, key=attrgetter("id"))))
    return found


def _menu(job: KnapsackJob) -> Iterator[dict[str, Any]]:
    return ({"option": option.id, "value": option.value, **option.uses} for option in job.options)


MULTIPLE_CHOICE_KNAPSACK = Kind(
    "multiple_choice_knapsack",
    MultipleChoiceKnapsackInstance,
    lambda instance: bool(instance.sense == "maximize"),
    meaning.check,
    meaning.exact_objective,
    meaning.exact_bound,
    in_id_order=_in_id_order,
    edits=EDITS,
    offering=OFFERING,
    menu=_menu,
    menu_field="options",
)
