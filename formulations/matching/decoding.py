"""From "which pool" to "which machines of it, when": packing jobs into the machines of one pool."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from apportion.models.packing import pack

__all__ = ["gang_schedule", "slots"]


def gang_schedule(
    times: Sequence[float], gpus: Sequence[int], count: int, turns: Sequence[int] | None = None
) -> tuple[list[list[int]], list[float]]:
    """Return the machines and the start of each job on a pool of `count` machines, placed in turn."""
    turn = None if turns is None else np.asarray(turns, dtype=np.int64)
    places, starts, _ = pack(
        np.asarray(times, dtype=np.float64), np.asarray(gpus, dtype=np.int64), count, turn
    )
    return [sorted(held) for held in places], starts.tolist()


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
