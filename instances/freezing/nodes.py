"""Which nodes there are, and whether the jobs of a plan lie on them as they must.

A job with at most a node's GPUs lies on one node, a larger one fills whole nodes (the rule of Sia, SOSP
2023, section 3.3). `node_violations` is the meaning; it shares nothing with what finds a placement.

*Node weights* bound what can be placed, whatever the jobs are: give a job of g GPUs on one node the weight
w(g) >= 0. No set of jobs that fits onto a node of n GPUs weighs more than

    W(n) = max { sum_g w(g) c_g :  sum_g g c_g <= n,  c integer },

so all jobs of a GPU type together weigh at most the sum of W over its nodes, if one that fills m whole nodes
of R GPUs counts m W(R). For w(g) = g this is the capacity itself.

The fields of a round of layer freezing, as its rules and its nodes read them before it is complete.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from msgspec import UNSET, UnsetType

from apportion.core.outcome import Violation
from apportion.instances.freezing.job import FreezingJob
from apportion.instances.tenants.schema import Fairness, Tenant

__all__ = ["FreezingRound", "NodeWeights", "TypeNodes", "node_counts", "node_violations", "nodes_of"]


class FreezingRound(Protocol):
    """A `FreezingInstance`, whose docstring says what its fields mean; it imports its rules, not they it."""

    @property
    def gpus(self) -> Mapping[str, int]:
        """GPUs by type."""
        ...

    @property
    def gpus_per_node(self) -> Mapping[str, int]:
        """Size of a node by GPU type."""
        ...

    @property
    def nodes(self) -> Mapping[str, Sequence[str]] | UnsetType:
        """Names of the nodes by GPU type."""
        ...

    @property
    def jobs(self) -> Sequence[FreezingJob]:
        """The jobs."""
        ...

    @property
    def round_s(self) -> float:
        """Length of the round in seconds."""
        ...

    @property
    def power(self) -> float:
        """The exponent of the objective."""
        ...

    @property
    def queue_penalty(self) -> float:
        """What a job that gets nothing adds to the objective."""
        ...

    @property
    def penalty_cap_millionths(self) -> int | None:
        """Most frozen penalty of all jobs together."""
        ...

    @property
    def tenants(self) -> Sequence[Tenant] | UnsetType:
        """The tenants, where there are any."""
        ...

    @property
    def fairness(self) -> Fairness | UnsetType:
        """What is shared out fairly, where anything is."""
        ...


@dataclass(frozen=True, slots=True)
class TypeNodes:
    """The nodes of one GPU type.

    Attributes
    ----------
    names
        Every node's, a smaller one last.
    size
        GPUs of a whole node.
    whole
        How many whole nodes there are.
    rest
        GPUs of the smaller node, 0 without one.
    """

    names: Sequence[str]
    size: int
    whole: int
    rest: int

    def room(self) -> list[int]:
        """Return the GPUs of every node."""
        return [self.size] * self.whole + [self.rest] * (self.rest > 0)

    def needed(self, gpus: int) -> int | None:
        """Return how many nodes a job lies on; ``None`` if it neither fits onto one nor fills several."""
        if gpus <= self.size:
            return 1
        return None if gpus % self.size else gpus // self.size


def node_counts(gpus: int, size: int) -> tuple[int, int]:
    """Return how many whole nodes there are, and the GPUs of the smaller one beside them."""
    return gpus // size, gpus % size


def nodes_of(instance: FreezingRound, gpu_type: str) -> TypeNodes | None:
    """Return the nodes of a GPU type, ``None`` where the instance does not say their size."""
    size = instance.gpus_per_node.get(gpu_type)
    if size is None:
        return None
    whole, rest = node_counts(instance.gpus[gpu_type], size)
    named = None if instance.nodes is UNSET else instance.nodes.get(gpu_type)
    names = tuple(map(str, range(whole + (rest > 0)))) if named is None else named
    return TypeNodes(names, size, whole, rest)


def node_violations(instance: FreezingRound, chosen: Mapping[str, Mapping[str, Any]]) -> Iterator[Violation]:
    """Yield what is wrong with the nodes of admissible configurations.

    A configuration may leave its nodes out; then they are placed largest first where they fit first. Where
    every count divides the next larger one that is exact; else a plan that is refused may be placed by
    telling its nodes.
    """
    by_type: dict[str, dict[str, Mapping[str, Any]]] = {}
    for job, configuration in chosen.items():
        by_type.setdefault(configuration["gpu_type"], {})[job] = configuration
    for gpu_type, members in by_type.items():
        nodes = nodes_of(instance, gpu_type)
        if nodes is not None:
            yield from _on_nodes(gpu_type, nodes, members)
            continue
        for job, configuration in members.items():
            if "nodes" in configuration:
                yield Violation("placement", job, f"is given nodes, but {gpu_type} has no size of a node")


def _on_nodes(
    gpu_type: str, nodes: TypeNodes, members: Mapping[str, Mapping[str, Any]]
) -> Iterator[Violation]:
    room = dict(zip(nodes.names, nodes.room(), strict=True))
    untold: list[int] = []
    for job, configuration in members.items():
        gpus, needed = configuration["gpus"], nodes.needed(configuration["gpus"])
        if needed is None:
            continue  # the rule of whole nodes reports it
        if "nodes" not in configuration:
            untold.extend([min(gpus, nodes.size)] * needed)
            continue
        names = configuration["nodes"]
        listed = isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)
        if not listed or len(set(names)) != len(names) or len(names) != needed:
            yield Violation("placement", job, f"must name {needed} different nodes for {gpus} x {gpu_type}")
            continue
        for name in names:
            if name not in room:
                yield Violation("placement", job, f"{name!r} is no node of {gpu_type}")
            else:
                room[name] -= min(gpus, nodes.size)
    over = [name for name, left in room.items() if left < 0]
    for name in over:
        yield Violation("placement", name, f"{-room[name]} more {gpu_type} than the node has")
    if not over and not _first_fit(list(room.values()), untold):
        yield Violation("placement", gpu_type, "the jobs do not fit onto its nodes, largest first")


def _first_fit(room: list[int], sizes: list[int]) -> bool:
    first = 0
    last = None
    for size in sorted(sizes, reverse=True):
        first = first if size == last else 0  # what had no room for this size still has none
        while first < len(room) and room[first] < size:
            first += 1
        if first == len(room):
            return False
        room[first] -= size
        last = size
    return True


@dataclass(frozen=True, slots=True)
class NodeWeights:
    """Weights w(1), .., w(R) of jobs on one node of a GPU type; see the module.

    Attributes
    ----------
    gpu_type
        Whose nodes.
    weights
        Not negative.
    """

    gpu_type: str
    weights: tuple[int, ...]

    @property
    def name(self) -> str:
        """The capacity's name in multipliers, from which anybody recomputes the weights."""
        return f"nodes of {self.gpu_type} by {','.join(map(str, self.weights))}"

    @classmethod
    def named(cls, sizes: Mapping[str, int], name: str) -> NodeWeights | None:
        """Return the weights of a name, ``None`` if it is none of nodes of these sizes."""
        match = re.fullmatch(r"nodes of (.+) by ([0-9]{1,9}(?:,[0-9]{1,9})*)", name, re.DOTALL)
        if match is None:
            return None
        weights = tuple(map(int, match[2].split(",")))
        found = cls(match[1], weights)
        fits = sizes.get(match[1]) == len(weights)
        return found if fits and found.name == name else None

    def most(self) -> tuple[int, ...]:
        """Return W(0), .., W(R)."""
        best = [0]
        for room in range(1, len(self.weights) + 1):
            best.append(
                max(best[room - 1], *(self.weights[g - 1] + best[room - g] for g in range(1, room + 1)))
            )
        return tuple(best)

    def capacity(self, gpus: int) -> int:
        """Return the most that all jobs on so many GPUs can weigh."""
        most = self.most()
        whole, rest = node_counts(gpus, len(self.weights))
        return whole * most[-1] + most[rest]

    def of(self, gpus: int) -> int:
        """Return the weight of a job: w(g) on one node, W(R) for each whole one."""
        size = len(self.weights)
        return self.weights[gpus - 1] if gpus < size else gpus // size * self.most()[-1]

    def weigh(self, counts: Counter[int]) -> int:
        """Return what jobs weigh, told as how many have each number of GPUs."""
        return sum(self.of(gpus) * jobs for gpus, jobs in counts.items())
