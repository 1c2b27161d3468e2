"""A matching as menus: one capacity a machine (or a pool), and for a makespan one of time.

A pool of c machines is one capacity of c times a machine's room, which every plan keeps; taken *apart* it is
c capacities that are alike. A plan that ends before T keeps every machine busy for less than T, so with times
rounded down to the unit a machine's whole seconds are below T, and those of a pool, a gang counted once a
machine it holds, below c T.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations

import numpy as np

from apportion.instances import MatchingEntry, MatchingInstance
from apportion.proofs.certificate import MalformedProof, Proof
from apportion.proofs.limits import limits_of
from apportion.proofs.schedules import read, units
from apportion.proofs.times import last_before
from apportion.proofs.whole_menus import Whole, WholeMenus, held, scaled, threshold, whole_menus

__all__ = ["assigned", "names_of"]

_MOST_SETS = 1_000
"""Sets of machines that a gang may hold, where its pool is taken apart."""
_LARGEST_TABLE = 20_000_000
"""Options times capacities at most."""


def assigned(instance: MatchingInstance, proof: Proof) -> WholeMenus:
    """Return the menus of a matching under the claim of a proof."""
    timed = instance.objective == "makespan"
    before = proof.claim.bound if timed else None
    limit = None if before is None else Fraction(before)
    last = None if limit is None else last_before(limit, proof.shift)
    columns, capacities, alike = _machines(instance, proof, limit)
    cuts, limits = read(instance, proof, limit), limits_of(instance)
    first_limit = len(capacities) + len(cuts)
    numbers = {machine.id: number for number, machine in enumerate(instance.machines)}
    free = timed or proof.claim.bound is None
    worths: list[int] = []
    rows: list[dict[int, int]] = []
    sizes = []
    for at, job in enumerate(instance.jobs):
        size = len(rows)
        for name, entry in job.on.items():
            pool = numbers[name]
            time = units(entry, proof.shift) if limit is not None else 0
            if last is not None and time > last:
                continue
            room_of_one = instance.machines[pool].capacity
            taken = limits.uses(job.id, name)
            if taken is None or (room_of_one is not None and entry.uses > room_of_one):
                continue
            further = {len(capacities) + k: cut.use(at, pool, entry, time) for k, cut in enumerate(cuts)}
            further |= {first_limit + k: use for k, use in taken.items()}
            for held_on in _holds(columns[pool], entry, apart=pool in proof.apart):
                own = _uses(held_on, entry, time, 1 if pool in proof.apart else entry.gpus)
                rows.append({**own, **further})
                worths.append(0 if free else _worth(instance, entry, proof.shift))
        if not job.required and (taken := limits.uses(job.id, None)) is not None:
            rows.append({first_limit + k: use for k, use in taken.items()})
            worths.append(0)
        sizes.append(len(rows) - size)
        if len(rows) * (first_limit + len(limits.rooms)) > _LARGEST_TABLE:
            raise MalformedProof("the pools taken apart make too large a table")
    capacities += [cut.room for cut in cuts] + limits.rooms
    small = all(use < 1 << 62 for row in rows for use in row.values())
    uses: Whole = np.zeros((len(rows), len(capacities)), dtype=np.int64 if small else object)
    for at, row in enumerate(rows):
        for column, use_of in row.items():
            uses[at, column] = use_of
    most = -1 if free else threshold(proof.claim, proof.shift, instance.objective == "value")
    return whole_menus(held(worths), uses, sizes, capacities, most, alike=alike)


_Columns = tuple[int | None, int | None]
"""A machine's, or a pool's, capacities of use and of time, where it has them."""


def _holds(columns: list[_Columns], entry: MatchingEntry, *, apart: bool) -> Iterator[tuple[_Columns, ...]]:
    """Yield what an entry may hold: its pool as a whole, or every set of as many machines as it needs."""
    if apart and math.comb(len(columns), entry.gpus) > _MOST_SETS:
        raise MalformedProof("a pool taken apart offers a gang too many sets of machines")
    yield from combinations(columns, entry.gpus) if apart else [tuple(columns)]


def _uses(held_on: tuple[_Columns, ...], entry: MatchingEntry, time: int, times: int) -> dict[int, int]:
    found = {}
    for room, hours in held_on:
        if room is not None:
            found[room] = entry.uses * times
        if hours is not None:
            found[hours] = time * times
    return found


def _machines(
    instance: MatchingInstance, proof: Proof, limit: Fraction | None
) -> tuple[list[list[_Columns]], list[int], tuple[tuple[int, ...], ...]]:
    """Return every machine's capacities of use and of time, what all of them hold, and which are alike."""
    if any(not 0 <= pool < len(instance.machines) for pool in proof.apart):
        raise MalformedProof("apart names a pool that the instance does not have")
    columns: list[list[_Columns]] = []
    capacities: list[int] = []
    alike: list[tuple[int, ...]] = []
    for number, pool in enumerate(instance.machines):
        entries = [job.on[pool.id] for job in instance.jobs if pool.id in job.on]
        apart = number in proof.apart
        if apart and pool.count > 10_000:
            raise MalformedProof(f"pool {pool.id!r} is too large to be taken apart")
        together = 1 if apart else pool.count
        step = math.gcd(*(entry.uses for entry in entries))
        own: list[_Columns] = []
        for _ in range(pool.count if apart else 1):
            room = hours = None
            if pool.capacity is not None:
                room = len(capacities)
                capacities.append(together * (pool.capacity - (pool.capacity % step if step else 0)))
            if limit is not None:
                hours = len(capacities)
                capacities.append(last_before(together * limit, proof.shift))
            own.append((room, hours))
        columns.append(own)
        # two rows a machine, of use and of time, go together and are not exchanged one by one
        kinds = [[row for row in rows if row is not None] for rows in zip(*own, strict=True)]
        groups = [tuple(rows) for rows in kinds if len(rows) > 1]
        if len(groups) == 1:
            alike.extend(groups)
    return columns, capacities, tuple(alike)


def names_of(instance: MatchingInstance, proof: Proof) -> list[str]:
    """Return the pool of every capacity of use, and the limits of tenants; a capacity of time has no name."""
    timed = instance.objective == "makespan" and proof.claim.bound is not None
    found = []
    for number, pool in enumerate(instance.machines):
        own = ([pool.id] if pool.capacity is not None else []) + ([""] if timed else [])
        found += own * (pool.count if number in proof.apart else 1)
    return [*found, *[""] * len(proof.cuts), *limits_of(instance).names]


def _worth(instance: MatchingInstance, entry: MatchingEntry, shift: int) -> int:
    exact = (
        scaled(entry.value or 0.0, shift)
        if instance.objective == "value"
        else -scaled(entry.cost or 0.0, shift)
    )
    return math.ceil(exact)
