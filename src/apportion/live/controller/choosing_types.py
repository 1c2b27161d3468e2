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

    def value(self, job: int, type: int, count: int, horizon_s: float) -> float:
        """Return what so many nodes of a type are worth to a job."""
        best = max(float(self.rates[job, self.allowed[job], 1].max(initial=0.0)), 1e-300)
        here = int(self.held[job, type])
        held = int(self.held[job].sum())
        runs = self.rates[job, type, here] if self.low[job] <= here == held else 0.0
        if held and here != held:  # it runs on another type, or on several from before they were told apart
            main = int(self.held[job].argmax())
            runs = self.rates[job, main, self.held[job, main]] if held >= self.low[job] else 0.0
        same = here == held == count
        stall = 0.0 if same else float(self.down_s[job] if here == held and count < held else self.up_s[job])
        return float((horizon_s * self.rates[job, type, count] - runs * stall) / best)


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

    values, uses, offsets, options, preferred = [], [], [0], [], []
    for job in range(jobs.low.size):
        values.append(0.0)
        uses.append([0] * len(capacities))
        options.append(-1)
        preferred.append(len(values) - 1 - offsets[-1] if not jobs.held[job].any() else -1)
        for type in np.flatnonzero(jobs.allowed[job]).tolist():
            for count in range(int(jobs.low[job]), min(int(jobs.high[job]), capacities[type]) + 1):
                if count == jobs.held[job, type] == jobs.held[job].sum():
                    preferred[-1] = len(values) - offsets[-1]
                values.append(jobs.value(job, type, count, horizon_s))
                uses.append([count if other == type else 0 for other in range(len(capacities))])
                options.append(type)
        offsets.append(len(values))
    model = MultipleChoiceKnapsack.from_arrays(values, uses, offsets, list(capacities))
    rows = np.array(
        [-1 if at < 0 else begin + at for at, begin in zip(preferred, offsets, strict=False)], dtype=np.int64
    )
    outcome = uninterrupted(solve(model, SolveOptions(time_limit=None), Start(preferred=rows)))
    if outcome.termination is not Termination.OPTIMAL or outcome.point is None:
        return None
    chosen = np.asarray(outcome.point, dtype=np.int64)
    if (np.array(uses)[chosen].sum(axis=0) > np.array(capacities)).any():
        return None
    return np.array(options, dtype=np.int64)[chosen]
