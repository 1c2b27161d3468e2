"""What a job may get, of any kind of instance, and the functions by which a kind says it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

from msgspec import Struct

from apportion.core.solution import JOBS_MOVED, JOBS_STOPPED

__all__ = [
    "DerivedCapacity",
    "Entries",
    "JobOption",
    "OneSum",
    "Option",
    "OptionSet",
    "Place",
    "Pool",
    "entries_by",
    "goal_values",
    "plan_options",
    "uses_by",
]

_CELLS, _DENSITY = 4_000_000, 0.1
"""Cells of uses from which on they are kept sparse, where no more than this part is named."""


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
    goals
        What it adds to the goals after the objective, whole numbers; ``None`` for nothing.
    """

    name: str | None
    uses: Mapping[str, int]
    value: float | Fraction
    rate: float
    current: bool = False
    idle: bool = False
    place: Place | None = None
    goals: Mapping[str, int] | None = None


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


class OneSum(NamedTuple):
    """An objective and the goals after it as one objective.

    Attributes
    ----------
    instance
        Of the same jobs and options, the sum to be maximised.
    weights
        What a unit of the objective, then of every goal, counts in the sum.
    least
        The least sum of gains, for the objective and every goal.
    unit
        What a unit of the objective is.
    """

    instance: Any
    weights: Sequence[int]
    least: Sequence[int]
    unit: Fraction

    def limits(self, bound: Fraction, gained: Sequence[int]) -> list[int | None]:
        """Return what a bound on the sum says of objective and goals, one after the other.

        Parameters
        ----------
        bound
            No plan's sum is greater.
        gained
            What a plan gains of the objective and every goal, in whole units.
        """
        found, left = list[int | None](), math.floor(bound)
        for place, (weight, own) in enumerate(zip(self.weights, gained, strict=True)):
            after = slice(place + 1, None)
            rest = sum(w * low for w, low in zip(self.weights[after], self.least[after], strict=True))
            limit = max((left - rest) // weight, own)
            found.append(limit)
            if limit > own:
                return found + [None] * (len(self.weights) - len(found))
            left -= weight * own
        return found


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
    limits
        ``limits(instance)``: amounts beside these of which no tenant has a part, how many jobs may change
        for instance; options use them as they use capacities, and no share counts them.
    now
        ``now(job)``: what a job has now, where it may not have that any longer, so that no option says it.
    stopped
        ``stopped(job)``: whether a job that runs now is held to nothing, so that no option says that it runs.
    relaxes
        Whether options that fit together need not be a plan, as what they hold lies on places: `columns`
        and the bound of the kind then know the limits of tenants themselves, who is stopped is among the
        goals, and nobody says from the options alone which shares are due.
    sums
        ``sums(instance)``: whether the objective is the sum of what options add to it.
    goals
        ``goals(instance)``: what is wanted after the objective, in strict order, by name: whether much
        (``True``) or little of it.
    reached
        ``reached(instance, plan)``: what a feasible plan has of these goals, where options do not add it up.
    running
        ``running(instance)``: plans, perhaps of too much, in which what runs stays as it is and nothing else
        is given out, or nothing at all. A search may begin with the first that is one.
    first_fit
        ``first_fit(instance, late, enough)``: a plan found job by job, ``None`` for none, in the time until
        `late`, made better in that until `enough`.
    in_one_sum
        ``in_one_sum(instance)``: the instance whose objective is the objective and the goals in one sum, and
        the weights; ``None`` where no such sum is exact.
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
    limits: Callable[[Any], Mapping[str, int]] = lambda _: {}
    now: Callable[[Any], str | None] = lambda _: None
    stopped: Callable[[Any], bool] = lambda _: False
    relaxes: bool = False
    sums: Callable[[Any], bool] = lambda _: True
    goals: Callable[[Any], Mapping[str, bool]] = lambda _: {}
    reached: Callable[[Any, Any], Mapping[str, int]] | None = None
    running: Callable[[Any], Sequence[Mapping[str, Any]]] | None = None
    first_fit: Callable[[Any, Callable[[], bool], Callable[[], bool]], Mapping[str, Any] | None] | None = None
    in_one_sum: Callable[[Any], OneSum | None] = lambda _: None
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


def goal_values(options: OptionSet, instance: Any, plan: Mapping[str, Any]) -> dict[str, int]:
    """Return what a feasible plan has of every goal after the objective, by the options it gives."""
    if options.reached is not None:
        return dict(options.reached(instance, plan))
    taken = options.taken(instance, plan)
    found = dict.fromkeys(options.goals(instance), 0)
    stopped = moved = running = 0
    for job in instance.jobs:
        name, menu = taken.get(job.id), list(options.options(instance, job))
        got = next((one for one in menu if one.name == name or (name is None and one.idle)), None)
        for goal, worth in ((got.goals if got is not None else None) or {}).items():
            found[goal] += worth
        now = next((one.name for one in menu if one.current and not one.idle), None)
        if now is not None:
            running += 1
            idle = got is None or got.idle
            stopped += idle
            moved += not idle and got is not None and not got.current
    return found | ({JOBS_STOPPED: stopped, JOBS_MOVED: moved} if running else {})


Entries = tuple[Any, Any, Any]
"""Option, capacity and amount of everything that is used, int64 [uses] each."""


def entries_by(used: Sequence[Mapping[str, int]], column: Mapping[str, int]) -> Entries:
    """Return what options take of the names that are capacities.

    Parameters
    ----------
    used
        What every option takes of each name.
    column
        The names that are capacities, and where they stand.
    """
    import numpy as np

    rows = np.repeat(np.arange(len(used)), np.fromiter(map(len, used), np.int64, len(used)))
    places = np.fromiter((column.get(name, -1) for own in used for name in own), np.int64, rows.size)
    amounts = np.fromiter((amount for own in used for amount in own.values()), np.int64, rows.size)
    kept = (places >= 0) & (amounts != 0)
    return rows[kept], places[kept], amounts[kept]


def uses_by(entries: Entries, shape: tuple[int, int]) -> Any:
    """Return int64 [options, capacities], sparse where the array would be large and nearly empty."""
    import numpy as np

    rows, places, amounts = entries
    if rows.size <= _DENSITY * shape[0] * shape[1] and shape[0] * shape[1] > _CELLS:
        from scipy.sparse import csr_array

        return csr_array((amounts, (rows, places)), shape=shape)
    found = np.zeros(shape, dtype=np.int64)
    found[rows, places] = amounts
    return found
