"""The walk: job after job, every state that could still lead above the threshold, until none is left.

A *state* stands for all choices of the decided jobs that leave the same of every capacity; of those only the
most worth is kept. It is a column of numbers: what is left of every capacity, then of the slack of every
price vector (see `apportion.proofs.reducing`). An option takes from each, and a state is cut where any of
them is below 0. A state that decides the last job and is not cut is a choice worth more than the threshold:
the claim is refused. Levels wider than a chunk are divided and walked
depth first, so that memory stays bounded.

The walk of menus with one capacity: a state is a room, what is left, with the most slack of worth at it.

Both together say a state's slack at every price: to its slack of worth a price adds what it pays for the room
and what open jobs gain by their best options at it. So a level is cut by the least of these lines; and of
states with as much room or less, only those with more slack are kept. They are merged in a table by room.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.proofs.integer_menus import IntegerArray
from apportion.proofs.reducing import Budget, Limits, OverBudget, Root, Walked
from apportion.proofs.relaxed_rows import LARGEST_TABLES, RowBounds, cells, row_bounds, work_of_bounds

__all__ = ["Limits", "Walked", "walk", "walk_one"]


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


_CELLS = 1 << 17
"""Numbers of states that are made in one step: what a processor's cache holds."""
_CHUNK = 1 << 20
"""States times options of their next job that go on together: what one step can make is bounded by it."""
_STEP_BYTES = 1 << 27
"""Bytes of the states that go on together, times options of their next job: so much one step can make."""
_FEW = 4
"""Options up to which every state gets every option before any is cut."""
_DENSE = 3
"""Price vectors that are compared for more options before states are made."""
_MERGED = 64
"""Fewer states are not merged."""
_WORTH_MERGING = 0.95
_PAUSE = 4
"""Levels that pass without merging after one that left more than that share of the states."""
_SPREAD = 0x9E3779B97F4A7C15
"""An odd number of 64 bits, whose powers mix what states leave into one number to sort by."""


def walk(root: Root, order: NDArray[np.int64], limits: Limits, budget: Budget | None = None) -> Walked:
    """Walk the whole tree below a root.

    Parameters
    ----------
    root
        What is left to decide.
    order
        int64 [jobs left]: positions among the jobs of the root, first decided first.
    limits
        When to give up.
    budget
        What of these limits is left; all of it by default.
    """
    if root.closed:
        return Walked("proved", root.closed, 0)
    counted = _Counted()
    try:
        return _walk(root, order, limits, budget or Budget(limits), counted)
    except OverBudget as over:
        return Walked("incomplete", str(over), counted.states)


@dataclass(slots=True)
class _Counted:
    """States that a walk has looked at so far."""

    states: int = 0


def _walk(root: Root, order: NDArray[np.int64], limits: Limits, budget: Budget, counted: _Counted) -> Walked:
    deadline = None if limits.seconds is None else time.monotonic() + limits.seconds
    if len(root.rows) and len(root.rows) * cells(root.menus) > LARGEST_TABLES:
        return Walked("incomplete", f"more than {LARGEST_TABLES} numbers in the tables of rows", 0)
    many_rows, kind = len(root.rows), root.menus.worths.dtype
    if many_rows:
        budget.hold(many_rows * cells(root.menus), root.each, "in the tables of rows")
        budget.spend(many_rows * work_of_bounds(root.menus), kind)
    single = len(root.menus.capacities) == 1 and root.losses.dtype != object and not len(root.rows)
    if single and (walked := walk_one(root, order, limits, deadline, budget)) is not None:
        return walked
    levels = _levels(root, order)
    best = np.maximum.reduceat(root.menus.worths, root.menus.offsets[:-1])
    bounds = [row_bounds(root.menus, numbers, best, order) for numbers in root.rows.tolist()]
    rooms = len(root.menus.capacities)
    stack = [(0, np.concatenate((root.menus.capacities, root.slack)).reshape(-1, 1))]
    merge_from = 0
    while stack:
        depth, at = stack.pop()
        if depth == len(levels):
            over = int(at[rooms].max()) + 1
            return Walked(
                "refused",
                f"a leaf is not closed: a choice exceeds the threshold by {over} units",
                counted.states,
            )
        level = levels[depth]
        looked_at = level.takes.shape[1] * min(level.takes.shape[0], rooms + _DENSE) + 4 * len(bounds)
        budget.spend(at.shape[1] * looked_at, kind)
        at = _within(_expanded(at, level, rooms), bounds, depth + 1, rooms)
        many = at.shape[1]
        counted.states += many
        if not many:
            continue
        if many >= _MERGED and depth >= merge_from and depth + 1 < len(levels):
            at = _merged(at, level)
            merge_from = depth + 1 if at.shape[1] < _WORTH_MERGING * many else depth + _PAUSE
        options = levels[depth + 1].takes.shape[1] if depth + 1 < len(levels) else 1
        together = max(1, min(_CHUNK, _STEP_BYTES // (at.shape[0] * root.each)) // options)
        for first in range(0, at.shape[1], together):
            stack.append((depth + 1, at[:, first : first + together]))
        if counted.states > limits.states:
            return Walked("incomplete", f"more than {limits.states} states", counted.states)
        budget.hold(sum(part.size for _, part in stack), root.each, "in states that are open")
        if deadline is not None and time.monotonic() > deadline:
            return Walked("incomplete", f"more than {limits.seconds:g} seconds", counted.states)
    return Walked("proved", f"{counted.states} states closed", counted.states)


@dataclass(frozen=True, slots=True)
class _Level:
    """One job: what its options take of rooms and slacks, and what all later jobs can use at most.

    Attributes
    ----------
    takes
        whole [capacities + vectors, options].
    reach
        whole [capacities].
    alike
        Groups of capacities that may be exchanged.
    """

    takes: IntegerArray
    reach: IntegerArray
    alike: tuple[tuple[int, ...], ...]


def _levels(root: Root, order: NDArray[np.int64]) -> list[_Level]:
    menus = root.menus
    most = np.maximum.reduceat(menus.uses, menus.offsets[:-1], axis=0)[order]
    after = np.zeros_like(most)
    after[:-1] = np.cumsum(most[:0:-1], axis=0)[::-1]
    takes = np.concatenate((menus.uses.T, root.losses))
    parts = zip(menus.offsets[order].tolist(), menus.offsets[order + 1].tolist(), after, strict=True)
    return [_Level(takes[:, first:last], reach, menus.alike) for first, last, reach in parts]


def _expanded(at: IntegerArray, level: _Level, rooms: int) -> IntegerArray:
    """Return the states that follow by any option and are not cut."""
    takes = level.takes
    step = max(1, _CELLS // takes.size)
    found = []
    for first in range(0, at.shape[1], step):
        some = at[:, first : first + step]
        if takes.shape[1] <= _FEW:
            parts = [some - takes[:, i : i + 1] for i in range(takes.shape[1])]
        else:
            option, state = np.nonzero(_open(some[: rooms + _DENSE], takes[: rooms + _DENSE]))
            parts = [some.take(state, axis=1) - takes.take(option, axis=1)]
        for part in parts:
            found.append(part.take(np.flatnonzero(part.min(axis=0) >= 0), axis=1))
    return np.concatenate(found, axis=1)


def _open(some: IntegerArray, takes: IntegerArray) -> NDArray[np.bool_]:
    """Return bool [options, states]: whether some of the numbers allow the option."""
    alive = np.ones((takes.shape[1], some.shape[1]), dtype=np.bool_)
    for own, taken in zip(some, takes, strict=True):
        alive &= own >= taken[:, None]
    return alive


def _within(at: IntegerArray, bounds: list[RowBounds], decided: int, rooms: int) -> IntegerArray:
    """Return the states that no relaxed rows cut."""
    for bound in bounds:
        at = at[:, np.asarray(bound.slack(decided, at[:rooms], at[rooms]) >= 0, dtype=np.bool_)]
    return at


def _merged(at: IntegerArray, level: _Level) -> IntegerArray:
    """Keep, of states that leave open jobs the same room, one of the most worth; see `_keys`."""
    keys = _keys(at, level)
    worth = at[len(keys)]
    if not len(keys):
        most = int(np.argmax(worth))
        return at[:, most : most + 1]
    if len(keys) == 1:
        # one capacity: a state with no more room and no more worth than another is of no use
        order = np.lexsort((-worth, -keys[0]))
        top = np.maximum.accumulate(worth[order])
        kept = np.ones(order.size, dtype=np.bool_)
        kept[1:] = worth[order][1:] > top[:-1]
        return at.take(order[kept], axis=1)
    # equal keys mix to equal numbers; were others to stand among them, fewer states would be merged
    order = np.argsort(_mixed(keys))
    ranked, own = keys.take(order, axis=1), worth[order]
    first = np.ones(order.size, dtype=np.bool_)
    first[1:] = (ranked[:, 1:] != ranked[:, :-1]).any(axis=0)
    group = np.cumsum(first) - 1
    best = np.flatnonzero(own == np.maximum.reduceat(own, np.flatnonzero(first))[group])
    unlike = np.ones(best.size, dtype=np.bool_)
    unlike[1:] = group[best][1:] != group[best][:-1]
    return at.take(order[best[unlike]], axis=1)


def _keys(at: IntegerArray, level: _Level) -> NDArray[np.int64]:
    """Return the room that can matter: at most what open jobs can use, alike capacities in rising order."""
    keys = np.minimum(at[: level.reach.size], level.reach.reshape(-1, 1))
    for group in level.alike:
        keys[list(group)] = np.sort(keys[list(group)], axis=0)
    if keys.dtype != object:
        return keys
    ranks = [np.unique(row, return_inverse=True)[1] for row in keys]
    return np.array(ranks, dtype=np.int64).reshape(keys.shape)


def _mixed(keys: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return a number for every column, modulo 2**64."""
    found = np.zeros(keys.shape[1], dtype=np.uint64)
    for row in keys.astype(np.uint64):
        found = (found + row) * np.uint64(_SPREAD)
    return found
