"""From what is to be solved to its structured model."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from apportion.errors import InvalidOption
from apportion.formulations.placed_tenants import PlacedTenantedMenus
from apportion.formulations.protocol import (
    AssignmentFormulation,
    Formulation,
    KnapsackFormulation,
    PlacedFormulation,
)
from apportion.formulations.tenants import TenantedMenus
from apportion.instances.tenants.ledger import is_tenanted
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

__all__ = ["compiled", "structure_of", "structured"]


def compiled(subject: Subject, entry: FormulationEntry) -> Formulation:
    """Return the formulation of an instance as an entry of the registry says, a bare model's as it is."""
    if isinstance(subject, MultipleChoiceKnapsack):
        return BareMenus(subject)
    if isinstance(subject, Assignment):
        return BareAssignment(subject)
    found = entry.compile(subject)
    if not is_tenanted(subject):
        return found
    if entry.produces != "knapsack":
        raise InvalidOption(f"formulation {entry.name!r} knows no tenants; leave it out, or remove them")
    if entry.on_nodes:
        return PlacedTenantedMenus(cast(PlacedFormulation, found), subject)
    return TenantedMenus(cast(KnapsackFormulation, found), subject)


def structured(
    subject: Subject,
    entry: FormulationEntry,
    compile: Callable[[Subject, FormulationEntry], Formulation] = compiled,
) -> Structure:
    """Return the structured model of an instance as an entry says; for a linear entry, its kind's first.

    A linear formulation is solved beside it: the structured model carries plans over, and certifies.

    Parameters
    ----------
    subject, entry
        What is compiled, and how.
    compile
        What `compiled` does, where somebody remembers earlier formulations.
    """
    if entry.produces == "linear":
        entry = formulation(kind_of_any(subject).name, None)
    found = compile(subject, entry)
    return structure_of(found, entry)


def structure_of(found: Formulation, entry: FormulationEntry) -> Structure:
    """Return the structured model of a formulation that an entry has made."""
    if entry.produces == "assignment":
        return AssignmentStructure(cast(AssignmentFormulation, found))
    if entry.on_nodes:
        return PlacedStructure(cast(PlacedFormulation, found))
    return KnapsackStructure(cast(KnapsackFormulation, found))
