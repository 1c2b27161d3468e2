"""Find some placement under tight capacities: shifts and swaps that lower the total overflow, with kicks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from apportion.models.assignment import Assignment

__all__ = ["without_overflow"]

_LARGEST = 600
"""Jobs up to which all swaps are looked at."""
_KICKS = 40


def without_overflow(
    model: Assignment, cost: NDArray[np.float64], seed: int, over: Callable[[], bool]
) -> NDArray[np.int64] | None:
    """Return a choice of all jobs that respects the capacities, or ``None`` if none was found.

    Parameters
    ----------
    model
        The assignment.
    cost
        float64 [entries], minimised: where to begin, and which of equal moves to prefer.
    seed
        Random seed.
    over
        Whether the time is over.
    """
    if model.num_jobs > _LARGEST:
        return None
    rng = np.random.default_rng(seed)
    rows = model.rows()
    at = np.maximum(rows, 0)
    price = np.where(rows >= 0, cost[at], np.inf)
    use = np.where(rows >= 0, model.uses[at], 0)
    limit = np.where(model.limited, model.capacities, np.int64(2**62))
    placed = np.argmin(price, axis=1)
    able = np.flatnonzero(np.isfinite(price).any(axis=1))
    for _ in range(_KICKS):
        if over():
            return None
        with np.errstate(invalid="ignore"):  # forbidden pairs cost infinity
            settled = _settled(price, use, limit, placed)
        if settled:
            return np.asarray(rows[np.arange(placed.size), placed], dtype=np.int64)
        for job in rng.choice(able, size=min(able.size, 3), replace=False).tolist():
            placed[job] = rng.choice(np.flatnonzero(np.isfinite(price[job])))
    return None


def _settled(
    price: NDArray[np.float64], use: NDArray[np.int64], limit: NDArray[np.int64], placed: NDArray[np.int64]
) -> bool:
    """Descend on the overflow; return whether it is gone."""
    jobs = np.arange(placed.size)
    span = float(np.ptp(price[np.isfinite(price)])) or 1.0
    while True:
        own = use[jobs, placed]
        held = np.zeros(limit.size, dtype=np.int64)
        np.add.at(held, placed, own)  # not as weights of a bincount, which are doubles
        room = limit - held
        excess = np.maximum(-room, 0)
        if not excess.any():
            return True
        # a job leaves its machine and enters another
        leave = excess[placed] - np.maximum(-(room[placed] + own), 0)
        enter = np.maximum(-(room[None, :] - use), 0) - excess[None, :]
        shift = (leave[:, None] - enter).astype(np.float64)
        shift -= 1e-3 * (price - price[jobs, placed][:, None]) / span
        shift[~np.isfinite(price)] = -np.inf
        shift[jobs, placed] = -np.inf
        # two jobs change places
        there = use[:, placed]
        after = np.maximum(-(room[placed][None, :] + own[None, :] - there), 0)
        relief = (excess[placed][None, :] - after).astype(np.float64)
        swap = relief + relief.T
        apart = price[:, placed] - price[jobs, placed][:, None]
        swap -= 1e-3 * (apart + apart.T) / span
        swap[~np.isfinite(apart) | ~np.isfinite(apart.T) | (placed[:, None] == placed[None, :])] = -np.inf
        best_shift, best_swap = int(np.argmax(shift)), int(np.argmax(swap))
        if max(shift.flat[best_shift], swap.flat[best_swap]) < 0.5:
            return False
        if shift.flat[best_shift] >= swap.flat[best_swap]:
            job, machine = divmod(best_shift, limit.size)
            placed[job] = machine
        else:
            first, second = divmod(best_swap, placed.size)
            placed[first], placed[second] = placed[second], placed[first]
