"""Cuts of makespans on pools that hold gangs, each with a reason that is checked before it is used.

A cut is a capacity beside those of time, about one pool of c machines under a claim of T:

* ``{"pool": position, "weights": [w(1), .., w(c)]}``: of jobs that run at once, holding at most c machines
  together, the weights add up to at most W, so times w(g) add up to less than W T, whatever the weights are;
* ``{"pool": position, "excluded": [job, ..]}``: those jobs alone cannot all end before T on the pool, which
  is shown by trying every order; so at most all but one of them run there.

Orders are enough: taken by rising starts, jobs that each begin as soon as enough machines are free, and not
before the job ahead, begin no later than in any schedule that begins them in this order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from apportion.instances.columns import Columns
from apportion.proofs.certificate import Cut, MalformedProof, Proof
from apportion.proofs.integer_menus import IntegerArray, as_int64, last_before, scaled

__all__ = ["LARGEST_POOL", "PoolCut", "on_pools", "read", "too_long", "units"]

LARGEST_POOL = 10_000
"""Machines of the largest pool that weights are told of."""
_MOST_ORDERS = 100_000
"""Beginnings of orders that are tried for all cuts together before one counts as not shown."""
_JOBS_AN_ORDER = 256
"""Jobs times machines of one beginning that count as one more."""
_MOST_PAIRS = 10_000_000
"""Weights times machines of all cuts, and cuts times options, up to which they are looked at."""

Taken = Mapping[tuple[int, int], tuple[float, int]]
"""By job and pool: time and machines held."""


@dataclass(frozen=True, slots=True)
class PoolCut:
    """One further capacity, its reason checked: of a pool, what it holds, and what its jobs take of it."""

    pool: int
    room: int
    weights: Sequence[int]
    excluded: frozenset[int]

    def amounts(self, given: Columns, kept: NDArray[np.int64], times: IntegerArray) -> IntegerArray:
        """Return what options take of it."""
        return as_int64(list(self._each(given, kept, times)))

    def _each(self, given: Columns, kept: NDArray[np.int64], times: IntegerArray) -> Iterator[int]:
        assert given.pool_use is not None
        columns = (given.owner[kept], given.pool_use.pool[kept], given.pool_use.gang[kept], times)
        for job, pool, gang, time in zip(*(one.tolist() for one in columns), strict=True):
            if pool != self.pool:
                yield 0
            else:
                yield time * self.weights[gang - 1] if self.weights else int(job in self.excluded)


def units(time: float, shift: int) -> int:
    """Return the whole units that a time surely takes."""
    return int(scaled(time, shift) // 1)


def on_pools(given: Columns) -> Taken:
    """Return what jobs take of pools, whether they may have them or not."""
    assert given.pool_use is not None
    held, number = given.pool_use, {pool.name: at for at, pool in enumerate(given.pool_use.pools)}
    columns = (given.owner, held.pool, held.time, held.gang)
    rows = zip(*(one.tolist() for one in columns), strict=True)
    found = {(job, pool): (time, gang) for job, pool, time, gang in rows if pool >= 0}
    for job, places in (given.barred or {}).items():
        found |= {(job, number[place.pool]): (place.time, place.gang) for place in places}
    return found


def read(given: Columns, proof: Proof, limit: Fraction | None) -> list[PoolCut]:
    """Return the cuts of a proof."""
    if limit is None or given.pool_use is None:
        raise MalformedProof("cuts of pools belong to bounds on makespans")
    pairs = sum(
        len(cut["weights"]) * sum(map(bool, cut["weights"])) for cut in proof.cuts if _is_list(cut, "weights")
    )
    taken, steps = on_pools(given), [_MOST_ORDERS]
    if pairs + len(proof.cuts) * len(taken) > _MOST_PAIRS:
        raise MalformedProof(f"more than {_MOST_PAIRS} weights and uses of cuts")
    return [_read(given, taken, cut, proof.shift, limit, steps) for cut in proof.cuts]


def _is_list(cut: Cut, field: str) -> bool:
    return isinstance(cut.get(field), list)


def _read(given: Columns, taken: Taken, cut: Cut, shift: int, limit: Fraction, steps: list[int]) -> PoolCut:
    number, pools = cut.get("pool"), () if given.pool_use is None else given.pool_use.pools
    if type(number) is not int or not 0 <= number < len(pools):
        raise MalformedProof(f"a cut names the pool {number!r}, which the instance does not have")
    pool = pools[number]
    if set(cut) == {"pool", "weights"}:
        weights = cut["weights"]
        known = isinstance(weights, list) and len(weights) == pool.count <= LARGEST_POOL
        if not known or not all(type(one) is int and 0 <= one <= 10**6 for one in weights):
            raise MalformedProof(f"weights must be {pool.count} whole numbers from 0 to 10**6")
        together = _at_once(weights)  # 0 together is 0 T, which nothing stays below
        room = last_before(together * limit, shift) if together else 0
        return PoolCut(number, room, tuple(weights), frozenset())
    if set(cut) == {"pool", "excluded"} and isinstance(cut["excluded"], list):
        jobs = cut["excluded"]
        if not jobs or not all(type(job) is int and 0 <= job < len(given.jobs) for job in jobs):
            raise MalformedProof("excluded must name jobs by position")
        rows = [taken[job, number] for job in set(jobs) if (job, number) in taken]
        held = [(units(time, shift), gang) for time, gang in rows]
        if len(held) < len(jobs) or not too_long(held, pool.count, last_before(limit, shift), steps):
            raise MalformedProof("excluded jobs are not shown to take too long together")
        return PoolCut(number, len(jobs) - 1, (), frozenset(jobs))
    raise MalformedProof("a cut must have weights or excluded beside pool")


def _at_once(weights: Sequence[int]) -> int:
    """Return the most weight of jobs that hold at most all machines together."""
    pays = [(gang, weight) for gang, weight in enumerate(weights, 1) if weight]
    most = [0]
    for room in range(1, len(weights) + 1):
        most.append(max([most[-1], *(weight + most[room - gang] for gang, weight in pays if gang <= room)]))
    return most[-1]


def too_long(jobs: Sequence[tuple[int, int]], machines: int, last: int, steps: list[int]) -> bool:
    """Return whether every order shows that jobs do not all end by a time.

    Parameters
    ----------
    jobs
        Time and machines held, by job.
    machines
        Machines of the pool.
    last
        The time.
    steps
        A count of beginnings of orders, which is taken down; at 0 nothing is shown.
    """
    count = min(machines, sum(gang for _, gang in jobs))
    seen: set[tuple[int, tuple[int, ...]]] = set()
    stack: list[tuple[int, tuple[int, ...]]] = [((1 << len(jobs)) - 1, (0,) * count)]
    while stack:
        left, free = stack.pop()
        if not left:
            return False
        steps[0] -= 1 + len(jobs) * count // _JOBS_AN_ORDER
        if steps[0] < 0:
            return False
        work = sum(time * gang for at, (time, gang) in enumerate(jobs) if left >> at & 1)
        if work > sum(last - one for one in free):
            continue
        for at, (time, gang) in enumerate(jobs):
            if left >> at & 1 and free[gang - 1] + time <= last:
                start = free[gang - 1]
                after = tuple(sorted((*(max(one, start) for one in free[gang:]), *[start + time] * gang)))
                state = (left & ~(1 << at), after)
                if state not in seen:
                    seen.add(state)
                    stack.append(state)
    return True
