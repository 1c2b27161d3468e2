"""How a matching is explained: by menus where it is weighed, by solving again where it is timed.

A matching explained: its own solvers know more than its menus say, so variants of it stay matchings.

A matching of costs or values as menus: one option per machine, whose uses fill that machine's room.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any, Self, cast

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from apportion.core.errors import InvalidOption
from apportion.core.solution import Solution
from apportion.explanation.by_menus import explain_by_menus
from apportion.explanation.makespan import explain_makespan
from apportion.explanation.resolver import Resolver
from apportion.explanation.result import Explanation
from apportion.explanation.subject import Subject
from apportion.formulations.matching.by_machine import MatchingByMachine
from apportion.formulations.protocol import KnapsackFormulation, Plan
from apportion.instances import edits
from apportion.instances.matching import MatchingInstance
from apportion.instances.matching.bounds import schedule
from apportion.models.lowering import Lowered, OptionLabels, lower
from apportion.models.multiple_choice import MultipleChoiceKnapsack

__all__ = ["MatchingMenus", "MatchingSubject", "explain_matching"]


_LARGEST = 20_000_000
"""Numbers in the table of uses up to which it is formed."""
_LARGEST_ROOM = 2**62 - 1
"""What arrays take as a capacity at most; no sum of uses reaches it."""


class MatchingMenus:
    """The menus of a matching that is not timed.

    Attributes
    ----------
    model
        One option per entry; the capacities are the machines that have room to fill.
    pools
        The pool behind every capacity.
    settles
        Whether every choice that keeps the capacities fits onto the machines: no pool is kept in sum
        whose jobs differ.
    value_error
        0: values are taken as they are.

    Raises
    ------
    InvalidOption
        If it is too large to be explained.
    """

    def __init__(self, instance: MatchingInstance) -> None:
        self._formulation = MatchingByMachine(instance)
        self.value_error = 0.0
        model = self._formulation.model
        limited = np.flatnonzero(model.limited)
        if model.num_options * limited.size > _LARGEST:
            reason = f"{model.num_options} entries on {limited.size} machines are too many to be explained"
            raise InvalidOption(reason)
        column = np.full(model.capacities.size, -1, dtype=np.int64)
        column[limited] = np.arange(limited.size)
        uses = np.zeros((model.num_options, limited.size), dtype=np.int64)
        held = np.flatnonzero(column[model.machine] >= 0)
        uses[held, column[model.machine[held]]] = model.uses[held]
        names = [model.pool_names[k] for k in model.pool[limited].tolist()]
        self.pools = tuple(names)
        self.settles = not self._formulation.relaxes
        number: dict[str, int] = {}
        apart = []
        for name in names:
            number[name] = number.get(name, -1) + 1
            apart.append(f"{name}[{number[name]}]" if names.count(name) > 1 else name)
        self.model = MultipleChoiceKnapsack.from_arrays(
            model.values,
            uses,
            model.offsets,
            np.minimum(model.capacities[limited], _LARGEST_ROOM),
            required=model.required,
            sense="maximize" if instance.objective == "value" else "minimize",
            capacity_names=tuple(apart),
        )

    def prices(self, multipliers: Mapping[str, float]) -> NDArray[np.float64]:
        """Return the price of every capacity: that of its pool."""
        return np.array([multipliers.get(pool, 0.0) for pool in self.pools], dtype=np.float64)

    def exact_values(self) -> list[Fraction]:
        """Return the values themselves."""
        return list(map(Fraction, self.model.values.tolist()))

    def plan(self, choice: NDArray[np.int64]) -> Plan:
        """Return the plan of a choice."""
        return self._formulation.plan(choice)

    def choice(self, plan: Any) -> NDArray[np.int64] | None:
        """Return the entries of a plan."""
        return self._formulation.choice(plan)

    def preferred(self) -> None:
        """Return ``None``: a matching has no present state."""
        return

    def lowered(self) -> Lowered:
        """Return the linear model, its columns named ``x[job,machine]``."""
        jobs = self.job_names()
        names = [self.option_name(row) for row in range(self.model.num_options)]
        return lower(self.model, OptionLabels(self.model.offsets, jobs, names), jobs)

    def job_names(self) -> Sequence[str]:
        """Return the jobs' names."""
        return self._formulation.job_names()

    def option_name(self, row: int) -> str:
        """Return the machine of an entry."""
        return self._formulation.option_name(row)

    def pool_of(self, row: int) -> str:
        """Return the pool of an entry."""
        model = self._formulation.model
        return model.pool_names[int(model.pool[model.machine[row]])]

    def demand(self) -> MultipleChoiceKnapsack:
        """Return the menus themselves: they do not depend on the capacities."""
        return self.model


class MatchingSubject(Subject):
    """A matching; see `Subject`. A makespan has no menus."""

    @cached_property
    def menus(self) -> KnapsackFormulation:
        """One option per machine of every job."""
        return super().menus if self.instance.objective == "makespan" else MatchingMenus(self.instance)

    @property
    def settles(self) -> bool:
        """Whether no pool is kept in sum whose jobs differ."""
        return self.instance.objective == "makespan" or cast(MatchingMenus, self.menus).settles

    def changes(self, additions: Mapping[str, int]) -> Mapping[str, int]:
        """Return room on every machine of a pool: the menus may name one machine, or a pool in sum."""
        if self.instance.objective == "makespan":
            return additions
        menus = cast(MatchingMenus, self.menus)
        room: dict[str, int] = {}
        for name, amount in additions.items():
            at = menus.model.capacity_names.index(name)
            needed = int(menus.model.capacities[at]) + amount
            room[menus.pools[at]] = max(room.get(menus.pools[at], 0), self._more_room(name, at, needed))
        return room

    def _more_room(self, name: str, at: int, needed: int) -> int:
        """Return what every machine of a pool must have more to hold what a capacity of the menus needs."""
        menus = cast(MatchingMenus, self.menus)
        pool = next(machine for machine in self.instance.machines if machine.id == menus.pools[at])
        step = math.gcd(*(job.on[pool.id].uses for job in self.instance.jobs if pool.id in job.on)) or 1
        machines = pool.count if menus.pools.count(pool.id) == 1 else 1  # kept in sum, or one by one
        each = -(-needed // (machines * step)) * step if machines > 1 else needed
        return max(each - int(pool.capacity or 0), 1)

    def prices(self, menus: KnapsackFormulation, multipliers: Mapping[str, float]) -> NDArray[np.float64]:
        """Return the price of every machine: that of its pool."""
        return cast(MatchingMenus, menus).prices(multipliers)

    def shares(self, plan: Any) -> dict[str, tuple[str | None, float]]:
        """Return the pool of every job and its part of the objective; of a makespan, when the job ends."""
        instance = self.instance
        if instance.divisible:
            return {job.id: _shared(job, plan["fractions"][job.id]) for job in instance.jobs}
        if instance.objective == "makespan":
            placed = schedule(instance, plan)
            return {job.id: (placed[job.id].pool, placed[job.id].end) for job in instance.jobs}
        chosen = plan["assignment"]
        return {
            job.id: (None, 0.0)
            if (pool := chosen.get(job.id)) is None
            else (pool, float(getattr(job.on[pool], instance.field)))
            for job in instance.jobs
        }

    def with_pin(self, menus: KnapsackFormulation, job: int, row: int) -> Any:
        """Return the matching with a job held to the pool of an entry, or left out (row -1)."""
        pool = "-" if row < 0 else cast(MatchingMenus, menus).pool_of(row)
        return edits.pin(self.instance, {menus.job_names()[job]: pool})

    def wider(self, menus: KnapsackFormulation, capacity: int) -> Self:
        """Return the subject with one unit more room on every machine of a pool."""
        name = f"{cast(MatchingMenus, menus).pools[capacity]}.capacity"
        return type(self)(edits.change_capacity(self.instance, name, 1))

    def fewer(self, menus: KnapsackFormulation, capacity: int) -> Any:
        """Return the matching with one unit less room on every machine of a pool."""
        return edits.change_capacity(
            self.instance, f"{cast(MatchingMenus, menus).pools[capacity]}.capacity", -1
        )

    def start(self, solution: Solution, rows: NDArray[np.int64]) -> Any:
        """Return the solution itself: variants are matchings."""
        return solution

    def without_times(self) -> MatchingSubject:
        """Return a makespan without its times: whether all jobs find room has nothing to do with these."""
        jobs = (
            replace(job, on={name: replace(entry, time_s=None, cost=0.0) for name, entry in job.on.items()})
            for job in self.instance.jobs
        )
        return _Rooms(replace(self.instance, objective="cost", jobs=tuple(jobs)))


class _Rooms(MatchingSubject):
    """An infeasible makespan as a matching of its jobs to room on machines, where conflicts show."""

    @property
    def measure(self) -> str:
        """What the objective is called."""
        return "makespan"

    def changes(self, additions: Mapping[str, int]) -> Mapping[str, int]:
        """Return additions to the room on every machine of a pool, each named ``POOL.capacity``."""
        return {f"{pool}.capacity": amount for pool, amount in super().changes(additions).items()}


def _shared(job: Any, shares: Mapping[str, float]) -> tuple[str | None, float]:
    held = {pool: part for pool, part in shares.items() if part > 0}
    speed = sum(part / float(job.on[pool].time_s or 1.0) for pool, part in held.items())
    parts = " and ".join(f"{100 * part:.3g} % of {pool}" for pool, part in sorted(held.items()))
    return parts or None, 1.0 / speed if speed else 0.0


def explain_matching(
    subject: MatchingSubject,
    solution: Solution | None,
    job: str | None,
    option: str | None,
    resolver: Resolver,
    exact_jobs: int,
) -> Explanation:
    """Explain a matching: a makespan by solving again, costs and values by their menus."""
    explain = explain_makespan if subject.instance.objective == "makespan" else explain_by_menus
    return explain(subject, solution, job, option, resolver, exact_jobs)
