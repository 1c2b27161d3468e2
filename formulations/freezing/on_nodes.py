"""Layer freezing on nodes: the knapsack of configurations, and what it does not say about placement.

Without nodes the knapsack is the instance. With them it is a relaxation: GPUs may add up and still lie on no
set of nodes. A choice that cannot be placed is answered by one more capacity that it exceeds and no plan that
can be placed does, so the bound stays valid:

* *node weights* w(g) with capacity sum of W over the nodes, valid whatever the jobs are
  (`apportion.instances.freezing.nodes`), and
* where weights do not show it, *exclusion*: of the jobs S that cannot lie on the nodes together with g_j GPUs
  each, at most |S| - 1 get as many or more, because fewer GPUs of a job never need more room.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from apportion.formulations.freezing.by_configuration import FreezingByConfiguration
from apportion.formulations.protocol import Plan
from apportion.instances.freezing import FreezingInstance
from apportion.instances.freezing.nodes import NodeWeights, TypeNodes, nodes_of
from apportion.models.packing import NodePacking, heaviest

__all__ = ["FreezingOnNodes"]


class FreezingOnNodes(FreezingByConfiguration):
    """`FreezingByConfiguration`, its choices placed onto the nodes of the GPU types that have some."""

    __slots__ = ("_excluded", "_held", "_nodes")

    def __init__(self, instance: FreezingInstance, separate_depth: bool = True) -> None:
        super().__init__(instance, separate_depth)
        self.see_nodes(instance)

    def patched(self, instance: FreezingInstance) -> Self | None:
        """Return the formulation of a changed instance, made of this one; ``None`` where little stays."""
        other = super().patched(instance)
        if other is not None:
            other.see_nodes(instance)
        return other

    def see_nodes(self, instance: FreezingInstance) -> None:
        """Look at the nodes of the instance that was compiled, and at who holds which."""
        described = ((name, nodes_of(instance, name)) for name in instance.gpus)
        self._nodes: dict[str, TypeNodes] = {name: nodes for name, nodes in described if nodes is not None}
        self._excluded = 0
        self._held = _held_nodes(instance, self._nodes)

    @property
    def relaxes(self) -> bool:
        """Whether a choice must also lie on nodes."""
        return bool(self._nodes)

    def packings(self, choice: NDArray[np.int64]) -> dict[str, NodePacking]:
        """Return what a choice asks of the nodes of every GPU type that it uses and that has nodes."""
        found = {}
        for index, (name, jobs, gpus) in enumerate(self._members(choice)):
            if jobs.size and name in self._nodes:
                nodes = self._nodes[name]
                current = [
                    self._held.get((job, index, count))
                    for job, count in zip(jobs.tolist(), gpus, strict=True)
                ]
                found[name] = NodePacking(nodes.size, nodes.whole, nodes.rest, tuple(gpus), tuple(current))
        return found

    def plan_on(self, choice: NDArray[np.int64], placed: Mapping[str, Sequence[Sequence[int]]]) -> Plan:
        """Return the plan of a choice with the nodes' names, given per type and job as in `packings`."""
        plan = self.plan(choice)
        for name, jobs, _ in self._members(choice):
            for job, held in zip(jobs.tolist(), placed.get(name, ()), strict=name in placed):
                names = self._nodes[name].names
                job_plan = plan["configuration"][self.instance.jobs[job].id]
                job_plan["nodes"] = [names[node] for node in sorted(held)]
        return plan

    def bounded(self, gpu_type: str, weights: tuple[int, ...]) -> FreezingOnNodes:
        """Return the same with the capacity of node weights w(1), .., w(size) beside the others."""
        most, nodes = heaviest(weights), self._nodes[gpu_type]
        per_count = np.array([0, *weights[:-1], most[-1]], dtype=np.int64)
        gpus = self._gpus
        small = per_count[np.minimum(gpus, nodes.size)]
        use = np.where(gpus > nodes.size, gpus // nodes.size * most[-1], small)
        use[self._types != list(self.instance.gpus).index(gpu_type)] = 0
        capacity = nodes.whole * most[-1] + most[nodes.rest]
        at = self.model.num_capacities - self._excluded  # exclusions stay last, so that they can be cut off
        return self._with(at, use, capacity, NodeWeights(gpu_type, weights).name)

    def excluding(self, gpu_type: str, choice: NDArray[np.int64]) -> FreezingOnNodes:
        """Return the same without the choices that give the jobs of a GPU type as many GPUs or more."""
        index = list(self.instance.gpus).index(gpu_type)
        _, jobs, gpus = self._members(choice)[index]
        least = np.full(len(self.instance.jobs), np.iinfo(np.int64).max)
        least[jobs] = gpus
        owner = self.model.job_of_option()
        use = ((self._types == index) & (self._gpus >= least[owner])).astype(np.int64)
        name = f"excluded choice {self._excluded}"
        return self._with(self.model.num_capacities, use, jobs.size - 1, name, excluded=1)

    def provable(self) -> FreezingOnNodes:
        """Return the same without exclusions: their capacities, the last ones, follow from no closed form."""
        if not self._excluded:
            return self
        kept = self.model.num_capacities - self._excluded
        model = self.model
        return self._of(model.uses[:, :kept], model.capacities[:kept], model.capacity_names[:kept], 0)

    def _members(self, choice: NDArray[np.int64]) -> list[tuple[str, NDArray[np.int64], list[int]]]:
        """Return, per GPU type, its name, the jobs that run on it and their GPUs."""
        rows = np.maximum(choice, 0)
        gpus = np.where(choice >= 0, self._gpus[rows], 0) if self._gpus.size else np.zeros_like(choice)
        types = self._types[rows] if self._types.size else np.zeros_like(choice)
        found = []
        for index, name in enumerate(self.instance.gpus):
            jobs = np.flatnonzero((gpus > 0) & (types == index))
            found.append((name, jobs, gpus[jobs].tolist()))
        return found

    def _with(
        self, at: int, use: NDArray[np.int64], capacity: int, name: str, excluded: int = 0
    ) -> FreezingOnNodes:
        model = self.model
        names = (*model.capacity_names[:at], name, *model.capacity_names[at:])
        uses, capacities = np.insert(model.uses, at, use, axis=1), np.insert(model.capacities, at, capacity)
        return self._of(uses, capacities, names, self._excluded + excluded)

    def _of(self, uses: Any, capacities: Any, names: tuple[str, ...], excluded: int) -> FreezingOnNodes:
        other = copy.copy(self)
        object.__setattr__(other, "_excluded", excluded)
        other.model = self.model.under(np.ascontiguousarray(uses), capacities, names)
        return other


def _held_nodes(
    instance: FreezingInstance, nodes: Mapping[str, TypeNodes]
) -> dict[tuple[int, int, int], tuple[int, ...]]:
    """Return the numbers of the nodes held, by job, type and GPUs: who changes one of them moves anyway."""
    types = {name: index for index, name in enumerate(instance.gpus)}
    numbers: dict[str, dict[str, int]] = {}
    held = {}
    for index, job in enumerate(instance.jobs):
        now = job.current
        if now is None or not isinstance(now.nodes, tuple | list) or now.gpu_type not in nodes:
            continue
        if now.gpu_type not in numbers:
            names = nodes[now.gpu_type].names
            numbers[now.gpu_type] = {name: number for number, name in enumerate(names)}
        known = numbers[now.gpu_type]
        held[index, types[now.gpu_type], now.gpus] = tuple(sorted(known[name] for name in now.nodes))
    return held
