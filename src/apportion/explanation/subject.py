"""What is explained: an instance with its menus and prices, and the variants of it that are solved again.

What a kind does differently is a subclass in its own file; `apportion.explanation.kinds` is the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, Self, cast

import numpy as np
from numpy.typing import NDArray

from apportion import registry
from apportion.errors import InvalidOption
from apportion.explanation.submodel import held_to, with_capacities
from apportion.formulations.protocol import KnapsackFormulation
from apportion.instances import edits
from apportion.solution import Solution
from apportion.solving.subject import kind_of_any

__all__ = ["Subject"]


class Subject:
    """An instance whose answers are explained by its menus; what most kinds need is said here.

    Parameters
    ----------
    instance
        The instance.

    Attributes
    ----------
    formulation
        The formulation whose menus explain the kind; ``None`` for the kind's first one.
    """

    formulation: str | None = None

    def __init__(self, instance: Any) -> None:
        self.instance = instance
        self.kind = kind_of_any(instance)

    @property
    def name(self) -> str:
        """The instance's name, empty if it has none."""
        return str(getattr(self.instance, "name", ""))

    @property
    def sense(self) -> Literal["maximize", "minimize"]:
        """Whether more of the objective is better."""
        return "maximize" if self.kind.maximizes(self.instance) else "minimize"

    @property
    def measure(self) -> str:
        """What the objective is called."""
        return self.kind.measure(self.instance)

    @cached_property
    def menus(self) -> KnapsackFormulation:
        """The menus of the instance; `InvalidOption` if its kind has no formulation as menus."""
        entry = registry.formulation(self.kind.name, self.formulation)
        if entry.produces != "knapsack":
            raise InvalidOption(f"instances of kind {self.kind.name} cannot be explained: they have no menus")
        return cast(KnapsackFormulation, entry.compile(self.instance))

    def shown(self, capacity: str) -> bool:
        """Return whether a capacity of the menus is explained on its own."""
        return True

    @property
    def keeps(self) -> bool:
        """Whether the menus hold shares that are due: what they refute is refuted beside these alone."""
        return False

    @property
    def gains_with_more(self) -> bool:
        """Whether more of a capacity never makes the objective worse: nothing else is due before it."""
        return True

    @property
    def settles(self) -> bool:
        """Whether every choice that keeps the capacities is a plan: nothing is left to place."""
        return True

    def changes(self, additions: Mapping[str, int]) -> Mapping[str, int]:
        """Return additions to capacities of the menus by the names and in the units that an edit takes."""
        return additions

    def priced_menus(self, multipliers: Mapping[str, float] | None) -> KnapsackFormulation:
        """Return the menus with every capacity that a certificate's multipliers name."""
        return self.menus

    def prices(self, menus: KnapsackFormulation, multipliers: Mapping[str, float]) -> NDArray[np.float64]:
        """Return float64 [capacities]: the price of each, from a certificate's multipliers."""
        given = [multipliers.get(name, 0.0) for name in menus.model.capacity_names]
        return np.array(given, dtype=np.float64)

    def shares(self, plan: Any) -> dict[str, tuple[str | None, float]]:
        """Return the option of every job in a plan and its part of the objective."""
        rows = self.menus.choice(plan)
        assert rows is not None
        values = self.menus.model.values
        return {
            name: (None, 0.0) if row < 0 else (self.menus.option_name(row), float(values[row]))
            for name, row in zip(self.menus.job_names(), rows.tolist(), strict=True)
        }

    def with_more(self, additions: Mapping[str, int]) -> Self:
        """Return the subject with more of some capacities; its menus may get longer with them."""
        changed = self.instance
        for name, amount in self.changes(additions).items():
            changed = edits.change_capacity(changed, name, amount)
        return type(self)(changed)

    def wider(self, menus: KnapsackFormulation, capacity: int) -> Self:
        """Return the subject with one unit more of a capacity of its menus."""
        return self.with_more({menus.model.capacity_names[capacity]: 1})

    def without(self, names: Sequence[str]) -> Self:
        """Return the subject without some jobs."""
        return type(self)(edits.remove_jobs(self.instance, names))

    def held(self, menus: KnapsackFormulation, job: int, row: int) -> Any:
        """Return what is solved to hold a job to a row of its menu, or to leave it out (row -1)."""
        return held_to(menus.model, job, row)

    def fewer(self, menus: KnapsackFormulation, capacity: int) -> Any:
        """Return what is solved to have one unit of a capacity less; menus are not formed again."""
        capacities = menus.model.capacities.copy()
        capacities[capacity] -= 1
        return with_capacities(menus.model, capacities)

    def start(self, solution: Solution, rows: NDArray[np.int64]) -> Any:
        """Return the warm start of `fewer` from a plan that still fits."""
        return rows
