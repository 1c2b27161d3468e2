"""An assignment on the solve path."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np

from apportion.formulations.protocol import AssignmentFormulation
from apportion.models.assignment import Assignment
from apportion.options import Multipliers, Point, SolveOptions, Start
from apportion.outcome import Outcome
from apportion.registry import Backend
from apportion.registry.calls import AssignmentSolver
from apportion.solving.formulated import Formulated
from apportion.solving.structure import Lowering, PlanOrPoint

__all__ = ["AssignmentStructure", "BesideTenants"]


class AssignmentStructure(Formulated[AssignmentFormulation]):
    """The assignment of an instance; see `Structure` for what every method says."""

    __slots__ = ()

    @property
    def model(self) -> Assignment:
        """The assignment."""
        return self.formulation.model

    @property
    def relaxes(self) -> bool:
        """Whether a choice need not fit on the machines of a pool."""
        return self.formulation.relaxes

    def objective(self, point: Point) -> float:
        """Return the makespan, the cost or the value."""
        return self.model.objective(point)

    def plan(self, point: Point, seconds: float | None) -> PlanOrPoint | None:
        """Return the plan of a choice or of shares."""
        return self.formulation.plan(np.asarray(point, np.float64 if self.model.divisible else np.int64))

    def repaired(self, point: Point) -> Point | None:
        """Move jobs until every machine's room is kept."""
        from apportion.solvers.assignment.repair import repaired

        return repaired(self.model, point)

    def greedy(self, seconds: float | None) -> Start:
        """Return a first point and prices."""
        from apportion.solvers.matching import start

        point, prices = start(self.model)
        return Start(point, hint=prices)

    def bound(self, multipliers: Multipliers) -> float | None:
        """Return the weak-duality bound of the prices."""
        from apportion.models.assignment_bounds import weak_duality_bound

        return weak_duality_bound(self.model, multipliers)

    def lowered(self, start: Point | None) -> Lowering:
        """Return the linear model of the assignment."""
        lowered = self.formulation.lowered()
        known = None if start is None else lowered.point(start)
        pools = not self.model.divisible and bool((self.model.counts > 1).any())
        return Lowering(lowered.model, known, lowered.choice, relaxed=pools)

    def ask(self, backend: Backend, options: SolveOptions, start: Start) -> Outcome:
        """Ask an assignment solver."""
        return cast(AssignmentSolver, backend.load())(self.model, options, start)


class BesideTenants(AssignmentStructure):
    """An assignment whose jobs belong to tenants, without their limits: a relaxation of what is asked.

    Its prices bound the whole; a greedy point of it may be no plan.
    """

    __slots__ = ()

    def greedy(self, seconds: float | None) -> Start:
        """Return prices alone."""
        return replace(super().greedy(seconds), point=None)
