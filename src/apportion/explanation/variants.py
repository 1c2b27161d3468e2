"""Changed instances, whatever their kind: an instance is edited, a bare knapsack gets other arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from apportion import registry
from apportion.errors import InvalidOption
from apportion.explanation.matching_menus import MatchingMenus
from apportion.explanation.submodel import held_to, with_capacities
from apportion.formulations.protocol import KnapsackFormulation
from apportion.instances import edits
from apportion.instances.freezing import FreezingInstance
from apportion.instances.kinds import Kind, kind_of
from apportion.instances.matching import MatchingInstance
from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.solving.arrays import ARRAYS, ArrayFormulation

__all__ = ["compiled", "fewer", "held", "kind_for", "with_more", "without"]


def kind_for(instance: Any) -> Kind:
    """Return the kind of an instance or of a bare knapsack."""
    return ARRAYS if isinstance(instance, MultipleChoiceKnapsack) else kind_of(instance)


def compiled(instance: Any) -> KnapsackFormulation:
    """Return the menus of an instance.

    Raises
    ------
    InvalidOption
        If its kind has no formulation as menus.
    """
    if isinstance(instance, MultipleChoiceKnapsack):
        bare: Any = ArrayFormulation(instance)  # its plans are arrays, not objects
        return cast(KnapsackFormulation, bare)
    kind = kind_of(instance)
    if isinstance(instance, MatchingInstance) and instance.objective != "makespan":
        return MatchingMenus(instance)
    # a depth that cannot be optimal is still one that can be asked about
    all_depths = "all_depths" if isinstance(instance, FreezingInstance) else None
    entry = registry.formulation(kind.name, all_depths)
    if entry.produces != "knapsack":
        raise InvalidOption(f"instances of kind {kind.name} cannot be explained: they have no menus")
    structure: KnapsackFormulation = entry.compile(instance)
    return structure


def with_more(instance: Any, additions: Mapping[str, int]) -> Any:
    """Return the instance with more of some capacities."""
    if isinstance(instance, MultipleChoiceKnapsack):
        extra = [additions.get(name, 0) for name in instance.capacity_names]
        return with_capacities(instance, instance.capacities + np.array(extra, dtype=np.int64))
    for name, amount in additions.items():
        instance = edits.change_capacity(instance, name, amount)
    return instance


def held(instance: Any, structure: KnapsackFormulation, job: int, row: int) -> Any:
    """Return what is solved to hold a job to a row of its menu, or to leave it out (row -1).

    A matching stays one, because its own solvers know more than the menus say.
    """
    if isinstance(structure, MatchingMenus):
        return edits.pin(instance, {structure.job_names()[job]: "-" if row < 0 else structure.pool_of(row)})
    return held_to(structure.model, job, row)


def fewer(instance: Any, structure: KnapsackFormulation, capacity: int) -> Any:
    """Return what is solved to have one unit of a capacity less; menus are not formed again."""
    if isinstance(structure, MatchingMenus):
        return edits.change_capacity(instance, f"{structure.pools[capacity]}.capacity", -1)
    capacities = structure.model.capacities.copy()
    capacities[capacity] -= 1
    return with_capacities(structure.model, capacities)


def without(instance: Any, names: Sequence[str]) -> Any:
    """Return the instance without some jobs (a bare knapsack keeps them, left out)."""
    if isinstance(instance, MultipleChoiceKnapsack):
        index = {name: job for job, name in enumerate(compiled(instance).job_names())}
        for name in names:
            instance = held_to(instance, index[name], -1)
        return instance
    return edits.remove_jobs(instance, names)
