"""A matching as menus: one capacity a machine (or a pool), and for a makespan one of time.

A pool of c machines is one capacity of c times a machine's room, which every plan keeps; taken *apart* it is
c capacities that are alike. A plan that ends before T keeps every machine busy for less than T, so with times
rounded down to the unit a machine's whole seconds are below T, and those of a pool, a gang counted once a
machine it holds, below c T.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from apportion.instances import MatchingEntry, MatchingInstance
from apportion.proofs.certificate import MalformedProof, Proof
from apportion.proofs.whole_menus import Whole, WholeMenus, held, scaled, whole_menus

__all__ = ["assigned", "names_of"]

_LARGEST_TABLE = 20_000_000
"""Options times capacities at most."""


def assigned(instance: MatchingInstance, proof: Proof) -> WholeMenus:
    """Return the menus of a matching under the claim of a proof."""
    if instance.divisible:
        raise MalformedProof("jobs that share machines by fractions of time are proved by multipliers alone")
    timed = instance.objective == "makespan"
    before = proof.claim.bound if timed else None
    limit = None if before is None else Fraction(before)
    columns, capacities, alike = _machines(instance, proof, limit)
    numbers = {machine.id: number for number, machine in enumerate(instance.machines)}
    worths: list[int] = []
    rows: list[dict[int, int]] = []
    sizes = []
    for job in instance.jobs:
        size = len(rows)
        for name, entry in job.on.items():
            pool = numbers[name]
            time = _time(entry, proof.shift) if limit is not None else 0
            if limit is not None and time > _last(limit, proof.shift):
                continue
            for room, hours in columns[pool]:
                held_by = 1 if pool in proof.apart else entry.gpus
                use = {} if room is None else {room: entry.uses * held_by}
                if hours is not None:
                    use[hours] = time * held_by
                rows.append(use)
                worths.append(
                    0 if timed or proof.claim.bound is None else _worth(instance, entry, proof.shift)
                )
        sizes.append(len(rows) - size)
        if len(rows) * len(capacities) > _LARGEST_TABLE:
            raise MalformedProof("the pools taken apart make too large a table")
    small = all(use < 1 << 62 for row in rows for use in row.values())
    uses: Whole = np.zeros((len(rows), len(capacities)), dtype=np.int64 if small else object)
    for at, row in enumerate(rows):
        for column, use_of in row.items():
            uses[at, column] = use_of
    if proof.claim.bound is None or timed:
        threshold = -1
    else:
        sign = 1 if instance.objective == "value" else -1
        threshold = int(scaled(sign * Fraction(proof.claim.bound), proof.shift) // 1)
    left_out = np.array([not job.required for job in instance.jobs], dtype=np.bool_)
    return whole_menus(held(worths), uses, sizes, capacities, threshold, left_out, alike)


def _machines(
    instance: MatchingInstance, proof: Proof, limit: Fraction | None
) -> tuple[list[list[tuple[int | None, int | None]]], list[int], tuple[tuple[int, ...], ...]]:
    """Return every machine's capacities of use and of time, what all of them hold, and which are alike."""
    if any(not 0 <= pool < len(instance.machines) for pool in proof.apart):
        raise MalformedProof("apart names a pool that the instance does not have")
    columns: list[list[tuple[int | None, int | None]]] = []
    capacities: list[int] = []
    alike: list[tuple[int, ...]] = []
    for number, pool in enumerate(instance.machines):
        entries = [job.on[pool.id] for job in instance.jobs if pool.id in job.on]
        apart = number in proof.apart
        if apart and any(entry.gpus > 1 for entry in entries):
            raise MalformedProof(f"pool {pool.id!r} holds gangs and cannot be taken apart")
        if apart and pool.count > 10_000:
            raise MalformedProof(f"pool {pool.id!r} is too large to be taken apart")
        together = 1 if apart else pool.count
        step = math.gcd(*(entry.uses for entry in entries))
        own: list[tuple[int | None, int | None]] = []
        for _ in range(pool.count if apart else 1):
            room = hours = None
            if pool.capacity is not None:
                room = len(capacities)
                capacities.append(together * (pool.capacity - (pool.capacity % step if step else 0)))
            if limit is not None:
                hours = len(capacities)
                capacities.append(_last(together * limit, proof.shift))
            own.append((room, hours))
        columns.append(own)
        # two rows a machine, of use and of time, go together and are not exchanged one by one
        kinds = [[row for row in rows if row is not None] for rows in zip(*own, strict=True)]
        groups = [tuple(rows) for rows in kinds if len(rows) > 1]
        if len(groups) == 1:
            alike.extend(groups)
    return columns, capacities, tuple(alike)


def names_of(instance: MatchingInstance, proof: Proof) -> list[str]:
    """Return the pool of every capacity of use; a capacity of time has no name."""
    timed = instance.objective == "makespan" and proof.claim.bound is not None
    found = []
    for number, pool in enumerate(instance.machines):
        own = ([pool.id] if pool.capacity is not None else []) + ([""] if timed else [])
        found += own * (pool.count if number in proof.apart else 1)
    return found


def _last(limit: Fraction, shift: int) -> int:
    """Return the greatest whole number of units that is below a time."""
    return math.ceil(scaled(limit, shift)) - 1


def _time(entry: MatchingEntry, shift: int) -> int:
    return int(scaled(entry.time_s or 0.0, shift) // 1)


def _worth(instance: MatchingInstance, entry: MatchingEntry, shift: int) -> int:
    exact = (
        scaled(entry.value or 0.0, shift)
        if instance.objective == "value"
        else -scaled(entry.cost or 0.0, shift)
    )
    return math.ceil(exact)
