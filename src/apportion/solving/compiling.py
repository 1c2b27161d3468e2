"""From what is to be solved to its structured model."""

from __future__ import annotations

from typing import cast

from apportion.formulations.protocol import (
    AssignmentFormulation,
    Formulation,
    KnapsackFormulation,
    PlacedFormulation,
)
from apportion.models.assignment import Assignment
from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.registry import FormulationEntry, formulation
from apportion.solving.assignment import AssignmentStructure
from apportion.solving.assignment_arrays import BareAssignment
from apportion.solving.knapsack import KnapsackStructure
from apportion.solving.knapsack_arrays import BareMenus
from apportion.solving.placement import PlacedStructure
from apportion.solving.structure import Structure
from apportion.solving.subject import Subject, kind_of_any

__all__ = ["compiled", "structured"]


def compiled(subject: Subject, entry: FormulationEntry) -> Formulation:
    """Return the formulation of an instance as an entry of the registry says, a bare model's as it is."""
    if isinstance(subject, MultipleChoiceKnapsack):
        return BareMenus(subject)
    return BareAssignment(subject) if isinstance(subject, Assignment) else entry.compile(subject)


def structured(subject: Subject, entry: FormulationEntry) -> Structure:
    """Return the structured model of an instance as an entry says; for a linear entry, its kind's first.

    A linear formulation is solved beside it: the structured model carries plans over, and certifies.
    """
    if entry.produces == "linear":
        entry = formulation(kind_of_any(subject).name, None)
    found = compiled(subject, entry)
    if entry.produces == "assignment":
        return AssignmentStructure(cast(AssignmentFormulation, found))
    if entry.on_nodes:
        return PlacedStructure(cast(PlacedFormulation, found))
    return KnapsackStructure(cast(KnapsackFormulation, found))
