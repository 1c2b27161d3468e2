"""The multiple-choice knapsack instance: every job picks one option, options use named capacities."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from apportion.core.errors import Problem, did_you_mean
from apportion.core.solution import JOBS_MOVED, JOBS_STOPPED, MAX_CHANGES
from apportion.instances.fields import Capacity, Count, Name, Number, Rule, Use, check_distinct, refuse
from apportion.instances.tenants.rules import check_tenants
from apportion.instances.tenants.schema import Tenanted, TenantedJob

__all__ = [
    "KnapsackGoal",
    "KnapsackJob",
    "KnapsackOption",
    "MultipleChoiceKnapsackInstance",
    "check_goals",
    "check_job",
    "check_quotas",
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
        refuse(self, _rules(self))


def _rules(instance: MultipleChoiceKnapsackInstance) -> Iterator[Rule]:
    """Yield what every instance keeps."""
    yield partial(check_goals, instance)
    yield lambda problems: check_distinct("$.jobs", [job.id for job in instance.jobs], "job id", problems)
    yield partial(check_quotas, instance)
    if not _are_valid(instance):
        for index, job in enumerate(instance.jobs):
            yield partial(check_job, f"$.jobs[{index}]", job, instance)


def _are_valid(instance: MultipleChoiceKnapsackInstance) -> bool:
    """Return whether `check_job` passes every job, as it nearly always does: all are looked at at once."""
    try:
        menus = [job.options for job in instance.jobs]
        options = [*chain.from_iterable(menus)]
        return (
            not any(job.pinned is not None or job.forbidden for job in instance.jobs)
            and all(len({option.id for option in menu}) == len(menu) for menu in menus)
            and all(option.goals is UNSET for option in options)
            and {*chain.from_iterable(option.uses for option in options)} <= instance.capacities.keys()
        )
    except (AttributeError, TypeError):
        return False


def check_goals(instance: MultipleChoiceKnapsackInstance, problems: list[Problem]) -> None:
    """Note what is wrong with the goals after the values, and with the number of changes."""
    goals = () if instance.goals is UNSET else instance.goals
    check_distinct("$.goals", [goal.name for goal in goals], "goal", problems)
    for index, goal in enumerate(goals):
        if goal.name in (JOBS_STOPPED, JOBS_MOVED):
            said = f"must not be {goal.name!r}, which is among the last goals of every instance"
            problems.append(Problem(f"$.goals[{index}].name", said))
    if instance.max_changes is not UNSET and MAX_CHANGES in instance.capacities:
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
    goals = [] if instance.goals is UNSET else [goal.name for goal in instance.goals]
    for index, option in enumerate(job.options):
        worths = () if option.goals is UNSET else option.goals
        for field, names, known, what in (
            ("uses", option.uses, capacities, "capacities"),
            ("goals", worths, goals, "goals"),
        ):
            for name in names:
                if name not in known:
                    said = f"is not one of the instance's {what}{did_you_mean(name, known)}"
                    problems.append(Problem(f"{path}.options[{index}].{field}.{name}", said))
    menu = [option.id for option in job.options]
    check_distinct(f"{path}.options", menu, "option id", problems)
    named = [("pinned", job.pinned)] if job.pinned is not None else []
    named += [(f"forbidden[{index}]", option) for index, option in enumerate(job.forbidden)]
    problems += [
        Problem(f"{path}.{field}", f"{option!r} is not an option of this job")
        for field, option in named
        if option not in menu
    ]
