"""Uses and capacities made small where every machine must hold as many jobs as it can.

Let K_i be the most jobs that machine i can hold, by its smallest uses. Where the K_i add up to the number of
jobs, every plan has exactly K_i jobs on machine i. So a constant d_i may be taken off all uses there and K_i
times it off the capacity: plans stay plans, and while any K_i + 1 jobs still exceed what is left, no others
appear. Jobs of 1,000 to 1,100 seconds on machines that have room for ten of them are then searched in tables
of hundreds of steps, exactly, instead of ten thousand.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["with_full_counts"]

_LARGEST = 2**50
"""Capacities above are left alone: sums over all jobs must not leave 64 bits."""


def with_full_counts(
    use: NDArray[np.int64], capacity: NDArray[np.int64], allowed: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return uses and capacities with the same plans, smaller where counts are full, else as they are.

    Parameters
    ----------
    use
        int64 [machines, jobs], at least 0.
    capacity
        int64 [machines], at least 0.
    allowed
        bool [machines, jobs]: whether the job may go there.
    """
    machines, jobs = use.shape
    beyond = int(capacity.max(initial=0)) + 1
    if beyond > _LARGEST:
        return use, capacity
    ordered = np.sort(np.where(allowed, np.minimum(use, beyond), beyond), axis=1)
    sums = np.cumsum(ordered, axis=1)
    count = (sums <= capacity[:, None]).sum(axis=1)
    if int(count.sum()) != jobs:
        return use, capacity
    more = np.append(sums, np.full((machines, 1), np.iinfo(np.int64).max), axis=1)
    spare = more[np.arange(machines), count] - capacity - 1
    taken = np.where(count > 0, np.minimum(ordered[:, 0], spare), 0)
    return np.maximum(use - taken[:, None], 0), capacity - count * taken
