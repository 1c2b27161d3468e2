"""Which type of node every job runs on, where a partition has several: one type a job at a time.

A knapsack with a capacity for every type: a job's options are a count on one of its types, worth what it is
believed to train there over the forward-looking time, less the standstill of getting there, in units of its
own best speed on a single node (samples of unlike jobs do not compare). Who gets how many nodes of a type is
afterwards the policy's to say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.interruption import uninterrupted
from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.options import SolveOptions, Start
from apportion.outcome import Termination

__all__ = ["TypedJobs", "choose_types"]


@dataclass(frozen=True, slots=True, eq=False)
class TypedJobs:
    """The jobs of a decision.

    Attributes
    ----------
    rates
        float64 [jobs, types, counts]: believed samples per second.
    allowed
        bool [jobs, types]: whether a job runs on a type.
    held
        int64 [jobs, types]: nodes held.
    low, high
        int64 [jobs]: least and most nodes.
    up_s, down_s
        float64 [jobs]: standstill of growing, or of going elsewhere, and of shrinking.
    """

    rates: NDArray[np.float64]
    allowed: NDArray[np.bool_]
    held: NDArray[np.int64]
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    up_s: NDArray[np.float64]
    down_s: NDArray[np.float64]

    def values(self, horizon_s: float) -> NDArray[np.float64]:
        """Return float64 [jobs, types, counts]: what so many nodes of a type are worth to a job."""
        jobs = np.arange(self.low.size)
        on_one = np.where(self.allowed, self.rates[:, :, 1], 0.0)
        best = np.maximum(on_one.max(axis=1, initial=0.0), 1e-300)[:, None, None]
        total, most_on = self.held.sum(axis=1), self.held.argmax(axis=1)
        # one that runs on several types, from before they were told apart, counts as on that of most nodes
        now = self.rates[jobs, most_on, self.held[jobs, most_on]]
        runs = np.where((total > 0) & (total >= self.low), now, 0.0)[:, None, None]
        counts, total = np.arange(self.rates.shape[2]), total[:, None, None]
        here = self.held[:, :, None] == total
        shrinks, stays = here & (counts < total), here & (counts == total)
        stall_s = np.where(shrinks, self.down_s[:, None, None], self.up_s[:, None, None])
        lost = runs * np.where(stays, 0.0, stall_s)
        return np.asarray((horizon_s * self.rates - lost) / best)

    def menus(self, capacities: NDArray[np.int64], horizon_s: float) -> Menus:
        """Return what every job may have: nothing first, then counts in ascending order, type by type."""
        num, types, _ = self.rates.shape
        counts = np.arange(self.rates.shape[2])
        most = np.minimum(self.high[:, None], capacities)[:, :, None]
        open_to = self.allowed[:, :, None] & (counts >= self.low[:, None, None]) & (counts <= most)
        job, type, count = np.nonzero(open_to)
        offsets = np.zeros(num + 1, dtype=np.int64)
        np.cumsum(1 + np.bincount(job, minlength=num), out=offsets[1:])
        rows = np.arange(job.size) + job + 1  # every job's nothing stands before its options
        made = Menus(
            values=np.zeros(offsets[-1]),
            uses=np.zeros((offsets[-1], types), dtype=np.int64),
            offsets=offsets,
            types=np.full(offsets[-1], -1, dtype=np.int64),
            stays=np.where(self.held.any(axis=1), -1, offsets[:-1]),
        )
        made.values[rows] = self.values(horizon_s)[job, type, count]
        made.uses[rows, type] = count
        made.types[rows] = type
        total = self.held.sum(axis=1)
        same = (count == self.held[job, type]) & (count == total[job])
        made.stays[job[same]] = rows[same]
        return made


@dataclass(frozen=True, slots=True, eq=False)
class Menus:
    """The jobs' options, one a row; those of job ``j`` are ``offsets[j]:offsets[j + 1]``.

    Attributes
    ----------
    values
        float64 [options].
    uses
        int64 [options, types]: nodes.
    offsets
        int64 [jobs + 1].
    types
        int64 [options]: -1 for nothing.
    stays
        int64 [jobs]: the row that leaves a job as it is, -1 for none.
    """

    values: NDArray[np.float64]
    uses: NDArray[np.int64]
    offsets: NDArray[np.int64]
    types: NDArray[np.int64]
    stays: NDArray[np.int64]


def choose_types(jobs: TypedJobs, capacities: Sequence[int], horizon_s: float) -> NDArray[np.int64] | None:
    """Return int64 [jobs]: the type every job runs on, -1 for none; ``None`` if no optimum was proven.

    Among choices of equal worth one that leaves more jobs where they are is taken.

    Parameters
    ----------
    jobs
        The jobs; every type has at least as many counts in `jobs.rates` as nodes.
    capacities
        How many nodes there are of every type.
    horizon_s
        Forward-looking time, seconds.
    """
    from apportion.solvers.exact import solve

    room = np.array(capacities, dtype=np.int64)
    menus = jobs.menus(room, horizon_s)
    model = MultipleChoiceKnapsack.from_arrays(menus.values, menus.uses, menus.offsets, room)
    outcome = uninterrupted(solve(model, SolveOptions(time_limit=None), Start(preferred=menus.stays)))
    if outcome.termination is not Termination.OPTIMAL or outcome.point is None:
        return None
    chosen = np.asarray(outcome.point, dtype=np.int64)
    if (menus.uses[chosen].sum(axis=0) > room).any():
        return None
    return menus.types[chosen]
