"""The multiple-choice knapsack in the table of kinds: its options, limits and edits."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from copy import copy
from fractions import Fraction
from operator import attrgetter
from typing import Any

from msgspec import UNSET
from msgspec.structs import force_setattr, replace

from apportion.core.errors import InvalidInstance, Problem, quoted_names
from apportion.core.solution import MAX_CHANGES
from apportion.instances.fields import remade
from apportion.instances.kind import Edits, JobRules, ProblemType
from apportion.instances.multiple_choice_knapsack import check
from apportion.instances.multiple_choice_knapsack.schema import (
    KnapsackJob,
    MultipleChoiceKnapsackInstance,
    check_goals,
    check_job,
    check_quotas,
)
from apportion.instances.options import OneSum, Option, OptionSet
from apportion.instances.tenants.ledger import shares_are_due

__all__ = ["EDITS", "MULTIPLE_CHOICE_KNAPSACK", "OPTION_SET"]


def _options(instance: MultipleChoiceKnapsackInstance, job: KnapsackJob) -> Iterator[Option]:
    """Yield a job's options; where values are maximised, they are rates."""
    maximizes = instance.sense == "maximize"
    forbidden, pinned, current = job.forbidden, job.pinned, job.current
    counted = instance.max_changes is not UNSET and current is not None
    change = {MAX_CHANGES: 1} if counted else {}
    for option in job.options:
        name, value = option.id, option.value
        if name not in forbidden and (pinned is None or pinned == name):
            rate = value if maximizes and value > 0.0 else 0.0
            uses = {**option.uses, **change} if counted and name != current else option.uses
            worths = None if option.goals is UNSET else option.goals
            yield Option(name, uses, value, rate, name == current, goals=worths)
    if not job.required and pinned is None:
        yield Option(None, change, 0.0, 0.0, idle=True)


def _taken(_: MultipleChoiceKnapsackInstance, plan: Mapping[str, Any]) -> Mapping[str, str | None]:
    choice: Mapping[str, str | None] = plan["choice"]
    return choice


def _plan(_: MultipleChoiceKnapsackInstance, taken: Mapping[str, str]) -> dict[str, Any]:
    return {"choice": dict(taken)}


def _has_lost(job: KnapsackJob) -> bool:
    """Return whether a job runs with what is not on its menu any more."""
    return job.current is not None and all(option.id != job.current for option in job.options)


def _limits(instance: MultipleChoiceKnapsackInstance) -> dict[str, int]:
    """Return the number of changes where it is limited."""
    return {} if instance.max_changes is UNSET else {MAX_CHANGES: instance.max_changes}


def _goals(instance: MultipleChoiceKnapsackInstance) -> dict[str, bool]:
    return {} if instance.goals is UNSET else {one.name: one.sense == "maximize" for one in instance.goals}


_LARGEST_SUM = 2**52
"""One sum of objective and goals stays below this, where doubles hold every value."""


def _in_one_sum(instance: MultipleChoiceKnapsackInstance) -> OneSum | None:
    """Return objective and goals as one sum of whole numbers; ``None`` where that would be too large."""
    stops = any(job.stop_cost is not UNSET and job.stop_cost for job in instance.jobs)
    if stops or shares_are_due(instance):  # the objective is no sum of values, or shares hang on them
        return None
    wanted, up = _goals(instance), 1 if instance.sense == "maximize" else -1
    menus = [[*_options(instance, job)] for job in instance.jobs]
    exact = [[up * Fraction(one.value) for one in menu] for menu in menus]
    above = [value for menu in exact for value in menu if value]
    scale = math.lcm(*(value.denominator for value in above))
    if scale > _LARGEST_SUM:
        return None
    step = Fraction(math.gcd(*(int(value * scale) for value in above)) or 1, scale)
    gains = [
        [
            (int(value / step), *(_gain(one, name, much=much) for name, much in wanted.items()))
            for one, value in zip(menu, values, strict=True)
        ]
        for menu, values in zip(menus, exact, strict=True)
    ]
    columns = range(1 + len(wanted))
    least = [sum(min((gain[k] for gain in menu), default=0) for menu in gains) for k in columns]
    most = [sum(max((gain[k] for gain in menu), default=0) for menu in gains) for k in columns]
    weights = [math.prod(most[h] - least[h] + 1 for h in columns[k + 1 :]) for k in columns]
    largest = (max(abs(low), abs(high)) for low, high in zip(least, most, strict=True))
    if sum(weight * own for weight, own in zip(weights, largest, strict=True)) > _LARGEST_SUM:
        return None
    named = [
        {option.name: gain for option, gain in zip(menu, own, strict=True)}
        for menu, own in zip(menus, gains, strict=True)
    ]
    summed = [
        remade(
            job,
            options=tuple(
                remade(
                    option,
                    value=float(sum(w * g for w, g in zip(weights, of.get(option.id, ()), strict=False))),
                    goals=UNSET,
                )
                for option in job.options
            ),
        )
        for job, of in zip(instance.jobs, named, strict=True)
    ]
    return OneSum(remade(instance, sense="maximize", goals=UNSET, jobs=tuple(summed)), weights, least, step)


def _gain(option: Option, name: str, *, much: bool) -> int:
    worth = (option.goals or {}).get(name, 0)
    return worth if much else -worth


OPTION_SET = OptionSet(
    _options,
    _taken,
    _plan,
    capacities=lambda instance: instance.capacities,
    limits=_limits,
    now=lambda job: job.current,
    stopped=_has_lost,
    goals=_goals,
    in_one_sum=_in_one_sum,
)


def _change_capacity(
    instance: MultipleChoiceKnapsackInstance, name: str, present: int, delta: int
) -> MultipleChoiceKnapsackInstance:
    if name == MAX_CHANGES and name not in instance.capacities:
        return remade(instance, max_changes=present + delta)
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


def _check_capacities(
    _: MultipleChoiceKnapsackInstance, new: MultipleChoiceKnapsackInstance, problems: list[Problem]
) -> None:
    check_goals(new, problems)


EDITS = Edits(
    job_type=KnapsackJob,
    capacities=lambda instance: {**instance.capacities, **_limits(instance)},
    change_capacity=_change_capacity,
    pin=_pin,
    pin_field="pinned",
    rules=JobRules(
        check=check_job,
        keep=lambda old, new: old.capacities.keys() <= new.capacities.keys() and old.goals == new.goals,
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
