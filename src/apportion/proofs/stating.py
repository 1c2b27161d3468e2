"""From exact columns and a claim to the menus that a proof walks, whatever kind; nothing comes from a solver.

Where `maximise` is said below, minimised kinds are negated. A claim of infeasibility sets every worth to 0
and the threshold to -1: then any choice at all would refute it.

A pool of c machines is one capacity of c times a machine's room, which every plan keeps; taken *apart* it is
c capacities that are alike. A plan that ends before T keeps every machine busy for less than T, so with times
rounded down to the unit a machine's whole seconds are below T, and those of a pool, a gang counted once a
machine it holds, below c T.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from apportion.instances.columns import Columns, Exact, PoolUse
from apportion.instances.freezing.nodes import NodeWeights
from apportion.proofs import capacity_cuts, pool_cuts
from apportion.proofs.certificate import Cut, MalformedProof, Proof
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

__all__ = ["capacity_names", "stated"]

_ANY = 1 << 62
"""More than any job uses, and than 64 bits hold safely."""
_MOST_SETS = 1_000
"""Sets of machines that a gang may hold, where its pool is taken apart."""
_MOST_APART = 10_000
_MOST_CUTS = 10_000
_LARGEST_TABLE = 20_000_000
"""Options times capacities at most."""
_Machine = tuple[int | None, int | None]
"""A machine's, or a pool's, capacities of use and of time, where it has them."""
_Part = tuple[Any, Any, IntegerArray]
"""Options, capacities, and how much of these those use; the three are broadcast together."""


class _ReadCut(Protocol):
    """One further capacity, its reason checked."""

    @property
    def room(self) -> int:
        """What no plan exceeds."""
        ...

    def amounts(self, given: Columns, kept: NDArray[np.int64], times: IntegerArray) -> IntegerArray:
        """Return what some options take of it, whose times are whole."""
        ...


def stated(given: Columns, proof: Proof) -> IntegerMenus:
    """Return the menus of an instance under a claim, in the unit that the proof names.

    Raises
    ------
    MalformedProof
        If the proof asks for a refinement that this kind of instance does not have.
    """
    refined = "cuts" in given.sections
    if not refined and any("capacity" not in cut for cut in proof.cuts):
        raise MalformedProof("cuts of nodes and pools belong to layer freezing and to makespans")
    if proof.apart and not (refined and given.pool_use is not None):
        raise MalformedProof("apart belongs to matchings")
    timed = given.goal == "makespan"
    bound = proof.claim.bound
    limit = Fraction(bound) if timed and bound is not None else None
    maximizes = given.goal == "maximize"
    free = timed or bound is None
    most = -1 if free else threshold(proof.claim, proof.shift, maximizes)
    if given.pool_use is None and not proof.cuts:
        worths = _worths(given.values, proof.shift, maximizes, free)
        return integer_menus(worths, given.uses, np.diff(given.offsets), given.rooms, most, given.waits)
    cuts = _read_cuts(given, proof, limit)
    rooms: list[int] = []
    first: dict[str, int] = {}
    machines: list[list[_Machine]] = []
    alike: tuple[tuple[int, ...], ...] = ()
    for section in _sections(given):
        first[section] = len(rooms)
        if section == "capacities":
            rooms += given.rooms
        elif section == "cuts":
            rooms += [cut.room for cut in cuts]
        elif given.pool_use is not None:
            machines, alike = _machines(given.pool_use, proof, limit, rooms)
    if given.alike is not None:
        alike = given.alike(limit is not None)
    kept, times = _kept(given, proof.shift, limit)
    gangs = [] if given.pool_use is None else list(_gangs(given.pool_use, kept, machines, proof))
    copies = np.ones(kept.size, dtype=np.int64)
    for of, sets in gangs:
        copies[of] = len(sets)
    each = np.arange(kept.size).repeat(copies)
    sizes = np.bincount(given.owner[kept][each], minlength=len(given.jobs))
    if each.size * len(rooms) > _LARGEST_TABLE:
        raise MalformedProof("machines and cuts make too large a table")
    parts: list[_Part] = []
    own = given.uses[kept]
    for k in np.flatnonzero(own.any(axis=0)).tolist():
        parts.append((np.arange(each.size), first["capacities"] + k, own[each, k]))
    for k, cut in enumerate(cuts):
        parts.append((np.arange(each.size), first["cuts"] + k, cut.amounts(given, kept, times)[each]))
    if given.pool_use is not None:
        parts += _on_machines(given.pool_use, kept, times, machines, gangs, np.cumsum(copies) - copies)
    long = any(amounts.dtype == object for *_, amounts in parts)
    uses: IntegerArray = np.zeros((each.size, len(rooms)), dtype=object if long else np.int64)
    for some, k, amounts in parts:
        uses[some, k] = amounts
    worths = _worths(given.values, proof.shift, maximizes, free)[kept][each]
    return integer_menus(worths, uses, sizes, rooms, most, given.waits, alike)


def capacity_names(given: Columns, proof: Proof) -> list[str]:
    """Return the name of every capacity as multipliers name it; a machine's is that of its pool.

    A capacity of time, and what an exclusion forbids, has no name.
    """
    timed = given.goal == "makespan" and proof.claim.bound is not None
    found: list[str] = []
    for section in _sections(given):
        if section == "capacities":
            found += given.capacities
        elif section == "cuts":
            found += _names_of_cuts(proof.cuts)
        elif given.pool_use is not None:
            for number, pool in enumerate(given.pool_use.pools):
                own = ([pool.name] if pool.capacity is not None else []) + ([""] if timed else [])
                found += own * (pool.count if number in proof.apart else 1)
    return found


def _sections(given: Columns) -> tuple[str, ...]:
    """Return in which order capacities, pools and cuts come; where cuts have no place of their own, last."""
    return given.sections if "cuts" in given.sections else (*given.sections, "cuts")


def _worths(values: Exact, shift: int, maximizes: bool, free: bool) -> IntegerArray:
    """Return worths rounded up; costs count below 0."""
    if free:
        return np.zeros(len(values), dtype=np.int64)
    if isinstance(values, np.ndarray):
        return rounded_up(values if maximizes else -values, shift)
    up, down, sign = max(shift, 0), max(-shift, 0), 1 if maximizes else -1
    return as_int64([-(-(sign * above << up) // (below << down)) for above, below in values])


def _kept(given: Columns, shift: int, limit: Fraction | None) -> tuple[NDArray[np.int64], IntegerArray]:
    """Return the options that fit an empty machine and end before a limit, and the time of each."""
    if given.pool_use is None:
        return np.arange(given.uses.shape[0]), np.zeros(given.uses.shape[0], dtype=np.int64)
    rooms = [_ANY if pool.capacity is None else pool.capacity for pool in given.pool_use.pools]
    fits = given.pool_use.use <= np.array([*rooms, _ANY], dtype=np.int64)[given.pool_use.pool]
    times: IntegerArray = np.zeros(fits.size, dtype=np.int64)
    if limit is not None:
        times = rounded_down(given.pool_use.time, shift)
        fits &= np.asarray(times <= last_before(limit, shift), dtype=np.bool_)
    kept = np.flatnonzero(fits)
    return kept, times[kept]


def _gangs(
    given: PoolUse, kept: NDArray[np.int64], machines: list[list[_Machine]], proof: Proof
) -> Iterator[tuple[NDArray[np.int64], list[tuple[_Machine, ...]]]]:
    """Yield the options of pools taken apart, by pool and machines held, and every set of so many."""
    pools, gangs = given.pool[kept], given.gang[kept]
    for pool in proof.apart:
        on = np.flatnonzero(pools == pool)
        for gang in np.unique(gangs[on]).tolist():
            if math.comb(len(machines[pool]), gang) > _MOST_SETS:
                raise MalformedProof("a pool taken apart offers a gang too many sets of machines")
            yield on[gangs[on] == gang], list(combinations(machines[pool], gang))


def _on_machines(
    given: PoolUse,
    kept: NDArray[np.int64],
    times: IntegerArray,
    machines: list[list[_Machine]],
    gangs: list[tuple[NDArray[np.int64], list[tuple[_Machine, ...]]]],
    firsts: NDArray[np.int64],
) -> Iterator[_Part]:
    """Yield what options use of the machines, or pools, that they hold: of their room, and of their time."""
    pools = given.pool[kept]
    for kind, amounts in enumerate((given.use[kept], times)):
        by_pool = [-1 if (k := own[0][kind]) is None else k for own in machines]
        column = np.array([*by_pool, -1], dtype=np.int64)[pools]
        for of, sets in gangs:
            held_on = [[machine[kind] for machine in one] for one in sets if one[0][kind] is not None]
            if held_on:
                own = firsts[of][:, None] + np.arange(len(sets))
                yield own[:, :, None], np.array(held_on), amounts[of][:, None, None]
            column[of] = -1
        whole = np.flatnonzero(column >= 0)
        yield firsts[whole], column[whole], _by_gang(amounts, given.gang[kept])[whole]


def _by_gang(amounts: IntegerArray, gangs: NDArray[np.int64]) -> IntegerArray:
    """Return amounts times machines held, in 64 bits where they all fit."""
    if int(amounts.max(initial=0)) * int(gangs.max(initial=1)) < _ANY:
        return amounts * gangs
    return amounts.astype(object) * gangs


def _machines(
    given: PoolUse, proof: Proof, limit: Fraction | None, rooms: list[int]
) -> tuple[list[list[_Machine]], tuple[tuple[int, ...], ...]]:
    """Return every machine's capacities of use and of time, and which are alike; add their rooms."""
    taken_apart = frozenset(proof.apart)
    if any(not 0 <= pool < len(given.pools) for pool in taken_apart):
        raise MalformedProof("apart names a pool that the instance does not have")
    machines: list[list[_Machine]] = []
    alike: list[tuple[int, ...]] = []
    for number, pool in enumerate(given.pools):
        apart = number in taken_apart
        if apart and pool.count > _MOST_APART:
            raise MalformedProof(f"pool {pool.name!r} is too large to be taken apart")
        if limit is not None and pool.count < 1:
            raise MalformedProof("a machine without a unit has no time")
        together = 1 if apart else pool.count
        own: list[_Machine] = []
        for _ in range(pool.count if apart else 1):
            room = hours = None
            if pool.capacity is not None:
                room = len(rooms)
                rooms.append(together * pool.capacity)
            if limit is not None:
                hours = len(rooms)
                rooms.append(last_before(together * limit, proof.shift))
            own.append((room, hours))
        machines.append(own)
        # two rows a machine, of use and of time, go together and are not exchanged one by one
        kinds = [[row for row in rows if row is not None] for rows in zip(*own, strict=True)]
        groups = [tuple(rows) for rows in kinds if len(rows) > 1]
        if len(groups) == 1:
            alike.extend(groups)
    return machines, tuple(alike)


def _read_cuts(given: Columns, proof: Proof, limit: Fraction | None) -> Sequence[_ReadCut]:
    """Return the cuts of a proof.

    Raises
    ------
    MalformedProof
        If one is no cut, or its reason does not hold.
    """
    if len(proof.cuts) > _MOST_CUTS:
        raise MalformedProof(f"more than {_MOST_CUTS} cuts")
    if not proof.cuts:
        return ()
    return capacity_cuts.read(given, proof) if given.pool_use is None else pool_cuts.read(given, proof, limit)


def _names_of_cuts(cuts: Sequence[Cut]) -> list[str]:
    """Return what multipliers name cuts; most have no name."""
    return [
        NodeWeights(cut["gpu_type"], tuple(cut["node_weights"])).name if "node_weights" in cut else ""
        for cut in cuts
    ]
