"""The multiple-choice knapsack in the table of kinds.

Small changes to a multiple-choice knapsack: other capacities, jobs held to one option.

What the jobs of a multiple-choice knapsack may get, as tenants see it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from operator import attrgetter
from typing import Any

from msgspec.structs import force_setattr, replace

from apportion.core.errors import InvalidInstance, Problem, quoted_names
from apportion.instances.fields import remade
from apportion.instances.kind import Edits, JobRules, ProblemType
from apportion.instances.multiple_choice_knapsack import check
from apportion.instances.multiple_choice_knapsack.schema import (
    KnapsackJob,
    MultipleChoiceKnapsackInstance,
    check_capacities,
    check_job,
    check_quotas,
    settle_job,
)
from apportion.instances.options import Option, OptionSet

__all__ = ["EDITS", "MULTIPLE_CHOICE_KNAPSACK", "OPTION_SET"]


def _options(instance: MultipleChoiceKnapsackInstance, job: KnapsackJob) -> Iterator[Option]:
    """Yield a job's options; where values are maximised, they are rates."""
    maximizes = instance.sense == "maximize"
    forbidden, pinned, current = job.forbidden, job.pinned, job.current
    for option in job.options:
        name, value = option.id, option.value
        if name not in forbidden and (pinned is None or pinned == name):
            rate = value if maximizes and value > 0.0 else 0.0
            yield Option(name, option.uses, value, rate, name == current)
    if not job.required and pinned is None:
        yield Option(None, {}, 0.0, 0.0, idle=True)


def _taken(_: MultipleChoiceKnapsackInstance, plan: Mapping[str, Any]) -> Mapping[str, str | None]:
    choice: Mapping[str, str | None] = plan["choice"]
    return choice


def _plan(_: MultipleChoiceKnapsackInstance, taken: Mapping[str, str]) -> dict[str, Any]:
    return {"choice": dict(taken)}


def _has_lost(job: KnapsackJob) -> bool:
    """Return whether a job runs with what is not on its menu any more."""
    return job.current is not None and all(option.id != job.current for option in job.options)


OPTION_SET = OptionSet(_options, _taken, _plan, now=lambda job: job.current, stopped=_has_lost)


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
            there = quoted_names(names) or "none"
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


MULTIPLE_CHOICE_KNAPSACK = ProblemType(
    "multiple_choice_knapsack",
    MultipleChoiceKnapsackInstance,
    lambda instance: bool(instance.sense == "maximize"),
    check.check,
    check.exact_objective,
    in_id_order=_in_id_order,
    edits=EDITS,
    option_set=OPTION_SET,
    menu=_menu,
    menu_field="options",
)
