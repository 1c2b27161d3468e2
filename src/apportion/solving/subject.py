"""What may be solved, instance or bare model: its kind and its formulation."""

from __future__ import annotations

from typing import Any

from apportion import registry
from apportion.instances.kinds import Kind, kind_of
from apportion.models.assignment import Assignment
from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.solving.arrays import ARRAYS, ArrayFormulation
from apportion.solving.bare_assignment import ASSIGNMENT, AssignmentFormulation

__all__ = ["compiled", "kind_of_any"]


def kind_of_any(instance: Any) -> Kind:
    """Return the kind of an instance or of a bare model; ``TypeError`` for anything else."""
    if isinstance(instance, Assignment):
        return ASSIGNMENT
    return ARRAYS if isinstance(instance, MultipleChoiceKnapsack) else kind_of(instance)


def compiled(instance: Any, kind: Kind, name: str | None) -> Any:
    """Return the formulation of an instance by name, its kind's first one for ``None``."""
    if kind is ARRAYS:
        return ArrayFormulation(instance)
    if kind is ASSIGNMENT:
        return AssignmentFormulation(instance)
    return registry.formulation(kind.name, name).compile(instance)
