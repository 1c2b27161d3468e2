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
from apportion.registry import FORMULATIONS, FormulationEntry, formulation
from apportion.solving.assignment import AssignmentStructure, BesideTenants
from apportion.solving.assignment_arrays import BareAssignment
from apportion.solving.knapsack import KnapsackStructure
from apportion.solving.knapsack_arrays import BareMenus
from apportion.solving.placement import PlacedStructure
from apportion.solving.structure import Structure
from apportion.solving.subject import Subject, kind_of_any

__all__ = ["Compiler", "compiled", "entry_of", "menus_of_tenants", "structure_of", "structured"]

Compiler = Callable[[Subject, FormulationEntry], Structure]
"""From an instance and an entry of the registry to the structured model."""


def compiled(subject: Subject, entry: FormulationEntry) -> Formulation:
    """Return the formulation of an instance as an entry of the registry says, a bare model's as it is."""
    if isinstance(subject, MultipleChoiceKnapsack):
        return BareMenus(subject)
    if isinstance(subject, Assignment):
        return BareAssignment(subject)
    found = entry.compile(subject)
    if not is_tenanted(subject):
        return found
    if entry.levels is not None:  # its rows are the limits of tenants
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
    if entry.levels is not None:
        plain = formulation(kind_of_any(subject).name, None).compile(subject)
        return BesideTenants(cast(AssignmentFormulation, plain))
    if entry.produces == "linear":
        entry = formulation(kind_of_any(subject).name, None)
    found = compile(subject, entry)
    return structure_of(found, entry)


def entry_of(subject: Subject, name: str | None) -> FormulationEntry:
    """Return the formulation of a name; without one the first of the kind that takes what is solved.

    Raises
    ------
    InvalidOption
        If the kind has none of that name.
    """
    kind = kind_of_any(subject)
    first = formulation(kind.name, name)
    if name is not None or first.produces == "knapsack" or not is_tenanted(subject):
        return first
    sums = kind.offering is not None and kind.offering.sums(subject)
    entries = FORMULATIONS[kind.name].values()
    return next(one for one in entries if (one.produces == "knapsack" if sums else one.levels is not None))


def menus_of_tenants(subject: Subject, name: str | None) -> Formulation:
    """Return the menus in which the levels of tenants are asked; see `entry_of`."""
    entry = entry_of(subject, name)
    return compiled(subject, entry if entry.levels is None else entry.levels)


def structure_of(found: Formulation, entry: FormulationEntry) -> Structure:
    """Return the structured model of a formulation that an entry has made."""
    if entry.produces == "assignment":
        return AssignmentStructure(cast(AssignmentFormulation, found))
    if entry.on_nodes:
        return PlacedStructure(cast(PlacedFormulation, found))
    return KnapsackStructure(cast(KnapsackFormulation, found))
