"""A matching of costs or values as menus: one option per machine, whose uses fill that machine's room."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.core.errors import InvalidOption
from apportion.formulations.matching.by_machine import MatchingByMachine
from apportion.formulations.protocol import Plan
from apportion.instances.matching import MatchingInstance
from apportion.models.lowering import Lowered, OptionLabels, lower
from apportion.models.multiple_choice import MultipleChoiceKnapsack

__all__ = ["MatchingMenus"]

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
    behind
        The pool behind every capacity.
    relaxes
        Whether a choice that keeps the capacities may not fit onto the machines: a pool is kept in sum whose
        jobs differ.
    own_solvers
        True: those of matchings know more than menus say.
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
        self.behind = tuple(names)
        self.relaxes = self._formulation.relaxes
        self.own_solvers = True
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

    def more(self, capacity: str, amount: int) -> tuple[str, int]:
        """Return the pool and the room on each of its machines that give a capacity so much more.

        A capacity is that of one machine, or of a pool in sum.
        """
        at = self.model.capacity_names.index(capacity)
        needed, instance = int(self.model.capacities[at]) + amount, self._formulation.instance
        pool = next(machine for machine in instance.machines if machine.id == self.behind[at])
        step = math.gcd(*(job.on[pool.id].uses for job in instance.jobs if pool.id in job.on)) or 1
        machines = pool.count if self.behind.count(pool.id) == 1 else 1  # kept in sum, or one by one
        each = -(-needed // (machines * step)) * step if machines > 1 else needed
        return pool.id, max(each - int(pool.capacity or 0), 1)

    def exact_values(self) -> list[Fraction]:
        """Return the values themselves."""
        return list(map(Fraction, self.model.values.tolist()))

    def plan(self, choice: NDArray[np.int64]) -> Plan:
        """Return the plan of a choice."""
        return self._formulation.plan(choice)

    def choice(self, plan: Any) -> NDArray[np.int64] | None:
        """Return the entries of a plan."""
        return self._formulation.choice(plan)

    def present(self) -> None:
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

    def pinned(self, row: int) -> str:
        """Return the pool of an entry: what a job is pinned to."""
        model = self._formulation.model
        return model.pool_names[int(model.pool[model.machine[row]])]

    def demand(self) -> MultipleChoiceKnapsack:
        """Return the menus themselves: they do not depend on the capacities."""
        return self.model
