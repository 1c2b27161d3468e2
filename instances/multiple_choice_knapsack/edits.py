"""Small changes to a multiple-choice knapsack: other capacities, jobs held to one option."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from apportion.errors import InvalidInstance, Problem, listed
from apportion.instances.kind import Edits, JobRules
from apportion.instances.multiple_choice_knapsack.schema import (
    KnapsackJob,
    MultipleChoiceKnapsackInstance,
    check_capacities,
    check_job,
    check_quotas,
    settle_job,
)
from apportion.instances.remaking import remade

__all__ = ["EDITS"]


def _capacities(instance: MultipleChoiceKnapsackInstance) -> dict[str, int]:
    return dict(instance.capacities)


def _change_capacity(
    instance: MultipleChoiceKnapsackInstance, name: str, present: int, delta: int
) -> MultipleChoiceKnapsackInstance:
    return remade(instance, capacities={**instance.capacities, name: present + delta})


def _pin(
    instance: MultipleChoiceKnapsackInstance, choices: Mapping[str, int | str]
) -> MultipleChoiceKnapsackInstance:
    for job in instance.jobs:
        names = [option.id for option in job.options]
        if job.id in choices and choices[job.id] not in names:
            there = listed(names) or "none"
            message = f"job {job.id!r} has no option {choices[job.id]!r}; it has {there}"
            raise InvalidInstance.at("$.jobs", message)
    return remade(
        instance,
        jobs=tuple(
            replace(job, pinned=str(choices[job.id])) if job.id in choices else job for job in instance.jobs
        ),
    )


def _adopt(instance: MultipleChoiceKnapsackInstance, plan: Mapping[str, Any]) -> Iterator[KnapsackJob]:
    for job in instance.jobs:
        chosen = plan["choice"].get(job.id)
        if chosen != job.current:
            yield replace(job, current=chosen)


def _check_job(
    path: str, job: KnapsackJob, instance: MultipleChoiceKnapsackInstance, problems: list[Problem]
) -> None:
    check_job(path, job, instance.capacities, problems)


def _check_capacities(
    _: MultipleChoiceKnapsackInstance, new: MultipleChoiceKnapsackInstance, problems: list[Problem]
) -> None:
    check_capacities(new.capacities, problems)  # none goes, and jobs name them only


EDITS = Edits(
    job_type=KnapsackJob,
    capacities=_capacities,
    change_capacity=_change_capacity,
    pin=_pin,
    pin_field="pinned",
    rules=JobRules(
        check=_check_job,
        settle=settle_job,
        keep=lambda old, new: old.capacities.keys() <= new.capacities.keys(),
        around=_check_capacities,
        tenants=check_quotas,
    ),
    adopt=_adopt,
)
