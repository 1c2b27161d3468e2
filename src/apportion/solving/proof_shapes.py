"""What proofs hold beside prices, as columns say it: cuts, pools apart, a unit of time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from itertools import combinations, product
from typing import NamedTuple

import numpy as np

from apportion.instances.columns import Columns
from apportion.instances.freezing.nodes import NodeWeights
from apportion.proofs.capacity_cuts import exceed_nodes, greatest_sum
from apportion.proofs.certificate import Claim, Cut, Proof
from apportion.proofs.integer_menus import last_before
from apportion.proofs.pool_cuts import on_pools, too_long, units
from apportion.solving.judge import outward

__all__ = [
    "LARGEST_SHIFT",
    "NEAR",
    "UnitOfTime",
    "apart_in",
    "claim_at",
    "cuts_of",
    "divided_capacities",
    "timed_cuts_of",
    "unit_of_time",
]

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
_LARGEST_DIVIDED, _SIZES, _SUMS, _DIVIDED = 4096, 8, 10_000_000, 12_000_000
"""Amount of a capacity that is divided at most, different uses of it, words of sums, numbers in all rows."""


def claim_at(objective: Fraction, *, exactly: bool, maximizes: bool) -> Claim:
    """Return the claim that no plan beats an objective, weaker by `NEAR` of it where not `exactly`."""
    allowed = Fraction(0) if exactly else Fraction(NEAR) * max(abs(objective), Fraction(1e-9))
    beyond = objective + allowed if maximizes else objective - allowed
    return Claim("no_better_plan", outward(beyond, upper=maximizes))


class UnitOfTime(NamedTuple):
    """A unit of ``2**-shift`` seconds, and whether all times are whole in it."""

    shift: int
    exact: bool


def _by_pool(given: Columns) -> Iterator[tuple[int, str, int, dict[int, tuple[float, int]], set[int]]]:
    """Yield every pool: position, name, machines, what jobs take of it (time, gang), and their uses."""
    assert given.pool_use is not None
    held, taken = given.pool_use, on_pools(given)
    uses = dict(
        zip(zip(given.owner.tolist(), held.pool.tolist(), strict=True), held.use.tolist(), strict=True)
    )
    for job, places in (given.barred or {}).items():
        names = [pool.name for pool in held.pools]
        uses |= {(job, names.index(place.pool)): place.use for place in places}
    jobs: list[dict[int, tuple[float, int]]] = [{} for _ in held.pools]
    used: list[set[int]] = [set() for _ in held.pools]
    for (job, pool), own in taken.items():
        jobs[pool][job] = own
        used[pool].add(uses[job, pool])
    for number, one in enumerate(held.pools):
        yield number, one.name, one.count, dict(sorted(jobs[number].items())), used[number]


def apart_in(given: Columns) -> tuple[int, ...]:
    """Return the pools to be decided machine by machine: without gangs, and where it makes a difference."""
    if given.pool_use is None or "cuts" not in given.sections:
        return ()
    small = sum(pool.count for pool in given.pool_use.pools) * len(given.jobs) <= _APART
    if not small or all(pool.count == 1 for pool in given.pool_use.pools):
        return ()
    found = []
    for number, _, count, jobs, used in _by_pool(given):
        gangs, sizes = [gang for _, gang in jobs.values()], used - {0}
        limited = given.pool_use.pools[number].capacity is not None
        if count == 1:
            continue
        if any(gang > 1 for gang in gangs):
            wanted = limited and bool(sizes) and sum(math.comb(count, gang) for gang in gangs) <= _MOST_SETS
        else:
            wanted = (limited and len(sizes) > 1) or given.goal == "makespan"
        if wanted:
            found.append(number)
    return tuple(found)


def timed_cuts_of(given: Columns, draft: Proof) -> tuple[Cut, ...]:
    """Return weights, and the least sets of jobs that take too long together, for every pool with gangs."""
    if given.goal != "makespan" or "cuts" not in given.sections or draft.claim.bound is None:
        return ()
    last = last_before(Fraction(draft.claim.bound), draft.shift)
    cuts: list[Cut] = []
    steps = [_ORDERS]
    for number, _, count, jobs, _ in _by_pool(given):
        if count == 1 or all(gang == 1 for _, gang in jobs.values()):
            continue
        if count <= _LARGEST_NODE:
            cuts += [{"pool": number, "weights": weights} for weights in _fractions(count)]
        if len(jobs) <= _GANG_JOBS:
            held = {job: (units(time, draft.shift), gang) for job, (time, gang) in jobs.items()}
            excluded = _too_long_together(held, count, last, steps)
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


def cuts_of(given: Columns, names: Iterable[str], thorough: bool) -> tuple[Cut, ...]:
    """Return the node weights that multipliers are named by and, thoroughly, a few more for every node type.

    Those count how often a k-th of a node goes into a job, rounded down, and the jobs larger than half a
    node. Of few jobs there are also the sets that do not lie on the nodes together.
    """
    sizes = {name: nodes.size for name, nodes in (given.nodes or {}).items() if nodes is not None}
    if not sizes:
        return ()
    named = (NodeWeights.named(sizes, name) for name in names if name not in given.capacities)
    cuts = [one for one in named if one is not None]
    found = {(one.gpu_type, one.weights) for one in cuts}
    for gpu_type, size in sizes.items() if thorough else ():
        for weights in map(tuple, _fractions(size)):
            if (gpu_type, weights) not in found and size <= _LARGEST_NODE:
                found.add((gpu_type, weights))
                cuts.append(NodeWeights(gpu_type, weights))
    weighed = ({"gpu_type": one.gpu_type, "node_weights": list(one.weights)} for one in cuts)
    return (*weighed, *(_unpacked(given) if thorough and len(given.jobs) <= _NODE_JOBS else ()))


def _unpacked(given: Columns) -> list[Cut]:
    """Return the least sets of jobs with so many GPUs that fit a type, but not its nodes together."""
    found: list[Cut] = []
    tried = 0
    for k, (gpu_type, room) in enumerate(zip(given.capacities, given.rooms, strict=True)):
        nodes = (given.nodes or {}).get(gpu_type)
        if nodes is None:
            continue
        counts: list[set[int]] = [set() for _ in given.jobs]
        for job, gpus in zip(given.owner.tolist(), given.uses[:, k].tolist(), strict=True):
            if gpus:
                counts[job].add(gpus)
        able = [at for at, own in enumerate(counts) if own]
        own_type: list[dict[int, int]] = []
        for size in range(2, len(able) + 1):
            for jobs in combinations(able, size):
                for several in product(*(sorted(counts[at]) for at in jobs)):
                    chosen = dict(zip(jobs, several, strict=True))
                    if sum(several) > room or any(_holds(one, chosen) for one in own_type):
                        continue
                    tried += 1
                    if tried > _PACKINGS or len(found) >= _MOST_PACKED:
                        return found
                    if exceed_nodes(nodes, list(several)):
                        own_type.append(chosen)
                        excluded = {str(at): least for at, least in chosen.items()}
                        found.append({"gpu_type": gpu_type, "excluded": excluded})
    return found


def divided_capacities(given: Columns) -> tuple[Cut, ...]:
    """Return what rounding of every capacity gives that is no multiple of its uses: rows that follow from it.

    Where the greatest sum that jobs reach is less than a capacity, the sum itself is one (divisor 1).
    """
    words, found = [_SUMS], list[Cut]()
    for k, room in enumerate(given.rooms):
        uses = given.uses[:, k]
        sizes = np.unique(uses[uses > 0]).tolist() if 0 < room <= _LARGEST_DIVIDED else []
        if not 0 < len(sizes) <= _SIZES:
            continue
        reached = greatest_sum(given, k, words)
        if reached is None:
            break
        divisors = [1] * (reached < room) + [size for size in sizes if size > 1 and reached % size]
        found += [{"capacity": k, "divisor": divisor} for divisor in divisors]
    return tuple(found) if len(found) * given.uses.shape[0] <= _DIVIDED else ()


def _holds(least: Mapping[int, int], chosen: Mapping[int, int]) -> bool:
    """Return whether jobs that are chosen are among them with so many GPUs."""
    return all(chosen.get(at, 0) >= gpus for at, gpus in least.items())


def unit_of_time(given: Columns) -> UnitOfTime | None:
    """Return a unit of times that makes them whole, if together they take at most 44 bits then.

    ``None`` where the objective is no time.
    """
    if given.goal != "makespan" or given.pool_use is None:
        return None
    barred = [place.time for places in (given.barred or {}).values() for place in places]
    times = [*given.pool_use.time[given.pool_use.pool >= 0].tolist(), *barred]
    total = math.fsum(times)
    if total == 0:
        return UnitOfTime(0, True)
    whole = max(time.as_integer_ratio()[1].bit_length() - 1 for time in times)
    if whole + math.log2(total) <= _TIME_BITS + 4:
        return UnitOfTime(whole, True)
    near = NEAR * min((time for time in times if time), default=1.0)
    close = math.ceil(math.log2(len(times)) - math.log2(near))
    return UnitOfTime(min(LARGEST_SHIFT, max(_TIME_BITS - math.ceil(math.log2(total)), close)), False)
