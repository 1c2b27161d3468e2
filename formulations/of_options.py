"""A multiple-choice knapsack from the options of any kind: what is solved where a kind brings no formulation.

A kind whose menus are long, or compiled again and again, brings one in vectors instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.formulations.protocol import Plan
from apportion.instances.columns import listed
from apportion.instances.kinds import kind_of
from apportion.models.lowering import Lowered, OptionLabels, lower
from apportion.models.multiple_choice import MultipleChoiceKnapsack, Present

__all__ = ["OptionMenus"]


class OptionMenus:
    """The options of an instance; see `apportion.formulations.protocol.KnapsackFormulation`."""

    def __init__(self, instance: Any) -> None:
        kind = kind_of(instance)
        given = listed(kind, instance, tenants=False)
        names = given.names()
        named = np.array([name is not None for name in names], dtype=np.bool_)
        owner, self._jobs = given.owner, list(given.jobs)
        assert kind.option_set is not None
        self._option_set, self._instance = kind.option_set, instance
        self._names = [str(name) for name in names if name is not None]
        numbers = given.values if not isinstance(given.values, np.ndarray) else given.values.tolist()
        exact = [Fraction(*one) if isinstance(one, tuple) else Fraction(one) for one in numbers]
        self._exact = [value for value, kept in zip(exact, named.tolist(), strict=True) if kept]
        values = np.array([float(value) for value in self._exact], dtype=np.float64)
        rounded = not isinstance(given.values, np.ndarray)
        self.value_error = float(np.finfo(np.float64).eps) * float(np.abs(values).sum()) if rounded else 0.0
        sizes = np.bincount(owner[named], minlength=len(self._jobs))
        self.model = MultipleChoiceKnapsack.from_arrays(
            values,
            given.uses[named],
            np.concatenate(([0], np.cumsum(sizes))).astype(np.int64),
            list(given.rooms),
            required=np.bincount(owner[~named], minlength=len(self._jobs)) == 0,
            sense="maximize" if kind.maximizes(instance) else "minimize",
            capacity_names=list(given.capacities),
        )

    def exact_values(self) -> list[Fraction]:
        """Return what every option is worth."""
        return self._exact

    def plan(self, choice: NDArray[np.int64]) -> Plan:
        """Return the plan of a choice."""
        taken = zip(self._jobs, choice.tolist(), strict=True)
        assert self._option_set.plan is not None
        return self._option_set.plan(
            self._instance, {job: self._names[row] for job, row in taken if row >= 0}
        )

    def choice(self, plan: Any) -> NDArray[np.int64] | None:
        """Return the choice of a plan as far as it fits; ``None`` if it is no plan."""
        try:
            taken = self._option_set.taken(self._instance, plan)
        except (AttributeError, LookupError, TypeError):
            return None
        bounds = self.model.offsets.tolist()
        rows = []
        for job, first, last in zip(self._jobs, bounds[:-1], bounds[1:], strict=True):
            own = self._names[first:last]
            rows.append(first + own.index(name) if (name := taken.get(job)) in own else -1)
        return np.array(rows, dtype=np.int64)

    def present(self) -> Present | None:
        """Return the option that every job has now, ``None`` if nobody has any."""
        options = [[*self._option_set.options(self._instance, job)] for job in self._instance.jobs]
        held = [next((option.name for option in own if option.current), None) for own in options]
        if not any(held):
            return None
        named = [option for own in options for option in own if option.name is not None]
        bounds = self.model.offsets.tolist()
        found = [
            first + self._names[first:last].index(name) if name in self._names[first:last] else -1
            for name, first, last in zip(held, bounds[:-1], bounds[1:], strict=True)
        ]
        rows = np.array(found, dtype=np.int64)
        return Present.of(rows, np.array([option.idle for option in named], dtype=np.bool_))

    def lowered(self) -> Lowered:
        """Return the MILP, its columns named ``x[job,option]``."""
        return lower(self.model, OptionLabels(self.model.offsets, self._jobs, self._names), self._jobs)

    def job_names(self) -> Sequence[str]:
        """Return the jobs' ids."""
        return self._jobs

    def option_name(self, row: int) -> str:
        """Return the option's name."""
        return self._names[row]

    def demand(self) -> MultipleChoiceKnapsack:
        """Return the menus themselves; a kind whose menus depend on its capacities brings a formulation."""
        return self.model
