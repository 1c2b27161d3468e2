"""What proofs hold beside prices, as a table by type of instance: node cuts, pools apart, a unit of time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeVar

from apportion.instances import FreezingInstance, MatchingInstance
from apportion.instances.freezing.nodes import NodeWeights
from apportion.proofs.certificate import Cut

__all__ = ["LARGEST_SHIFT", "NEAR", "ProofShape", "UnitOfTime", "shape_of"]

LARGEST_SHIFT = 1100
"""The finest unit of a proof is two to the power of minus this."""
NEAR = 9e-10
"""How far beyond the objective the proven bound may lie, relative to it: "optimal" means a gap of 1e-9."""
_TIME_BITS = 40
_APART = 40_000
"""Machines times jobs up to which pools are decided machine by machine."""
_FRACTIONS = 9
_LARGEST_NODE = 64
"""GPUs of a node up to which node weights are tried that no multiplier names."""


class UnitOfTime(NamedTuple):
    """A unit of ``2**-shift`` seconds, and whether all times are whole in it."""

    shift: int
    exact: bool


def _apart(instance: MatchingInstance) -> tuple[int, ...]:
    """Return the pools to be decided machine by machine: without gangs, and where it makes a difference."""
    small = sum(pool.count for pool in instance.machines) * len(instance.jobs) <= _APART
    found = []
    for number, pool in enumerate(instance.machines):
        entries = [job.on[pool.id] for job in instance.jobs if pool.id in job.on]
        mixed = pool.capacity is not None and len({entry.uses for entry in entries} - {0}) > 1
        gangs = any(entry.gpus > 1 for entry in entries)
        if small and pool.count > 1 and not gangs and (mixed or instance.objective == "makespan"):
            found.append(number)
    return tuple(found)


def _cuts(instance: FreezingInstance, names: Iterable[str], thorough: bool) -> tuple[Cut, ...]:
    """Return the node weights that multipliers are named by and, thoroughly, a few more for every node type.

    Those count how often a k-th of a node goes into a job, rounded down, and the jobs larger than half a
    node.
    """
    named = [NodeWeights.named(instance, name) for name in names if name not in instance.gpus]
    found = {(one.gpu_type, one.weights) for one in named if one is not None}
    cuts = [one for one in named if one is not None]
    for gpu_type, size in instance.gpus_per_node.items() if thorough else ():
        drawn = [
            [gpus * k // size for gpus in range(1, size + 1)] for k in range(2, min(size, _FRACTIONS) + 1)
        ]
        drawn.append([int(2 * gpus > size) for gpus in range(1, size + 1)])
        for weights in map(tuple, drawn):
            if (gpu_type, weights) not in found and size <= _LARGEST_NODE:
                found.add((gpu_type, weights))
                cuts.append(NodeWeights(gpu_type, weights))
    return tuple({"gpu_type": one.gpu_type, "node_weights": list(one.weights)} for one in cuts)


def _unit_of_time(instance: MatchingInstance) -> UnitOfTime | None:
    """Return a shift for times that makes them whole, if together they take at most 44 bits then."""
    if instance.objective != "makespan":
        return None
    times = [entry.time_s or 0.0 for job in instance.jobs for entry in job.on.values()]
    total = math.fsum(times)
    if total == 0:
        return UnitOfTime(0, True)
    whole = max(time.as_integer_ratio()[1].bit_length() - 1 for time in times)
    if whole + math.log2(total) <= _TIME_BITS + 4:
        return UnitOfTime(whole, True)
    near = NEAR * min((time for time in times if time), default=1.0)
    close = math.ceil(math.log2(len(times)) - math.log2(near))
    return UnitOfTime(min(LARGEST_SHIFT, max(_TIME_BITS - math.ceil(math.log2(total)), close)), False)


def _no_pools(_: object) -> tuple[int, ...]:
    return ()


def _no_cuts(_: object, names: Iterable[str], thorough: bool) -> tuple[Cut, ...]:
    return ()


def _no_time(_: object) -> None:
    return None


_Of = TypeVar("_Of")


@dataclass(frozen=True, slots=True)
class ProofShape(Generic[_Of]):
    """What the proofs about one type of instance hold beside prices and an order.

    Attributes
    ----------
    about
        The type of instance.
    pools, node_cuts, time_unit
        What `apart`, `cuts` and `unit_of_time` ask.
    """

    about: type[_Of]
    pools: Callable[[_Of], tuple[int, ...]] = _no_pools
    node_cuts: Callable[[_Of, Iterable[str], bool], tuple[Cut, ...]] = _no_cuts
    time_unit: Callable[[_Of], UnitOfTime | None] = _no_time

    def apart(self, instance: object) -> tuple[int, ...]:
        """Return the pools to be decided machine by machine."""
        return self.pools(instance) if isinstance(instance, self.about) else ()

    def cuts(self, instance: object, names: Iterable[str], thorough: bool) -> tuple[Cut, ...]:
        """Return the cuts that names of multipliers hold, and more if thorough."""
        return self.node_cuts(instance, names, thorough) if isinstance(instance, self.about) else ()

    def unit_of_time(self, instance: object) -> UnitOfTime | None:
        """Return the unit where the objective is a time, else ``None``."""
        return self.time_unit(instance) if isinstance(instance, self.about) else None


_Shapes = ProofShape[FreezingInstance] | ProofShape[MatchingInstance]
_SHAPES: Mapping[type, _Shapes] = MappingProxyType(
    {
        FreezingInstance: ProofShape(FreezingInstance, node_cuts=_cuts),
        MatchingInstance: ProofShape(MatchingInstance, pools=_apart, time_unit=_unit_of_time),
    }
)


def shape_of(instance: object) -> _Shapes | ProofShape[object]:
    """Return what proofs about an instance hold beside prices and an order; nothing where it has no entry."""
    return _SHAPES.get(type(instance), ProofShape(object))
