"""What nodes have for pilots: whole nodes, or GPUs one by one, with CPUs and memory to each.

A *unit* is what one pilot holds and one rank runs on: a node, or one GPU of it with a share of its CPUs and
its memory. Whoever takes units one by one leaves the rest of the node to others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from apportion.core.errors import Problem
from apportion.live.record.jobs import JobSpec

__all__ = ["NodeOffer", "Share", "Size", "free_units", "misfit", "sizes_of"]


@dataclass(frozen=True, slots=True)
class Share:
    """What a pilot asks for beside its GPU."""

    cpus: int
    memory_mib: int

    def serves(self, spec: JobSpec) -> bool:
        """Return whether a rank of a job has what it needs here."""
        enough = spec.cpus_per_rank is None or spec.cpus_per_rank <= self.cpus
        return enough and (spec.memory_mib_per_rank is None or spec.memory_mib_per_rank <= self.memory_mib)


@dataclass(frozen=True, slots=True, order=True)
class Size:
    """The most that a rank can have on a sort of nodes, and their type; empty where types do not matter."""

    cpus: int
    memory_mib: int
    type: str = ""


@dataclass(frozen=True, slots=True)
class NodeOffer:
    """One node.

    Attributes
    ----------
    size
        All its CPUs and memory.
    gpus
        How many GPUs it has, ``None`` where pilots take it whole.
    idle_cpus, idle_memory_mib
        What nobody has of it now.
    """

    size: Size
    gpus: int | None = None
    idle_cpus: int = 0
    idle_memory_mib: int = 0

    @property
    def units(self) -> int:
        """How many pilots it can hold at a time."""
        return 1 if self.gpus is None else self.gpus

    def share(self, spec: JobSpec, idle: int) -> Share | None:
        """Return what a pilot for a job asks for, where so many of the units are idle.

        What a job does not say is an even share of the node, or of what is idle where that is less.
        """
        if self.gpus is None:
            return None
        cpus, memory = spec.cpus_per_rank, spec.memory_mib_per_rank
        even_cpus = min(self.size.cpus // self.gpus, self.idle_cpus // max(idle, 1))
        even_memory = min(self.size.memory_mib // self.gpus, self.idle_memory_mib // max(idle, 1))
        return Share(
            max(even_cpus, 1) if cpus is None else cpus, max(even_memory, 1) if memory is None else memory
        )

    def has(self, share: Share | None) -> bool:
        """Return whether so much is idle."""
        return share is None or (share.cpus <= self.idle_cpus and share.memory_mib <= self.idle_memory_mib)

    def without(self, share: Share | None) -> NodeOffer:
        """Return what is left once a pilot has its share."""
        if share is None:
            return self
        left = self.idle_cpus - share.cpus, self.idle_memory_mib - share.memory_mib
        return replace(self, idle_cpus=max(left[0], 0), idle_memory_mib=max(left[1], 0))


def sizes_of(offers: Iterable[NodeOffer]) -> tuple[Size, ...]:
    """Return the different sizes of nodes."""
    return tuple(sorted({offer.size for offer in offers}))


def misfit(spec: JobSpec, sizes: Iterable[Size]) -> Problem | None:
    """Return why no rank of a job fits any node of these sizes, ``None`` if one does or no size is known."""
    seen = tuple(sizes)
    sizes = [size for size in seen if spec.runs_on(size.type)]
    if seen and not sizes:
        named, types = ", ".join(spec.curves), ", ".join(sorted({size.type or "no type" for size in seen}))
        return Problem("$.curves", f"names {named}; the nodes are of {types}: name a type that there is")
    if not seen or any(Share(size.cpus, size.memory_mib).serves(spec) for size in sizes):
        return None
    most_cpus, most_memory = max(size.cpus for size in sizes), max(size.memory_mib for size in sizes)
    if spec.cpus_per_rank is not None and spec.cpus_per_rank > most_cpus:
        return Problem(
            "$.cpus_per_rank",
            f"is {spec.cpus_per_rank}; the largest node has {most_cpus} CPUs: ask for fewer",
        )
    message = f"is {spec.memory_mib_per_rank}; the largest node has {most_memory} MiB: ask for less"
    if spec.memory_mib_per_rank is not None and spec.memory_mib_per_rank <= most_memory:
        message = f"is {spec.memory_mib_per_rank}; no node with {spec.cpus_per_rank} CPUs has so many MiB"
    return Problem("$.memory_mib_per_rank", message)


def free_units(
    idle: Mapping[str, int],
    offers: Mapping[str, NodeOffer],
    live: Mapping[str, int],
    unlisted: Mapping[str, int],
    lost: frozenset[str],
) -> tuple[str, ...]:
    """Return the nodes on which a pilot would get a unit at once, once for every unit.

    Parameters
    ----------
    idle
        By node, how many units the scheduler says are idle.
    offers
        Of the nodes; one without an offer is a single unit.
    live, unlisted
        By node, how many pilots are on record, and how many of them the scheduler does not count yet.
    lost
        Nodes with a pilot that the scheduler has given up or forgotten: which of the units its rank may still
        use is not known, so that none is offered.
    """
    free: list[str] = []
    for node, count in idle.items():
        units = offers[node].units if node in offers else 1
        room = min(count - unlisted.get(node, 0), units - live.get(node, 0))
        free += [node] * (0 if node in lost else max(room, 0))
    return tuple(free)
