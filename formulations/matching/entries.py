"""The entries of a matching instance in columns: what every job means to every pool it may go to."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from apportion.instances.matching import MatchingInstance

__all__ = ["Entries"]


@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    """All entries, job by job, and what they say of every pool.

    Attributes
    ----------
    number
        The number of every pool.
    job, pool
        int64 [entries].
    value
        float64 [entries]: the time, the cost or the value.
    uses, gpus
        int64 [entries].
    step
        int64 [pools]: what all uses divide by; 0 where nothing is used.
    mixed, gang
        bool [pools]: whether uses differ (beside 0), and whether a job holds several machines.
    """

    number: dict[str, int]
    job: NDArray[np.int64]
    pool: NDArray[np.int64]
    value: NDArray[np.float64]
    uses: NDArray[np.int64]
    gpus: NDArray[np.int64]
    step: NDArray[np.int64]
    mixed: NDArray[np.bool_]
    gang: NDArray[np.bool_]

    @classmethod
    def of(cls, instance: MatchingInstance) -> Entries:
        """Return the entries of an instance."""
        number = {machine.id: k for k, machine in enumerate(instance.machines)}
        menus = [job.on for job in instance.jobs]
        told = list(chain.from_iterable(menu.values() for menu in menus))
        job = np.repeat(
            np.arange(len(menus), dtype=np.int64), np.array([len(menu) for menu in menus], np.int64)
        )
        pool = np.fromiter(map(number.__getitem__, chain.from_iterable(menus)), np.int64, len(told))
        value = np.fromiter(map(attrgetter(instance.field), told), np.float64, len(told))
        uses = np.fromiter(map(attrgetter("uses"), told), np.int64, len(told))
        gpus = np.fromiter(map(attrgetter("gpus"), told), np.int64, len(told))
        step = np.zeros(len(number), dtype=np.int64)
        np.gcd.at(step, pool, uses)
        mixed, gang = np.zeros((2, len(number)), dtype=np.bool_)
        mixed[pool[(uses != 0) & (uses != step[pool])]] = True
        gang[pool[gpus > 1]] = True
        return cls(number, job, pool, value, uses, gpus, step, mixed, gang)
