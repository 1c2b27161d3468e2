"""A bare `MultipleChoiceKnapsack` explained: its menus are itself, and its variants are other arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Self

import numpy as np

from apportion.explanation.subject import Subject
from apportion.explanation.submodel import held_to, with_capacities
from apportion.formulations.protocol import KnapsackFormulation
from apportion.solving.knapsack_arrays import BareMenus

__all__ = ["BareKnapsack"]


class BareKnapsack(Subject):
    """A bare knapsack; see `Subject`."""

    @cached_property
    def menus(self) -> KnapsackFormulation:
        """The arrays as menus."""
        return BareMenus(self.instance)

    def with_more(self, additions: Mapping[str, int]) -> Self:
        """Return the knapsack with more of some capacities."""
        extra = [additions.get(name, 0) for name in self.instance.capacity_names]
        return type(self)(
            with_capacities(self.instance, self.instance.capacities + np.array(extra, dtype=np.int64))
        )

    def without(self, names: Sequence[str]) -> Self:
        """Return the knapsack with some jobs left out; the other jobs keep their numbers."""
        index = {name: job for job, name in enumerate(self.menus.job_names())}
        changed = self.instance
        for name in names:
            changed = held_to(changed, index[name], -1)
        return type(self)(changed)
