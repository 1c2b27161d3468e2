"""The walk of menus with one capacity: a state is a room, what is left, with the most slack of worth at it.

Both together say a state's slack at every price: to its slack of worth a price adds what it pays for the room
and what open jobs gain by their best options at it. So a level is cut by the least of these lines; and of
states with as much room or less, only those with more slack are kept. They are merged in a table by room.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from apportion.proofs.reducing import Root
from apportion.proofs.walked import Budget, Limits, Walked

__all__ = ["walk_one"]

_WIDEST = 1 << 24
"""States times options of their next job that are merged together at most."""
_SPARSE = 8
"""Places of the table a state beyond which states are sorted instead."""
_ALL_LINES = 1 << 16
"""States times prices up to which every price is asked of every state."""


def walk_one(
    root: Root, order: NDArray[np.int64], limits: Limits, deadline: float | None, budget: Budget
) -> Walked | None:
    """Walk below a root of one capacity; ``None`` where a level is too wide to be merged as a whole.

    Parameters
    ----------
    root
        What is left to decide, in 64 bits.
    order
        int64 [jobs left]: positions among the jobs of the root, first decided first.
    limits
        When to give up.
    deadline
        As `time.monotonic` says it.
    budget
        What of the limits is left.
    """
    menus = root.menus
    unit = max(1, int(np.gcd.reduce(menus.uses[:, 0])))
    uses = menus.uses[:, 0] // unit
    left: NDArray[np.int64] = np.array([int(menus.capacities[0]) // unit], dtype=np.int64)
    slack: NDArray[np.int64] = root.slack[:1].copy()
    slopes = root.weights[:, 0] * unit
    heights = _heights(root, order, slopes, int(left[0]))
    states = 0
    for depth, job in enumerate(order.tolist()):
        rows = slice(int(menus.offsets[job]), int(menus.offsets[job + 1]))
        if left.size * (rows.stop - rows.start) > _WIDEST:
            return None
        budget.spend(
            left.size * (rows.stop - rows.start) + min(left.size * slopes.size, _ALL_LINES), left.dtype
        )
        left, slack = _decided(left, slack, uses[rows].tolist(), root.losses[0, rows].tolist())
        kept = _above(left, slack, slopes, heights[depth])
        left, slack = left[kept], slack[kept]
        states += left.size
        if not left.size:
            return Walked("proved", f"{states} states closed", states)
        best = np.maximum.accumulate(slack)
        kept = np.ones(left.size, dtype=np.bool_)
        kept[1:] = slack[1:] > best[:-1]
        left, slack = left[kept], slack[kept]
        if states > limits.states:
            return Walked("incomplete", f"more than {limits.states} states", states)
        if 2 * left.size > limits.kept:
            return Walked("incomplete", f"more than {limits.kept} numbers kept", states)
        if deadline is not None and time.monotonic() > deadline:
            return Walked("incomplete", f"more than {limits.seconds:g} seconds", states)
    over = int(slack.max()) + 1
    return Walked("refused", f"a leaf is not closed: a choice exceeds the threshold by {over} units", states)


def _heights(root: Root, order: NDArray[np.int64], slopes: NDArray[np.int64], room: int) -> NDArray[np.int64]:
    """Return int64 [jobs, prices]: after every job, slack at a price less slack of worth, with nothing left.

    At the root it is the difference of the slacks less what the price pays for the room. A job's option takes
    its loss of worth from one and its loss at the price from the other; what it uses is no longer left.
    """
    menus = root.menus
    first = menus.offsets[:-1]
    # of any option: loss at the price - loss of worth - what it pays, the same for all options of a job
    gained = (
        root.losses[:, first]
        - root.losses[0, first]
        - np.multiply.outer(root.weights[:, 0], menus.uses[first, 0])
    )
    begin = root.slack - root.slack[0] - slopes * room
    heights: NDArray[np.int64] = (begin[:, None] - np.cumsum(gained[:, order], axis=1)).T
    return heights


def _decided(
    left: NDArray[np.int64], slack: NDArray[np.int64], uses: Sequence[int], losses: Sequence[int]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return, by falling room, what any option of a job leaves, each with the most slack of worth."""
    low = max(0, int(left[-1]) - max(uses))
    fitting = [left.size - int(np.searchsorted(left[::-1], use)) for use in uses]
    width = int(left[0]) - low + 1
    if width > _SPARSE * sum(fitting):
        lefts = np.concatenate([left[:many] - use for many, use in zip(fitting, uses, strict=True)])
        slacks = np.concatenate([slack[:many] - loss for many, loss in zip(fitting, losses, strict=True)])
        order = np.lexsort((-slacks, -lefts))
        return lefts[order], slacks[order]  # of equal rooms the first has the most; the rest is cut after it
    table = np.full(width, -1, dtype=np.int64)
    for many, use, loss in zip(fitting, uses, losses, strict=True):
        at = left[:many] - (use + low)
        table[at] = np.maximum(table[at], slack[:many] - loss)
    found = np.flatnonzero(table >= 0)[::-1]
    return found + low, table[found]


def _above(
    left: NDArray[np.int64], slack: NDArray[np.int64], slopes: NDArray[np.int64], heights: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return whether the slack of every state is at least 0 at every price."""
    if left.size * slopes.size <= _ALL_LINES:
        least = (left[:, None] * slopes + heights).min(axis=1)
    else:
        lines, ends = _lowest(list(zip(slopes.tolist(), heights.tolist(), strict=True)))
        own = np.searchsorted(ends, left)
        least = left * slopes[lines][own] + heights[lines][own]
    return np.asarray(slack + least >= 0, dtype=np.bool_)


def _lowest(lines: Sequence[tuple[int, int]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return which lines are lowest somewhere, by falling slope, and the last room of each but the last."""
    kept: list[int] = []
    ends: list[int] = []
    for at in sorted(range(len(lines)), key=lambda one: (-lines[one][0], lines[one][1])):
        slope, height = lines[at]
        if kept and lines[kept[-1]][0] == slope:
            continue  # it lies nowhere below the one kept
        while kept:
            steeper, over = lines[kept[-1]]
            end = (height - over) // (steeper - slope)  # the last room at which the steeper one is not above
            if end > (ends[-1] if ends else -1):
                ends.append(end)
                break
            kept.pop()
            del ends[-1:]
        kept.append(at)
    return np.array(kept, dtype=np.int64), np.array(ends, dtype=np.int64)
