"""What proofs hold beside prices, as a table by type of instance: node cuts, pools apart, a unit of time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, product
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeVar

from apportion.instances import FreezingInstance, MatchingInstance
from apportion.instances.freezing.check import configurations
from apportion.instances.freezing.nodes import NodeWeights, nodes_of
from apportion.models.assignment import Assignment
from apportion.proofs.certificate import Claim, Cut, Proof
from apportion.proofs.freezing import exceed_nodes
from apportion.proofs.integer_menus import last_before
from apportion.proofs.schedules import too_long, units
from apportion.solving.judge import outward

__all__ = ["LARGEST_SHIFT", "NEAR", "ProofShape", "UnitOfTime", "claim_at", "shape_of", "unit_of_times"]

LARGEST_SHIFT = 1100
"""The finest unit of a proof is two to the power of minus this."""
NEAR = 9e-10
"""How far beyond the objective the proven bound may lie, relative to it: "optimal" means a gap of 1e-9."""
_TIME_BITS = 40
_APART = 40_000
"""Machines times jobs up to which pools are decided machine by machine."""
_MOST_SETS = 500
"""Sets of machines up to which a pool that holds gangs is decided machine by machine."""
_GANG_JOBS, _MOST_EXCLUDED, _ORDERS = 8, 200, 50_000
"""Jobs of a pool up to which sets that take too long together are looked for, how many, and by what work."""
_NODE_JOBS, _MOST_PACKED, _PACKINGS = 6, 40, 300
"""Jobs up to which sets that do not lie on nodes together are looked for, how many, among how many."""
_FRACTIONS = 9
_LARGEST_NODE = 64
"""GPUs of a node up to which node weights are tried that no multiplier names."""


def claim_at(objective: Fraction | float, *, exactly: bool, maximizes: bool) -> Claim:
    """Return the claim that no plan beats an objective, weaker by `NEAR` of it where not `exactly`.

    Of a double the margin is a double: a hundredth of a billionth of it is of no account.
    """
    if isinstance(objective, float):
        margin = 0.0 if exactly else NEAR * max(abs(objective), 1e-9)
        return Claim("no_better_plan", objective + margin if maximizes else objective - margin)
    allowed = Fraction(0) if exactly else Fraction(NEAR) * max(abs(objective), Fraction(1e-9))
    beyond = objective + allowed if maximizes else objective - allowed
    return Claim("no_better_plan", outward(beyond, upper=maximizes))


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
        sizes = {entry.uses for entry in entries} - {0}
        gangs = any(entry.gpus > 1 for entry in entries)
        if pool.count == 1 or not small:
            continue
        if gangs:
            sets = sum(math.comb(pool.count, entry.gpus) for entry in entries)
            wanted = pool.capacity is not None and bool(sizes) and sets <= _MOST_SETS
        else:
            wanted = (pool.capacity is not None and len(sizes) > 1) or instance.objective == "makespan"
        if wanted:
            found.append(number)
    return tuple(found)


def _pool_cuts(instance: MatchingInstance, draft: Proof) -> tuple[Cut, ...]:
    """Return weights, and the least sets of jobs that take too long together, for every pool with gangs."""
    if instance.objective != "makespan" or draft.claim.bound is None:
        return ()
    last = last_before(Fraction(draft.claim.bound), draft.shift)
    cuts: list[Cut] = []
    steps = [_ORDERS]
    for number, pool in enumerate(instance.machines):
        jobs = {at: job.on[pool.id] for at, job in enumerate(instance.jobs) if pool.id in job.on}
        gangs = {entry.gpus for entry in jobs.values()} - {1}
        if pool.count == 1 or not gangs:
            continue
        if pool.count <= _LARGEST_NODE:
            cuts += [{"pool": number, "weights": weights} for weights in _fractions(pool.count)]
        if len(jobs) <= _GANG_JOBS:
            held = {at: (units(entry, draft.shift), entry.gpus) for at, entry in jobs.items()}
            excluded = _too_long_together(held, pool.count, last, steps)
            cuts += [{"pool": number, "excluded": list(several)} for several in excluded]
    return tuple(cuts)


def _too_long_together(
    held: Mapping[int, tuple[int, int]], machines: int, last: int, steps: list[int]
) -> list[tuple[int, ...]]:
    """Return the least sets of jobs that cannot all end by a time, by rising size."""
    found: list[tuple[int, ...]] = []
    for size in range(2, len(held) + 1):
        for several in combinations(held, size):
            if steps[0] <= 0 or len(found) >= _MOST_EXCLUDED:
                return found
            if not any(set(one) <= set(several) for one in found) and too_long(
                [held[job] for job in several], machines, last, steps
            ):
                found.append(several)
    return found


def _fractions(size: int) -> list[list[int]]:
    """Return how often a k-th of a whole goes into its parts, for some k, and which are more than half."""
    drawn = [[part * k // size for part in range(1, size + 1)] for k in range(2, min(size, _FRACTIONS) + 1)]
    return [*drawn, [int(2 * part > size) for part in range(1, size + 1)]]


def _cuts(instance: FreezingInstance, names: Iterable[str], thorough: bool) -> tuple[Cut, ...]:
    """Return the node weights that multipliers are named by and, thoroughly, a few more for every node type.

    Those count how often a k-th of a node goes into a job, rounded down, and the jobs larger than half a
    node. Of few jobs there are also the sets that do not lie on the nodes together.
    """
    named = [NodeWeights.named(instance, name) for name in names if name not in instance.gpus]
    found = {(one.gpu_type, one.weights) for one in named if one is not None}
    cuts = [one for one in named if one is not None]
    for gpu_type, size in instance.gpus_per_node.items() if thorough else ():
        for weights in map(tuple, _fractions(size)):
            if (gpu_type, weights) not in found and size <= _LARGEST_NODE:
                found.add((gpu_type, weights))
                cuts.append(NodeWeights(gpu_type, weights))
    weighed = ({"gpu_type": one.gpu_type, "node_weights": list(one.weights)} for one in cuts)
    return (*weighed, *(_unpacked(instance) if thorough and len(instance.jobs) <= _NODE_JOBS else ()))


def _unpacked(instance: FreezingInstance) -> list[Cut]:
    """Return the least sets of jobs with so many GPUs that fit a type, but not its nodes together."""
    found: list[Cut] = []
    tried = 0
    for gpu_type, room in instance.gpus.items():
        nodes = nodes_of(instance, gpu_type)
        counts = [
            {one[1] for one in configurations(instance, job) if one[0] == gpu_type} for job in instance.jobs
        ]
        able = [at for at, own in enumerate(counts) if own] if nodes is not None else []
        own_type: list[dict[int, int]] = []
        for size in range(2, len(able) + 1):
            for jobs in combinations(able, size):
                for gpus in product(*(sorted(counts[at]) for at in jobs)):
                    chosen = dict(zip(jobs, gpus, strict=True))
                    if sum(gpus) > room or any(_holds(one, chosen) for one in own_type):
                        continue
                    tried += 1
                    if tried > _PACKINGS or len(found) >= _MOST_PACKED:
                        return found
                    if nodes is not None and exceed_nodes(nodes, list(gpus)):
                        own_type.append(chosen)
                        excluded = {str(at): least for at, least in chosen.items()}
                        found.append({"gpu_type": gpu_type, "excluded": excluded})
    return found


def _holds(least: Mapping[int, int], chosen: Mapping[int, int]) -> bool:
    """Return whether jobs that are chosen are among them with so many GPUs."""
    return all(chosen.get(at, 0) >= gpus for at, gpus in least.items())


def _unit_of_time(instance: MatchingInstance) -> UnitOfTime | None:
    if instance.objective != "makespan":
        return None
    return unit_of_times([entry.time_s or 0.0 for job in instance.jobs for entry in job.on.values()])


def _unit_of_model(model: Assignment) -> UnitOfTime | None:
    return unit_of_times(model.values.tolist()) if model.goal == "makespan" else None


def unit_of_times(times: Sequence[float]) -> UnitOfTime:
    """Return a shift for times that makes them whole, if together they take at most 44 bits then."""
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


def _no_pool_cuts(instance: object, draft: Proof) -> tuple[Cut, ...]:
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
    pools, node_cuts, time_unit, pool_cuts
        What `apart`, `cuts`, `unit_of_time` and `timed_cuts` ask.
    """

    about: type[_Of]
    pools: Callable[[_Of], tuple[int, ...]] = _no_pools
    node_cuts: Callable[[_Of, Iterable[str], bool], tuple[Cut, ...]] = _no_cuts
    time_unit: Callable[[_Of], UnitOfTime | None] = _no_time
    pool_cuts: Callable[[_Of, Proof], tuple[Cut, ...]] = _no_pool_cuts

    def apart(self, instance: object) -> tuple[int, ...]:
        """Return the pools to be decided machine by machine."""
        return self.pools(instance) if isinstance(instance, self.about) else ()

    def cuts(self, instance: object, names: Iterable[str], thorough: bool) -> tuple[Cut, ...]:
        """Return the cuts that names of multipliers hold, and more if thorough."""
        return self.node_cuts(instance, names, thorough) if isinstance(instance, self.about) else ()

    def unit_of_time(self, instance: object) -> UnitOfTime | None:
        """Return the unit where the objective is a time, else ``None``."""
        return self.time_unit(instance) if isinstance(instance, self.about) else None

    def timed_cuts(self, instance: object, draft: Proof) -> tuple[Cut, ...]:
        """Return the cuts that hold under the claim of a draft, in its unit."""
        return self.pool_cuts(instance, draft) if isinstance(instance, self.about) else ()


_Shapes = ProofShape[FreezingInstance] | ProofShape[MatchingInstance] | ProofShape[Assignment]
_SHAPES: Mapping[type, _Shapes] = MappingProxyType(
    {
        FreezingInstance: ProofShape(FreezingInstance, node_cuts=_cuts),
        MatchingInstance: ProofShape(
            MatchingInstance, pools=_apart, time_unit=_unit_of_time, pool_cuts=_pool_cuts
        ),
        Assignment: ProofShape(Assignment, time_unit=_unit_of_model),
    }
)


def shape_of(instance: object) -> _Shapes | ProofShape[object]:
    """Return what proofs about an instance hold beside prices and an order; nothing where it has no entry."""
    return _SHAPES.get(type(instance), ProofShape(object))
