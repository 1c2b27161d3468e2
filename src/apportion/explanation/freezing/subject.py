"""Layer freezing explained: every depth may be asked about, and a frozen job says what bounds its depth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.explanation.by_menus import explain_by_menus
from apportion.explanation.freezing.depth import with_depth
from apportion.explanation.resolver import Resolver
from apportion.explanation.result import Explanation
from apportion.explanation.subject import Subject
from apportion.formulations.protocol import KnapsackFormulation
from apportion.instances import edits
from apportion.instances.freezing.edits import WAITING
from apportion.instances.freezing.nodes import NodeWeights
from apportion.solution import Solution

__all__ = ["FreezingSubject", "explain_freezing"]


class FreezingSubject(Subject):
    """A round of layer freezing; see `Subject`."""

    formulation = "all_depths"  # a depth that cannot be optimal is still one that can be asked about

    @property
    def settles(self) -> bool:
        """Whether the instance names no nodes that a choice would have to be placed on."""
        return not self.instance.gpus_per_node

    def held(self, menus: KnapsackFormulation, job: int, row: int) -> Any:
        """Return the round with a job held to a configuration: where nodes are told, it must lie on them."""
        if self.settles:
            return super().held(menus, job, row)
        wanted = WAITING if row < 0 else menus.option_name(row)
        return edits.pin(self.instance, {menus.job_names()[job]: wanted})

    def fewer(self, menus: KnapsackFormulation, capacity: int) -> Any:
        """Return the round with one GPU fewer, or a lower cap; where nodes are told, one is smaller then."""
        if self.settles:
            return super().fewer(menus, capacity)
        return edits.change_capacity(self.instance, menus.model.capacity_names[capacity], -1)

    def start(self, solution: Solution, rows: NDArray[np.int64]) -> Any:
        """Return the warm start of `fewer`: rows of the menus, or the solution where variants are rounds."""
        return rows if self.settles else solution

    def priced_menus(self, multipliers: Mapping[str, float] | None) -> KnapsackFormulation:
        """Return the menus with the capacities of node weights that multipliers name.

        Without them a choice that lies on no nodes would count as the better one.
        """
        menus = self.menus
        for name in multipliers or ():
            weights = NodeWeights.named(self.instance, name)
            if weights is not None:
                menus = menus.bounded(weights.gpu_type, weights.weights)  # type: ignore[attr-defined]
        return menus


def explain_freezing(
    subject: FreezingSubject,
    solution: Solution | None,
    job: str | None,
    option: str | None,
    resolver: Resolver,
    exact_jobs: int,
) -> Explanation:
    """Explain a round by its menus, and every job's depth beside its GPUs."""
    return explain_by_menus(subject, solution, job, option, resolver, exact_jobs, remarked=with_depth)
