"""A matching as menus: one capacity a machine (or a pool), and for a makespan one of time.

A pool of c machines is one capacity of c times a machine's room, which every plan keeps; taken *apart* it is
c capacities that are alike. A plan that ends before T keeps every machine busy for less than T, so with times
rounded down to the unit a machine's whole seconds are below T, and those of a pool, a gang counted once a
machine it holds, below c T.

What jobs may get of the pools of a matching, as columns: one entry a job and a pool.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import combinations, compress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from apportion.instances import MatchingEntry, MatchingInstance
from apportion.instances.tenants.ledger import is_tenanted
from apportion.proofs.certificate import Limits, MalformedProof, Proof, limits_of
from apportion.proofs.integer_menus import (
    IntegerArray,
    IntegerMenus,
    as_int64,
    integer_menus,
    last_before,
    rounded_down,
    rounded_up,
    threshold,
)
from apportion.proofs.schedules import read

__all__ = ["Entries", "assigned", "entries_of", "names_of"]


_ANY = 1 << 62
"""More than any job uses, and than 64 bits hold safely."""


class Entries(NamedTuple):
    """The entries that a plan may hold, job after job.

    Attributes
    ----------
    job, pool
        int64 [entries]: positions in the instance.
    uses, gpus
        int64 [entries]: of a machine's capacity, and machines held.
    times
        whole [entries]: units of time that they surely take; 0 where times bound nothing.
    menu_entries
        As they stand in the instance.
    taken
        What they take of limits of tenants, by place; empty where there are none.
    steps
        int64 [pools]: what divides the uses of all entries of a pool, kept or not; 0 without any.
    """

    job: NDArray[np.int64]
    pool: NDArray[np.int64]
    uses: NDArray[np.int64]
    gpus: NDArray[np.int64]
    times: IntegerArray
    menu_entries: list[MatchingEntry]
    taken: list[Mapping[int, int]]
    steps: NDArray[np.int64]

    def one_by_one(self) -> Iterator[tuple[int, int, MatchingEntry, int]]:
        """Yield job, pool, entry and time of each."""
        return zip(self.job.tolist(), self.pool.tolist(), self.menu_entries, self.times.tolist(), strict=True)

    def by_gang(self, amounts: IntegerArray) -> IntegerArray:
        """Return amounts times machines held, in 64 bits where they all fit."""
        if int(amounts.max(initial=0)) * int(self.gpus.max(initial=1)) < _ANY:
            return amounts * self.gpus
        return amounts.astype(object) * self.gpus


def entries_of(instance: MatchingInstance, shift: int, limit: Fraction | None, limits: Limits) -> Entries:
    """Return the entries that fit an empty machine, end before a limit, and that a job's tenant may have."""
    number = {machine.id: at for at, machine in enumerate(instance.machines)}
    rooms = [_ANY if machine.capacity is None else machine.capacity for machine in instance.machines]
    menu_entries = [entry for job in instance.jobs for entry in job.on.values()]
    each = np.array([len(job.on) for job in instance.jobs], dtype=np.int64)
    jobs = np.arange(each.size).repeat(each)
    pool = np.array([number[name] for job in instance.jobs for name in job.on], dtype=np.int64)
    uses = np.array([entry.uses for entry in menu_entries], dtype=np.int64)
    gpus = np.array([entry.gpus for entry in menu_entries], dtype=np.int64)
    steps = np.zeros(len(rooms), dtype=np.int64)
    np.gcd.at(steps, pool, uses)
    times: IntegerArray = np.zeros_like(uses)
    taken: list[Mapping[int, int]] = []
    kept = uses <= np.array(rooms, dtype=np.int64)[pool]
    if limit is not None:
        times = rounded_down(
            np.array([entry.time_s or 0.0 for entry in menu_entries], dtype=np.float64), shift
        )
        kept &= np.asarray(times <= last_before(limit, shift), dtype=np.bool_)
    if is_tenanted(instance):
        found = [limits.uses(job.id, name) for job in instance.jobs for name in job.on]
        kept &= np.array([one is not None for one in found], dtype=np.bool_)
        taken = [one for one in compress(found, kept.tolist()) if one is not None]
    if not kept.all():
        menu_entries = list(compress(menu_entries, kept.tolist()))
    return Entries(jobs[kept], pool[kept], uses[kept], gpus[kept], times[kept], menu_entries, taken, steps)


_MOST_SETS = 1_000
"""Sets of machines that a gang may hold, where its pool is taken apart."""
_LARGEST_TABLE = 20_000_000
"""Options times capacities at most."""
_Columns = tuple[int | None, int | None]
"""A machine's, or a pool's, capacities of use and of time, where it has them."""
_Gang = tuple[NDArray[np.int64], list[tuple[_Columns, ...]]]
"""Entries that hold as many machines of a pool taken apart, and every set of so many."""
_Part = tuple[Any, Any, IntegerArray]
"""Options, capacities, and how much of these those use; the three are broadcast together."""


def assigned(instance: MatchingInstance, proof: Proof) -> IntegerMenus:
    """Return the menus of a matching under the claim of a proof."""
    timed = instance.objective == "makespan"
    before = proof.claim.bound if timed else None
    limit = None if before is None else Fraction(before)
    cuts, limits = read(instance, proof, limit), limits_of(instance)
    entries = entries_of(instance, proof.shift, limit, limits)
    columns, capacities, alike = _machines(instance, proof, limit, entries.steps)
    gangs = list(_gangs(entries, columns, proof))
    copies = np.ones(entries.job.size, dtype=np.int64)
    for of, sets in gangs:
        copies[of] = len(sets)
    left_out = [None if job.required else limits.uses(job.id, None) for job in instance.jobs]
    waits = np.array([taken is not None for taken in left_out], dtype=np.bool_)
    owner = np.arange(copies.size).repeat(copies)
    sizes = np.bincount(entries.job[owner], minlength=waits.size) + waits
    rows, first_limit = int(sizes.sum()), len(capacities) + len(cuts)
    width = first_limit + len(limits.rooms)
    if rows * width > _LARGEST_TABLE:
        raise MalformedProof("the pools taken apart make too large a table")
    last = np.cumsum(sizes)[waits] - 1  # to be left out is a job's last option
    options = np.delete(np.arange(rows), last)
    of_cuts = [[cut.use(*entry) for entry in entries.one_by_one()] for cut in cuts]
    of_limits = [[taken.get(k, 0) for taken in entries.taken] for k in range(len(limits.rooms))]
    further = enumerate((*of_cuts, *of_limits), len(capacities))
    parts: list[_Part] = [(options, k, as_int64(amounts)[owner]) for k, amounts in further]
    waiting = (taken for taken in left_out if taken is not None)
    for row, taken in zip(last.tolist(), waiting, strict=True):
        parts += [([row], first_limit + k, as_int64([use])) for k, use in taken.items()]
    parts += _on_machines(entries, columns, gangs, options, np.cumsum(copies) - copies)
    long = any(amounts.dtype == object for *_, amounts in parts)
    uses: IntegerArray = np.zeros((rows, width), dtype=object if long else np.int64)
    for some, k, amounts in parts:
        uses[some, k] = amounts
    free = timed or proof.claim.bound is None
    worths: IntegerArray = np.zeros(rows, dtype=np.int64)
    if not free:
        own = _worths(instance, entries, proof.shift)
        worths = worths.astype(own.dtype)
        worths[options] = own[owner]
    most = -1 if free else threshold(proof.claim, proof.shift, instance.objective == "value")
    rooms = [*capacities, *(cut.room for cut in cuts), *limits.rooms]
    return integer_menus(worths, uses, sizes, rooms, most, alike=alike)


def _gangs(entries: Entries, columns: list[list[_Columns]], proof: Proof) -> Iterator[_Gang]:
    """Yield the entries of pools taken apart, by pool and machines held."""
    for pool in proof.apart:
        on = np.flatnonzero(entries.pool == pool)
        for gang in np.unique(entries.gpus[on]).tolist():
            if math.comb(len(columns[pool]), gang) > _MOST_SETS:
                raise MalformedProof("a pool taken apart offers a gang too many sets of machines")
            yield on[entries.gpus[on] == gang], list(combinations(columns[pool], gang))


def _on_machines(
    entries: Entries,
    columns: list[list[_Columns]],
    gangs: list[_Gang],
    options: NDArray[np.int64],
    firsts: NDArray[np.int64],
) -> Iterator[_Part]:
    """Yield what options use of the machines, or pools, that they hold: of their room, and of their time."""
    for kind, amounts in enumerate((entries.uses, entries.times)):
        by_pool = [-1 if (k := own[0][kind]) is None else k for own in columns]
        column = np.array(by_pool, dtype=np.int64)[entries.pool]
        for of, sets in gangs:
            held_on = [[machine[kind] for machine in one] for one in sets if one[0][kind] is not None]
            if held_on:
                own = options[firsts[of][:, None] + np.arange(len(sets))]
                yield own[:, :, None], np.array(held_on), amounts[of][:, None, None]
            column[of] = -1
        whole = np.flatnonzero(column >= 0)
        yield options[firsts[whole]], column[whole], entries.by_gang(amounts)[whole]


def _worths(instance: MatchingInstance, entries: Entries, shift: int) -> IntegerArray:
    """Return what entries are worth, rounded up; costs count below 0."""
    if instance.objective == "value":
        return rounded_up(
            np.array([entry.value or 0.0 for entry in entries.menu_entries], dtype=np.float64), shift
        )
    return rounded_up(
        -np.array([entry.cost or 0.0 for entry in entries.menu_entries], dtype=np.float64), shift
    )


def _machines(
    instance: MatchingInstance, proof: Proof, limit: Fraction | None, steps: NDArray[np.int64]
) -> tuple[list[list[_Columns]], list[int], tuple[tuple[int, ...], ...]]:
    """Return every machine's capacities of use and of time, what all of them hold, and which are alike."""
    taken_apart = frozenset(proof.apart)
    if any(not 0 <= pool < len(instance.machines) for pool in taken_apart):
        raise MalformedProof("apart names a pool that the instance does not have")
    columns: list[list[_Columns]] = []
    capacities: list[int] = []
    alike: list[tuple[int, ...]] = []
    for number, (pool, step) in enumerate(zip(instance.machines, steps.tolist(), strict=True)):
        apart = number in taken_apart
        if apart and pool.count > 10_000:
            raise MalformedProof(f"pool {pool.id!r} is too large to be taken apart")
        together = 1 if apart else pool.count
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
