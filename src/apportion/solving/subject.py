"""What may be solved, an instance or a bare model, and its kind."""

from __future__ import annotations

from apportion.instances.kinds import Instance, Kind, kind_of
from apportion.models.assignment import Assignment
from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.solving.assignment_arrays import ASSIGNMENT
from apportion.solving.knapsack_arrays import ARRAYS

__all__ = ["Subject", "kind_of_any"]

Subject = Instance | MultipleChoiceKnapsack | Assignment
"""Whatever may be solved."""


def kind_of_any(subject: Subject) -> Kind:
    """Return the kind of an instance or of a bare model; ``TypeError`` for anything else."""
    if isinstance(subject, Assignment):
        return ASSIGNMENT
    return ARRAYS if isinstance(subject, MultipleChoiceKnapsack) else kind_of(subject)
