"""The walk: job after job, every state that could still lead above the threshold, until none is left.

A *state* stands for all choices of the decided jobs that leave the same of every capacity; of those only the
most worth is kept. It is a column of numbers: what is left of every capacity, then of the slack of every
price vector (see `apportion.proofs.reducing`). An option takes from each, and a state is cut where any of
them is below 0. A state that decides the last job and is not cut is a choice worth more than the threshold:
the claim is refused. Levels wider than a chunk are divided and walked
depth first, so that memory stays bounded.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.proofs.one_capacity import walk_one
from apportion.proofs.reducing import Root
from apportion.proofs.relaxed_rows import LARGEST_TABLES, RowBounds, cells, row_bounds, work_of_bounds
from apportion.proofs.walked import Budget, Limits, OverBudget, Walked
from apportion.proofs.whole_menus import Whole

__all__ = ["Limits", "Walked", "walk"]

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
    best = (
        np.maximum.reduceat(root.menus.worths, root.menus.offsets[:-1]) if order.size else root.menus.worths
    )
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

    takes: Whole
    reach: Whole
    alike: tuple[tuple[int, ...], ...]


def _levels(root: Root, order: NDArray[np.int64]) -> list[_Level]:
    menus = root.menus
    most = (
        np.maximum.reduceat(menus.uses, menus.offsets[:-1], axis=0)[order]
        if menus.num_jobs
        else np.zeros((0, len(menus.capacities)), dtype=menus.uses.dtype)
    )
    after = np.zeros_like(most)
    if len(order) > 1:
        after[:-1] = np.cumsum(most[:0:-1], axis=0)[::-1]
    takes = np.concatenate((menus.uses.T, root.losses))
    parts = zip(menus.offsets[order].tolist(), menus.offsets[order + 1].tolist(), after, strict=True)
    return [_Level(takes[:, first:last], reach, menus.alike) for first, last, reach in parts]


def _expanded(at: Whole, level: _Level, rooms: int) -> Whole:
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


def _open(some: Whole, takes: Whole) -> NDArray[np.bool_]:
    """Return bool [options, states]: whether some of the numbers allow the option."""
    alive = np.ones((takes.shape[1], some.shape[1]), dtype=np.bool_)
    for own, taken in zip(some, takes, strict=True):
        alive &= own >= taken[:, None]
    return alive


def _within(at: Whole, bounds: list[RowBounds], decided: int, rooms: int) -> Whole:
    """Return the states that no relaxed rows cut."""
    for bound in bounds:
        at = at[:, np.asarray(bound.slack(decided, at[:rooms], at[rooms]) >= 0, dtype=np.bool_)]
    return at


def _merged(at: Whole, level: _Level) -> Whole:
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


def _keys(at: Whole, level: _Level) -> NDArray[np.int64]:
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
