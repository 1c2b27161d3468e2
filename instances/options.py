"""What a job may get, of any kind of instance, and the functions by which a kind says it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

from msgspec import Struct

__all__ = ["DerivedCapacity", "JobOption", "Option", "OptionSet", "Place", "Pool", "plan_options"]


@dataclass(frozen=True, slots=True)
class Pool:
    """Machines that options hold: how many, and what of each jobs can use; ``None`` for no limit."""

    name: str
    count: int
    capacity: int | None


class Place(Struct, frozen=True, gc=False):
    """What an option holds: so many machines of a pool at once, and uses of each, for a time."""

    pool: str
    gang: int
    use: int
    time: float


class Option(Struct, frozen=True, gc=False):
    """One thing that a job may get, or that it gets nothing.

    Attributes
    ----------
    name
        The option's name as formulations and explanations say it; ``None`` for being left out where the kind
        has no word for it.
    uses
        What it takes of every capacity.
    value
        What it adds to the objective, exactly.
    rate
        How fast the job then is, in units of its own; at least 0.
    current
        Whether the job has it now.
    idle
        Whether this means that the job does not run.
    place
        What it holds of a pool of machines; ``None`` for nothing.
    """

    name: str | None
    uses: Mapping[str, int]
    value: float | Fraction
    rate: float
    current: bool = False
    idle: bool = False
    place: Place | None = None


class DerivedCapacity(NamedTuple):
    """A capacity that follows from an instance without standing in it; its name says which.

    Attributes
    ----------
    limit
        What no plan exceeds.
    amounts
        ``amounts(columns)``: what every option takes of it.
    cut
        The type or pool and the weights by which a `PlacedFormulation` is `bounded`.
    """

    limit: int
    amounts: Callable[[Any], Any]
    cut: tuple[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class OptionSet:
    """How one kind of instance tells what its jobs may get.

    Attributes
    ----------
    options
        ``options(instance, job)``: every admissible option of a job, and nothing where that is admissible.
    taken
        ``taken(instance, plan)``: the name of the option that each job gets in a plan that keeps the kind's
        own rules, by job id; a job that is left out may be absent.
    plan
        ``plan(instance, taken)``: the plan in which jobs get these options; ``None`` for a kind that brings a
        formulation.
    derived
        ``derived(instance, name)``: a capacity that prices may name beside those of the instance; ``None``
        for a name that is none.
    capacities
        ``capacities(instance)``: what is shared, where that is not what edits name.
    now
        ``now(job)``: what a job has now, where it may not have that any longer, so that no option says it.
    stopped
        ``stopped(job)``: whether a job that runs now is held to nothing, so that no option says that it runs.
    sums
        ``sums(instance)``: whether the objective is the sum of what options add to it.
    goal
        ``goal(instance)``: what `Columns.goal` says, where that is not a sum in the sense of the kind.
    pools, barred
        ``pools(instance)``: the machines that options hold; ``barred(instance, job, offered)``: what a job is
        known to hold of them beside the options of these names.
    nodes
        ``nodes(instance)``: by capacity that lies on nodes, these; ``None`` where their size is not told.
    columns
        ``columns(instance)``: the options in vectors, without tenants, where one by one takes too long.
    extreme
        ``extreme(instance)``: of these some, one of which is best at any prices.
    """

    options: Callable[[Any, Any], Iterable[Option]]
    taken: Callable[[Any, Any], Mapping[str, str | None]]
    plan: Callable[[Any, Mapping[str, str]], dict[str, Any]] | None = None
    derived: Callable[[Any, str], DerivedCapacity | None] = lambda _instance, _name: None
    capacities: Callable[[Any], dict[str, int]] | None = None
    now: Callable[[Any], str | None] = lambda _: None
    stopped: Callable[[Any], bool] = lambda _: False
    sums: Callable[[Any], bool] = lambda _: True
    goal: Callable[[Any], Any] | None = None
    pools: Callable[[Any], Sequence[Pool]] = lambda _: ()
    barred: Callable[[Any, Any, Set[str | None]], Sequence[Place]] = lambda _instance, _job, _offered: ()
    nodes: Callable[[Any], Mapping[str, Any]] = lambda _: {}
    columns: Callable[[Any], Any] | None = None
    extreme: Callable[[Any], Any] | None = None


class JobOption(NamedTuple):
    """What one job gets in a plan.

    Attributes
    ----------
    job
        The job's id.
    option
        Its option; ``None`` where it gets nothing and its kind has no option that says so.
    before
        The name of what it has now; ``None`` for nothing.
    """

    job: str
    option: Option | None
    before: str | None

    @property
    def runs(self) -> bool:
        """Whether the job runs."""
        return self.option is not None and not self.option.idle

    @property
    def name(self) -> str | None:
        """The option's name; ``None`` for nothing."""
        return None if self.option is None else self.option.name

    @property
    def uses(self) -> Mapping[str, int]:
        """What it takes of every capacity."""
        return {} if self.option is None else self.option.uses

    @property
    def value(self) -> float:
        """What it adds to the objective, rounded."""
        return 0.0 if self.option is None else float(self.option.value)


def plan_options(options: OptionSet, instance: Any, plan: Mapping[str, Any]) -> list[JobOption]:
    """Return what every job gets in a feasible plan, in the order of the instance."""
    taken = options.taken(instance, plan)
    found = []
    for job in instance.jobs:
        name, menu = taken.get(job.id), list(options.options(instance, job))
        chosen = (one for one in menu if one.name == name or (name is None and one.idle))
        before = (one.name for one in menu if one.current and not one.idle)
        found.append(JobOption(job.id, next(chosen, None), next(before, None) or options.now(job)))
    return found
