"""What jobs may get of the pools of a matching, as columns: one entry a job and a pool."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import compress
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from apportion.instances import MatchingEntry, MatchingInstance
from apportion.instances.tenants.ledger import is_tenanted
from apportion.proofs.limits import Limits
from apportion.proofs.times import last_before, rounded_down
from apportion.proofs.whole_menus import Whole

__all__ = ["Entries", "entries_of"]

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
    told
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
    times: Whole
    told: list[MatchingEntry]
    taken: list[Mapping[int, int]]
    steps: NDArray[np.int64]

    def one_by_one(self) -> Iterator[tuple[int, int, MatchingEntry, int]]:
        """Yield job, pool, entry and time of each."""
        return zip(self.job.tolist(), self.pool.tolist(), self.told, self.times.tolist(), strict=True)

    def by_gang(self, amounts: Whole) -> Whole:
        """Return amounts times machines held, in 64 bits where they all fit."""
        if int(amounts.max(initial=0)) * int(self.gpus.max(initial=1)) < _ANY:
            return amounts * self.gpus
        return amounts.astype(object) * self.gpus


def entries_of(instance: MatchingInstance, shift: int, limit: Fraction | None, limits: Limits) -> Entries:
    """Return the entries that fit an empty machine, end before a limit, and that a job's tenant may have."""
    number = {machine.id: at for at, machine in enumerate(instance.machines)}
    rooms = [_ANY if machine.capacity is None else machine.capacity for machine in instance.machines]
    told = [entry for job in instance.jobs for entry in job.on.values()]
    each = np.array([len(job.on) for job in instance.jobs], dtype=np.int64)
    jobs = np.arange(each.size).repeat(each)
    pool = np.array([number[name] for job in instance.jobs for name in job.on], dtype=np.int64)
    uses = np.array([entry.uses for entry in told], dtype=np.int64)
    gpus = np.array([entry.gpus for entry in told], dtype=np.int64)
    steps = np.zeros(len(rooms), dtype=np.int64)
    np.gcd.at(steps, pool, uses)
    times: Whole = np.zeros_like(uses)
    taken: list[Mapping[int, int]] = []
    kept = uses <= np.array(rooms, dtype=np.int64)[pool]
    if limit is not None:
        times = rounded_down(np.array([entry.time_s or 0.0 for entry in told], dtype=np.float64), shift)
        kept &= np.asarray(times <= last_before(limit, shift), dtype=np.bool_)
    if is_tenanted(instance):
        found = [limits.uses(job.id, name) for job in instance.jobs for name in job.on]
        kept &= np.array([one is not None for one in found], dtype=np.bool_)
        taken = [one for one in compress(found, kept.tolist()) if one is not None]
    if not kept.all():
        told = list(compress(told, kept.tolist()))
    return Entries(jobs[kept], pool[kept], uses[kept], gpus[kept], times[kept], told, taken, steps)
