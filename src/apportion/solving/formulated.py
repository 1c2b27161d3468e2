"""What a knapsack and an assignment share on the solve path: most of what is asked of their formulations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from apportion.formulations.protocol import AssignmentFormulation, KnapsackFormulation
from apportion.options import Point
from apportion.report import Report

__all__ = ["Formulated"]

_F = TypeVar("_F", AssignmentFormulation, KnapsackFormulation)


@dataclass(frozen=True, slots=True)
class Formulated(Generic[_F]):
    """The structured model of an instance; see `Structure` for what every method says.

    Attributes
    ----------
    formulation
        The formulation, whose model it is.
    """

    formulation: _F

    @property
    def capacity_names(self) -> tuple[str, ...]:
        """Names of the capacities that multipliers price."""
        return self.formulation.model.capacity_names

    @property
    def value_error(self) -> float:
        """What the formulation says of its rounding."""
        return self.formulation.value_error

    def check(self, point: Point) -> Report:
        """Check a point against the model."""
        return self.formulation.model.check(point)

    def point(self, plan: object) -> Point | None:
        """Return the point of a plan, as far as it fits."""
        return self.formulation.choice(plan)
