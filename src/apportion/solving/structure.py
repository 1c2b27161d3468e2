"""What the solve call asks of a structured model, whichever it is: a menu knapsack or an assignment.

Both say ``num_capacities``, ``capacity_names``, ``check(point)`` and ``objective(point)`` themselves.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.models.assignment import Assignment
from apportion.models.multiple_choice import MultipleChoiceKnapsack

__all__ = ["StructuredModel", "magnitude", "point_type", "quick_bound", "repaired", "start", "structured"]

StructuredModel = MultipleChoiceKnapsack | Assignment


def structured(formulation: Any) -> Any:
    """Return the structured model of a formulation."""
    return formulation.model


def repaired(model: StructuredModel, point: NDArray[Any]) -> NDArray[Any] | None:
    """Turn an earlier point into a feasible one; ``None`` where the greedy repair ends."""
    if isinstance(model, Assignment):
        from apportion.solvers.assignment.repair import repaired as assigned

        return assigned(model, point)
    from apportion.solving.warm_start import repaired as chosen

    return chosen(model, point)


def start(model: StructuredModel) -> tuple[NDArray[Any] | None, NDArray[np.float64] | None]:
    """Return a feasible point and multipliers for a general solver, each ``None`` where there is none."""
    if isinstance(model, Assignment):
        from apportion.solvers.assignment.engine import start as assigned

        return assigned(model)
    from apportion.solvers.exact import start as chosen

    return chosen(model)


def quick_bound(model: StructuredModel, multipliers: NDArray[np.float64], value_error: float) -> float | None:
    """Return the weak-duality bound rounded outward, or ``None`` where only exact arithmetic decides it."""
    if isinstance(model, Assignment):
        from apportion.models.assignment_bounds import weak_duality_bound

        return weak_duality_bound(model, multipliers)
    from apportion.models.lagrangian import lagrangian_bound

    return lagrangian_bound(model, multipliers, value_error)


def point_type(model: StructuredModel) -> type[Any]:
    """Return the dtype of the model's points."""
    return np.float64 if isinstance(model, Assignment) and model.divisible else np.int64


def magnitude(model: StructuredModel, point: NDArray[Any] | None, objective: float) -> float:
    """Return the sum of magnitudes that add up to an objective: the scale of its rounding."""
    if point is None or point_type(model) is np.float64:
        return abs(objective)
    chosen = np.abs(model.values[point[point >= 0]])
    return max(abs(objective), math.fsum(chosen) if chosen.size < 10_000 else float(chosen.sum()))
