"""A bare `Assignment` as menus: a capacity of use for every limited machine, and for a makespan one of time.

Here a machine's capacity bounds the uses of all its jobs, however many units it has; a makespan of T needs
less than T times its units of time, a gang counted once a unit. Machines that no job tells apart are alike.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from apportion.models.assignment import Assignment
from apportion.proofs.certificate import MalformedProof, Proof
from apportion.proofs.integer_menus import (
    IntegerArray,
    IntegerMenus,
    integer_menus,
    last_before,
    rounded_down,
    rounded_up,
    scaled,
)

__all__ = ["names_of", "placed"]

_LARGEST_TABLE = 20_000_000
"""Options times capacities at most."""


def placed(model: Assignment, proof: Proof) -> IntegerMenus:
    """Return the menus of a bare assignment under the claim of a proof."""
    bound = proof.claim.bound
    limit = Fraction(bound) if model.goal == "makespan" and bound is not None else None
    if limit is not None and (model.counts < 1).any():
        raise MalformedProof("a machine without a unit has no time")
    limited = np.flatnonzero(model.limited)
    column = np.full(model.num_machines, -1, dtype=np.int64)
    column[limited] = np.arange(limited.size)
    capacities = model.capacities[limited].tolist()
    times, kept = _times(model, proof.shift, limit)
    if limit is not None:
        capacities += [last_before(limit * count, proof.shift) for count in model.counts.tolist()]
    if int(kept.sum()) * len(capacities) > _LARGEST_TABLE:
        raise MalformedProof("the machines make too large a table")
    machine, own = model.machine[kept], np.arange(int(kept.sum()))
    uses: IntegerArray = np.zeros((own.size, len(capacities)), dtype=times.dtype)
    bounded = column[machine] >= 0
    uses[own[bounded], column[machine][bounded]] = model.uses[kept][bounded]
    if limit is not None:
        uses[own, limited.size + machine] = times[kept] * model.gpus[kept]
    sign = 1 if model.goal == "value" else -1
    free = bound is None or limit is not None
    worths = np.zeros(own.size, np.int64) if free else rounded_up(sign * model.values[kept], proof.shift)
    threshold = -1 if free else int(scaled(sign * Fraction(bound or 0), proof.shift) // 1)
    sizes = np.diff(np.concatenate(([0], np.cumsum(kept)))[model.offsets])
    alike = _alike(model, column if limited.size else None, limit is not None)
    return integer_menus(worths, uses, sizes, capacities, threshold, ~model.required, alike)


def names_of(model: Assignment, proof: Proof) -> list[str]:
    """Return the pool of every capacity of use; a capacity of time has no name."""
    timed = model.goal == "makespan" and proof.claim.bound is not None
    named = [model.pool_names[pool] for pool in model.pool[model.limited].tolist()]
    return named + [""] * (model.num_machines if timed else 0)


def _times(model: Assignment, shift: int, limit: Fraction | None) -> tuple[IntegerArray, NDArray[np.bool_]]:
    """Return the times in whole units, and which entries end before the limit."""
    if limit is None:
        return np.zeros(model.num_options, dtype=np.int64), np.ones(model.num_options, dtype=np.bool_)
    times = rounded_down(model.values, shift)
    last = last_before(limit, shift)
    kept = np.asarray(times <= last, dtype=np.bool_)
    largest = int(times.max(initial=0)) * int(model.gpus.max(initial=1))
    return (times if largest < 1 << 62 else times.astype(object)), kept


def _alike(model: Assignment, limited: object, timed: bool) -> tuple[tuple[int, ...], ...]:
    """Return groups of machines that no job tells apart, as capacities; one row a machine only."""
    if (limited is None) == (not timed):
        return ()  # no rows, or two a machine that would have to be exchanged together
    position = np.arange(model.num_machines) if timed else np.cumsum(model.limited) - 1
    # machines that no job tells apart have the same sum, added up in the same order
    sums = np.bincount(model.machine, weights=model.values, minlength=model.num_machines)
    some = np.flatnonzero(np.ones_like(model.limited) if timed else model.limited)
    _, which, shared = np.unique(sums[some], return_inverse=True, return_counts=True)
    some = some[shared[which] > 1]
    if not some.size:
        return ()
    owner = model.job_of_option()
    order = np.lexsort((model.gpus, model.uses, model.values, owner, model.machine))
    ends = np.searchsorted(model.machine[order], np.arange(model.num_machines + 1)).tolist()
    groups: dict[tuple[object, ...], list[int]] = {}
    for machine in some.tolist():
        rows = order[ends[machine] : ends[machine + 1]]
        entries = tuple(part[rows].tobytes() for part in (owner, model.values, model.uses, model.gpus))
        key = (int(model.counts[machine]), int(model.capacities[machine]), *entries)
        groups.setdefault(key, []).append(int(position[machine]))
    return tuple(tuple(group) for group in groups.values() if len(group) > 1)
