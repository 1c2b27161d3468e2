"""What the solve path asks of an instance's structured model, whether it is a knapsack or an assignment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from apportion.formulations.protocol import Plan
from apportion.models.assignment import Assignment
from apportion.models.linear import LinearModel
from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.options import Multipliers, Point, SolveOptions, Start
from apportion.outcome import Outcome
from apportion.registry import Backend
from apportion.report import Report

__all__ = ["Lowering", "PlanOrPoint", "Structure", "better"]

PlanOrPoint = Plan | Point
"""A plan as it stands in JSON; of a bare model, which has no names, its point."""


@dataclass(frozen=True, slots=True, eq=False)
class Lowering:
    """A structured model as a linear one, for the general solvers.

    Attributes
    ----------
    model
        The linear model.
    start
        float64 [columns]: the start's point, ``None`` without one.
    point
        Carries column values back to the structured model.
    relaxed
        Whether the linear model leaves something out: its bound holds, its optimum proves no plan optimal.
    """

    model: LinearModel
    start: NDArray[np.float64] | None
    point: Callable[[NDArray[np.float64]], Point]
    relaxed: bool = False


class Structure(Protocol):
    """A structured model together with the formulation that it comes from."""

    @property
    def capacity_names(self) -> tuple[str, ...]:
        """Names of the capacities that multipliers price."""
        ...

    @property
    def model(self) -> MultipleChoiceKnapsack | Assignment:
        """The structured model."""
        ...

    @property
    def value_error(self) -> float:
        """How far rounding of the model's values may move any sum of them from what the instance says."""
        ...

    @property
    def relaxes(self) -> bool:
        """Whether the model is a relaxation that another formulation of the instance takes the place of."""
        ...

    def check(self, point: Point) -> Report:
        """Check a point against the model alone, whatever it is."""
        ...

    def objective(self, point: Point) -> float:
        """Return the objective of a feasible point in floating point."""
        ...

    def plan(self, point: Point, seconds: float | None) -> PlanOrPoint | None:
        """Return the plan of a feasible point, ``None`` if it was not placed within the seconds."""
        ...

    def point(self, plan: object) -> Point | None:
        """Return the point of a plan as far as it fits this instance; ``None`` if it is no plan."""
        ...

    def repaired(self, point: Point) -> Point | None:
        """Turn an earlier point into a feasible one; ``None`` where the greedy repair ends."""
        ...

    def greedy(self, seconds: float | None) -> Start:
        """Return a feasible point and multipliers for a general solver, as far as there are any.

        It takes about so many seconds at most, as far as its solvers look at the clock.
        """
        ...

    def bound(self, multipliers: Multipliers) -> float | None:
        """Return the weak-duality bound rounded outward, ``None`` where only exact arithmetic decides it."""
        ...

    def lowered(self, start: Point | None) -> Lowering:
        """Return the model as a linear one, with the instance's own names."""
        ...

    def ask(self, backend: Backend, options: SolveOptions, start: Start) -> Outcome:
        """Ask a backend that accepts this type of model."""
        ...


def better(structure: Structure, maximizes: bool, first: Point | None, second: Point | None) -> Point | None:
    """Return the feasible point with the better objective, the first of equals; one may be absent."""
    if first is None or second is None:
        return second if first is None else first
    gain = structure.objective(second) - structure.objective(first)
    return second if (gain if maximizes else -gain) > 0 else first
