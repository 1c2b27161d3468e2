"""The multiple-choice knapsack instance: every job picks one option, options use named capacities."""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from apportion.core.errors import InvalidInstance, Problem, did_you_mean
from apportion.core.solution import JOBS_MOVED, JOBS_STOPPED, MAX_CHANGES
from apportion.instances.fields import (
    LARGEST_CAPACITY,
    LARGEST_USE,
    Capacity,
    Count,
    Name,
    Number,
    Use,
    are_counts,
    are_floats,
    are_names,
    check_count,
    check_distinct,
    check_header,
    check_name,
    check_number,
    make_plain,
    settle_numbers,
)
from apportion.instances.tenants.rules import check_tenants, settle_tenants
from apportion.instances.tenants.schema import Tenanted, TenantedJob

__all__ = [
    "KnapsackGoal",
    "KnapsackJob",
    "KnapsackOption",
    "MultipleChoiceKnapsackInstance",
    "check_capacities",
    "check_job",
    "check_quotas",
    "settle_job",
]


_LARGEST_WORTH = 10**12
"""Largest magnitude of what one option adds to a goal."""
Worth = Annotated[int, Meta(ge=-_LARGEST_WORTH, le=_LARGEST_WORTH)]


class KnapsackGoal(Struct, frozen=True, forbid_unknown_fields=True):
    """Something that the plan is to have much or little of, once the sum of values is at its optimum.

    Attributes
    ----------
    name
        Unique among the goals; options say under this name what they add to it.
    sense
        ``"maximize"`` or ``"minimize"``.
    """

    name: Name
    sense: Literal["maximize", "minimize"] = "maximize"


class KnapsackOption(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """One line of a job's menu.

    Attributes
    ----------
    id
        Unique within the job.
    value
        What choosing it is worth (costs, when minimising).
    uses
        What it takes of each capacity; a capacity that is not named is not used.
    goals
        What it adds to each of the instance's goals, whole numbers; 0 to one that is not named.
    """

    id: Name
    value: Number
    uses: dict[Name, Use]
    goals: dict[Name, Worth] | UnsetType = UNSET


class KnapsackJob(TenantedJob, frozen=True, gc=False, forbid_unknown_fields=True):
    """A job and its menu.

    Attributes
    ----------
    id
        Unique name.
    options
        The menu; may be empty for a job that is not required.
    required
        Whether the job must get one of its options; otherwise it may be left out, worth 0.
    current
        The option it has now, if any: among equal optima the plan that changes least is preferred. One that
        left the menu since cannot be kept: the job changes, or is stopped.
    pinned
        If given, the job must get this option.
    forbidden
        Options the job must not get.
    tenant, preemptible, running_s, stop_cost, submitted_s, priority, finish, best_rate
        What belongs to its tenant; see `apportion.instances.tenants.schema.TenantedJob`.
    """

    id: Name
    options: tuple[KnapsackOption, ...]
    required: bool = True
    current: Name | None = None
    pinned: Name | None = None
    forbidden: tuple[Name, ...] = ()


class MultipleChoiceKnapsackInstance(
    Tenanted, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="multiple_choice_knapsack"
):
    """Jobs with menus under capacities; every semantic rule is checked on construction.

    Attributes
    ----------
    schema_version
        ``"1"``.
    sense
        ``"maximize"`` or ``"minimize"`` the sum of the chosen values.
    capacities
        How much there is of each named capacity.
    jobs
        The jobs.
    name
        A name for reports.
    tenants, fairness
        Whose jobs they are and what is shared out fairly; see `apportion.instances.tenants.schema.Tenanted`.
    goals
        What is wanted after the sum of values, in strict order: the next never costs the one before.
    max_changes
        At most so many of the jobs that have a current option get another one or none.

    Raises
    ------
    InvalidInstance
        If any rule is broken; all problems are listed with their JSON paths.
    """

    schema_version: Literal["1"]
    sense: Literal["maximize", "minimize"]
    capacities: dict[Name, Capacity]
    jobs: tuple[KnapsackJob, ...]
    name: str = ""
    goals: tuple[KnapsackGoal, ...] | UnsetType = UNSET
    max_changes: Count | UnsetType = UNSET

    if TYPE_CHECKING:

        @property
        def _planned(self) -> Mapping[str, Mapping[str, str | None]]: ...

    def __repr__(self) -> str:
        size = f"{len(self.jobs)} jobs, {sum(len(job.options) for job in self.jobs)} options"
        return (
            f"<MultipleChoiceKnapsackInstance {self.name!r}: {size}, {len(self.capacities)} capacities, "
            f"{self.sense}>"
        )

    def __post_init__(self) -> None:
        make_plain(self)
        checked = _are_valid(self.jobs, self.capacities)
        problems = _problems(self, () if checked else self.jobs)
        if problems:
            raise InvalidInstance(problems)
        settle_tenants(self)
        for job in () if checked else self.jobs:
            settle_job(job)


def settle_job(job: KnapsackJob) -> None:
    """Turn integers in the float fields of a checked job into floats, as decoding does."""
    for option in job.options:
        settle_numbers(option, ("value",))


def _are_valid(jobs: Any, capacities: Any) -> bool:
    """Return whether `check_job` passes every job and `settle_job` changes none, as it nearly always is."""
    if not (isinstance(capacities, dict) and isinstance(jobs, tuple) and {*map(type, jobs)} <= {KnapsackJob}):
        return False
    menus = [job.options for job in jobs]
    if not {*map(type, menus)} <= {tuple}:
        return False
    options = [*chain.from_iterable(menus)]
    if not {*map(type, options)} <= {KnapsackOption}:
        return False
    names, uses = [option.id for option in options], [option.uses for option in options]
    return (
        {type(job.required) for job in jobs} <= {bool}
        and not any(job.pinned is not None or job.forbidden != () for job in jobs)
        and are_names([job.current for job in jobs if job.current is not None])
        and are_names([job.id for job in jobs])
        and are_names(names)
        and all(len({option.id for option in menu}) == len(menu) for menu in menus)
        and are_floats([option.value for option in options])
        and all(option.goals is UNSET for option in options)
        and {*map(type, uses)} <= {dict}
        and {*chain.from_iterable(uses)} <= capacities.keys()
        and are_counts([amount for use in uses for amount in use.values()], LARGEST_USE)
    )


def _problems(instance: MultipleChoiceKnapsackInstance, jobs: Any) -> list[Problem]:
    """Return what is wrong with an instance, and with those of its jobs that are to be checked."""
    problems: list[Problem] = []
    check_header(instance, problems)
    if instance.sense not in ("maximize", "minimize"):
        problems.append(Problem("$.sense", f'must be "maximize" or "minimize", not {instance.sense!r}'))
    if not isinstance(instance.capacities, dict):
        problems.append(Problem("$.capacities", "must be an object of capacities by name"))
        return problems
    check_capacities(instance.capacities, problems)
    if not isinstance(instance.jobs, tuple | list):
        return [*problems, Problem("$.jobs", "must be a list of jobs")]
    check_goals(instance, problems)
    for index, job in enumerate(jobs):
        if isinstance(job, KnapsackJob):
            check_job(f"$.jobs[{index}]", job, instance, problems)
        else:
            problems.append(Problem(f"$.jobs[{index}]", f"must be a KnapsackJob, not {type(job).__name__}"))
    check_distinct(
        "$.jobs", (job.id for job in instance.jobs if isinstance(job, KnapsackJob)), "job id", problems
    )
    check_quotas(instance, problems)
    return problems


def check_capacities(capacities: Mapping[str, int], problems: list[Problem]) -> None:
    """Note every capacity that is none, and every name that is none."""
    for name, capacity in capacities.items():
        check_name("$.capacities", name, problems)
        check_count(f"$.capacities.{name}", capacity, problems, high=LARGEST_CAPACITY)


def check_goals(instance: MultipleChoiceKnapsackInstance, problems: list[Problem]) -> None:
    """Note what is wrong with the goals after the values, and with the number of changes."""
    if instance.goals is not UNSET:
        if not isinstance(instance.goals, tuple | list) or not all(
            isinstance(goal, KnapsackGoal) for goal in instance.goals
        ):
            problems.append(Problem("$.goals", "must be a list of goals, each with a name and a sense"))
            return
        check_distinct("$.goals", (goal.name for goal in instance.goals), "goal", problems)
        for index, goal in enumerate(instance.goals):
            check_name(f"$.goals[{index}].name", goal.name, problems)
            if goal.name in (JOBS_STOPPED, JOBS_MOVED):
                said = f"must not be {goal.name!r}, which is among the last goals of every instance"
                problems.append(Problem(f"$.goals[{index}].name", said))
            if goal.sense not in ("maximize", "minimize"):
                said = f'must be "maximize" or "minimize", not {goal.sense!r}'
                problems.append(Problem(f"$.goals[{index}].sense", said))
    if instance.max_changes is UNSET:
        return
    check_count("$.max_changes", instance.max_changes, problems)
    if MAX_CHANGES in instance.capacities:
        said = f"must not be called {MAX_CHANGES!r} where the number of changes is limited"
        problems.append(Problem(f"$.capacities.{MAX_CHANGES}", said))


def check_quotas(
    instance: MultipleChoiceKnapsackInstance,
    problems: list[Problem],
    touched: Container[str] | None = None,
) -> None:
    """Note what is wrong with tenants, and with what belongs to the tenants of all jobs or those touched."""
    rates = instance.sense == "maximize"
    check_tenants(instance, instance.capacities, problems, rates=rates, touched=touched)


def check_job(
    path: str, job: KnapsackJob, instance: MultipleChoiceKnapsackInstance, problems: list[Problem]
) -> None:
    """Note what is wrong with one job under the capacities and goals of an instance."""
    capacities = instance.capacities
    check_name(f"{path}.id", job.id, problems)
    if not isinstance(job.required, bool):
        problems.append(Problem(f"{path}.required", "must be true or false"))
    if not isinstance(job.options, tuple | list):
        problems.append(Problem(f"{path}.options", "must be a list of options"))
        return
    for index, option in enumerate(job.options):
        where = f"{path}.options[{index}]"
        if not isinstance(option, KnapsackOption):
            problems.append(Problem(where, f"must be a KnapsackOption, not {type(option).__name__}"))
            continue
        check_name(f"{where}.id", option.id, problems)
        check_number(f"{where}.value", option.value, problems)
        _check_uses(f"{where}.uses", option.uses, capacities, problems)
        if option.goals is not UNSET:
            _check_worths(f"{where}.goals", option.goals, instance.goals, problems)
    names = [option.id for option in job.options if isinstance(option, KnapsackOption)]
    check_distinct(f"{path}.options", names, "option id", problems)
    if job.current is not None:
        check_name(f"{path}.current", job.current, problems)
    if job.pinned is not None and job.pinned not in names:
        problems.append(Problem(f"{path}.pinned", f"{job.pinned!r} is not an option of this job"))
    if not isinstance(job.forbidden, tuple | list):
        problems.append(Problem(f"{path}.forbidden", "must be a list of option ids"))
        return
    for index, named in enumerate(job.forbidden):
        if named not in names:
            problems.append(Problem(f"{path}.forbidden[{index}]", f"{named!r} is not an option of this job"))


def _check_uses(path: str, uses: Any, capacities: Collection[str], problems: list[Problem]) -> None:
    if not isinstance(uses, dict):
        problems.append(Problem(path, "must be an object of uses by capacity"))
        return
    for name, use in uses.items():
        if type(use) is int and 0 <= use <= LARGEST_USE and name in capacities:
            continue  # nearly always: no path is formed for it
        if name not in capacities:
            problems.append(
                Problem(
                    f"{path}.{name}",
                    f"is not one of the instance's capacities{did_you_mean(name, capacities)}",
                )
            )
        check_count(f"{path}.{name}", use, problems, high=LARGEST_USE)


def _check_worths(path: str, worths: Any, goals: Any, problems: list[Problem]) -> None:
    if not isinstance(worths, dict):
        problems.append(Problem(path, "must be an object of whole numbers by goal"))
        return
    known = [] if goals is UNSET else [goal.name for goal in goals if isinstance(goal, KnapsackGoal)]
    for name, worth in worths.items():
        if name not in known:
            said = f"is not one of the instance's goals{did_you_mean(name, known)}"
            problems.append(Problem(f"{path}.{name}", said))
        check_count(f"{path}.{name}", worth, problems, low=-_LARGEST_WORTH, high=_LARGEST_WORTH)
