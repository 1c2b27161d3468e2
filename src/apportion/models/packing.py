"""Jobs on a pool of identical machines: list schedules, longest first, gangs as rigid tasks.

Graham's rule, each job as early as it fits behind what is placed (Garey and Graham 1975); where there are
gangs also the widest first, and the schedule that ends first is kept. Any schedule is met by the list of its
jobs in the order of their starts: when a job started there, as many machines are free here.
"""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray

__all__ = ["pack", "pool_ends"]


def pack(
    times: NDArray[np.float64],
    gpus: NDArray[np.int64],
    count: int,
    turns: NDArray[np.int64] | None = None,
) -> tuple[list[list[int]], NDArray[np.float64], float]:
    """Schedule jobs on `count` identical machines.

    Parameters
    ----------
    times
        float64 [jobs], seconds.
    gpus
        int64 [jobs]: machines held at the same time, each from 1 to `count`.
    count
        How many machines there are.
    turns
        int64 [jobs]: when each is placed, the smallest first; ``None`` for the longest or the widest first.

    Returns
    -------
    tuple
        The machines of each job, its start in seconds, and the makespan.
    """
    if turns is not None:
        return _listed(times, gpus, count, np.argsort(turns, kind="stable"))
    longest = np.argsort(-times, kind="stable")
    found = _listed(times, gpus, count, longest)
    if (gpus > 1).any():
        widest = _listed(times, gpus, count, np.lexsort((-times, -gpus)))
        found = widest if widest[2] < found[2] else found
    return found


def _listed(
    times: NDArray[np.float64], gpus: NDArray[np.int64], count: int, order: NDArray[np.int64]
) -> tuple[list[list[int]], NDArray[np.float64], float]:
    free = [(0.0, machine) for machine in range(count)]
    places: list[list[int]] = [[] for _ in range(times.size)]
    starts = np.zeros(times.size)
    last = 0.0
    for job in order.tolist():
        held = [heapq.heappop(free) for _ in range(int(gpus[job]))]
        start = held[-1][0]
        end = start + float(times[job])
        places[job] = [machine for _, machine in held]
        starts[job] = start
        last = max(last, end)
        for machine in places[job]:
            heapq.heappush(free, (end, machine))
    return places, starts, last


def pool_ends(
    times: NDArray[np.float64],
    machine: NDArray[np.int64],
    gpus: NDArray[np.int64],
    counts: NDArray[np.int64],
    turns: NDArray[np.int64] | None = None,
) -> NDArray[np.float64]:
    """Return float64 [machines]: when each machine, or the pool of `counts` behind it, is done."""
    ends = np.bincount(machine, weights=times, minlength=counts.size).astype(np.float64, copy=False)
    for pool in np.flatnonzero(counts > 1):
        own = np.flatnonzero(machine == pool)
        turn = None if turns is None else turns[own]
        ends[pool] = pack(times[own], gpus[own], int(counts[pool]), turn)[2]
    return ends
