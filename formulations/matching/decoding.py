"""From "which pool" to "which machines of it, when": packing jobs into the machines of one pool."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from apportion.models.packing import pack

__all__ = ["slots", "timed_slots"]


def timed_slots(
    times: Sequence[float],
    uses: Sequence[int],
    gpus: Sequence[int],
    count: int,
    capacity: int | None,
    turns: Sequence[int] | None = None,
) -> tuple[list[list[int]], list[float]]:
    """Return the machines and the start of each job on a pool of `count` machines.

    Times decide where jobs go, placed in turn; where machines would then be filled beyond their capacity,
    uses do, and times decide the order.
    """
    turn = None if turns is None else np.asarray(turns, dtype=np.int64)
    places, starts, _ = pack(
        np.asarray(times, dtype=np.float64), np.asarray(gpus, dtype=np.int64), count, turn
    )
    by_time = [sorted(held) for held in places]
    if capacity is None or _fit(by_time, uses, capacity):
        return by_time, starts.tolist()
    by_use = slots(uses, gpus, min(count, sum(gpus)), capacity)
    if not _fit(by_use, uses, capacity):
        return by_time, starts.tolist()
    ends: dict[int, float] = {}
    begins = [0.0] * len(times)
    for job in sorted(range(len(times)), key=lambda j: (-gpus[j], -times[j])):
        begins[job] = max(ends.get(machine, 0.0) for machine in by_use[job])
        ends |= dict.fromkeys(by_use[job], begins[job] + times[job])
    return by_use, begins


def _fit(places: Sequence[Sequence[int]], uses: Sequence[int], capacity: int) -> bool:
    held: dict[int, int] = {}
    for machines, use in zip(places, uses, strict=True):
        for machine in machines:
            held[machine] = held.get(machine, 0) + use
    return max(held.values(), default=0) <= capacity


def slots(uses: Sequence[int], gpus: Sequence[int], count: int, capacity: int) -> list[list[int]]:
    """Return the machines of each job, none filled beyond its capacity where that is found.

    Widest gang first, largest use first, each on the emptiest machines: exact for alike uses.
    """
    left = np.full(count, capacity, dtype=np.int64)
    places: list[list[int]] = [[] for _ in uses]
    for job in sorted(range(len(uses)), key=lambda j: (-gpus[j], -uses[j])):
        held = np.argsort(-left, kind="stable")[: gpus[job]]
        left[held] -= uses[job]
        places[job] = sorted(held.tolist())
    return places
