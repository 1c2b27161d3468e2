"""A multiple-choice knapsack on the solve path."""

from __future__ import annotations

from typing import cast

import numpy as np

from apportion.formulations.protocol import KnapsackFormulation
from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.options import Choice, Multipliers, Point, SolveOptions, Start
from apportion.outcome import Outcome
from apportion.registry import Backend
from apportion.registry.calls import KnapsackSolver
from apportion.solving.choice_repair import repaired
from apportion.solving.formulated import Formulated
from apportion.solving.structure import Lowering, PlanOrPoint

__all__ = ["KnapsackStructure", "rows_of"]


def rows_of(point: Point) -> Choice:
    """Return a checked point as int64 rows."""
    return np.asarray(point, dtype=np.int64)


class KnapsackStructure(Formulated[KnapsackFormulation]):
    """The menus of an instance; see `Structure` for what every method says."""

    __slots__ = ()

    @property
    def model(self) -> MultipleChoiceKnapsack:
        """The menus."""
        return self.formulation.model

    @property
    def relaxes(self) -> bool:
        """Return False: choices that must lie on nodes are placed while they are made."""
        return False

    def objective(self, point: Point) -> float:
        """Return the sum of the chosen values."""
        return self.model.objective(rows_of(point))

    def plan(self, point: Point, seconds: float | None) -> PlanOrPoint | None:
        """Return the plan of a choice."""
        return self.formulation.plan(rows_of(point))

    def repaired(self, point: Point) -> Point | None:
        """Move jobs until every capacity is kept."""
        return repaired(self.model, rows_of(point))

    def greedy(self, seconds: float | None) -> Start:
        """Return a greedy choice and near-optimal multipliers, after about so many seconds at most."""
        from apportion.solvers.exact import start

        choice, multipliers = start(self.model, seconds)
        return Start(choice, hint=multipliers)

    def bound(self, multipliers: Multipliers) -> float | None:
        """Return the Lagrangian bound."""
        from apportion.models.lagrangian import lagrangian_bound

        return lagrangian_bound(self.model, multipliers, self.formulation.value_error)

    def lowered(self, start: Point | None) -> Lowering:
        """Return the MILP of the menus."""
        lowered = self.formulation.lowered()
        known = None if start is None else lowered.point(rows_of(start))
        return Lowering(lowered.model, known, lowered.choice)

    def ask(self, backend: Backend, options: SolveOptions, start: Start) -> Outcome:
        """Ask a knapsack solver; who changes least is preferred."""
        solver = cast(KnapsackSolver, backend.load())
        preferred = self.formulation.preferred()
        return solver(self.model, options, Start(start.point, preferred, start.hint, start.bound))
