"""The walk: job after job, every state that could still lead above the threshold, until none is left.

A *state* stands for all choices of the decided jobs that leave the same of every capacity; of those only the
most worth is kept. It is cut where it exceeds a capacity or where, for any of the price vectors, its losses
exceed the slack (see `apportion.proofs.reducing`). A state that decides the last job and is not cut is a
choice worth more than the threshold: the claim is refused. Levels wider than a chunk are divided and walked
depth first, so that memory stays bounded.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.proofs.one_capacity import walk_one
from apportion.proofs.reducing import Root
from apportion.proofs.relaxed_rows import LARGEST_TABLES, RowBounds, cells, row_bounds
from apportion.proofs.walked import Limits, Walked
from apportion.proofs.whole_menus import Whole

__all__ = ["Limits", "Walked", "walk"]

_CELLS = 1 << 22
"""States times options that are looked at in one step."""
_CHUNK = 1 << 20
"""States times options of their next job that go on together: what one step can make is bounded by it."""
_DENSE = 3
"""Price vectors that are compared for all options of all states at once."""
_MERGED = 64
"""Fewer states are not merged."""
_WORTH_MERGING = 0.95
_PAUSE = 4
"""Levels that pass without merging after one that left more than that share of the states."""


def walk(root: Root, order: NDArray[np.int64], limits: Limits) -> Walked:
    """Walk the whole tree below a root.

    Parameters
    ----------
    root
        What is left to decide.
    order
        int64 [jobs left]: positions among the jobs of the root, first decided first.
    limits
        When to give up.
    """
    if root.closed:
        return Walked("proved", root.closed, 0)
    deadline = None if limits.seconds is None else time.monotonic() + limits.seconds
    if len(root.rows) and len(root.rows) * cells(root.menus) > LARGEST_TABLES:
        return Walked("incomplete", f"more than {LARGEST_TABLES} numbers in the tables of rows", 0)
    single = len(root.menus.capacities) == 1 and root.losses.dtype != object and not len(root.rows)
    if single and (walked := walk_one(root, order, limits, deadline)) is not None:
        return walked
    levels = _levels(root, order)
    best = (
        np.maximum.reduceat(root.menus.worths, root.menus.offsets[:-1]) if order.size else root.menus.worths
    )
    bounds = [row_bounds(root.menus, numbers, best, order) for numbers in root.rows.tolist()]
    begin = (root.menus.capacities.reshape(-1, 1), root.slack.reshape(-1, 1))
    stack = [(0, *begin)]
    merge_from = 0
    states = 0
    while stack:
        depth, left, slack = stack.pop()
        if depth == len(levels):
            over = int(slack[0].max()) + 1
            return Walked(
                "refused", f"a leaf is not closed: a choice exceeds the threshold by {over} units", states
            )
        level = levels[depth]
        left, slack = _within(*_expanded(left, slack, level), bounds, depth + 1)
        states += left.shape[1]
        if not left.shape[1]:
            continue
        if left.shape[1] >= _MERGED and depth >= merge_from and depth + 1 < len(levels):
            many = left.shape[1]
            left, slack = _merged(left, slack, level)
            merge_from = depth + 1 if left.shape[1] < _WORTH_MERGING * many else depth + _PAUSE
        options = levels[depth + 1].losses.shape[1] if depth + 1 < len(levels) else 1
        together = max(1, _CHUNK // options)
        for first in range(0, left.shape[1], together):
            part = slice(first, first + together)
            stack.append((depth + 1, left[:, part], slack[:, part]))
        if states > limits.states:
            return Walked("incomplete", f"more than {limits.states} states", states)
        if sum(one.size + other.size for _, one, other in stack) > limits.kept:
            return Walked("incomplete", f"more than {limits.kept} numbers kept", states)
        if deadline is not None and time.monotonic() > deadline:
            return Walked("incomplete", f"more than {limits.seconds:g} seconds", states)
    return Walked("proved", f"{states} states closed", states)


@dataclass(frozen=True, slots=True)
class _Level:
    """One job: its options by rising loss of worth, and what all later jobs can use at most."""

    uses: Whole
    losses: Whole
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
    levels = []
    for at, job in enumerate(order.tolist()):
        rows = slice(int(menus.offsets[job]), int(menus.offsets[job + 1]))
        levels.append(_Level(menus.uses[rows].T, root.losses[:, rows], after[at], menus.alike))
    return levels


def _expanded(left: Whole, slack: Whole, level: _Level) -> tuple[Whole, Whole]:
    """Return the states that follow by any option and are not cut."""
    options = level.losses.shape[1]
    step = max(1, _CELLS // max(1, options))
    lefts, slacks = [], []
    for first in range(0, left.shape[1], step):
        some, own = left[:, first : first + step], slack[:, first : first + step]
        alive = np.ones((own.shape[1], options), dtype=np.bool_)
        for m in range(min(_DENSE, own.shape[0])):
            alive &= own[m][:, None] >= level.losses[m][None, :]
        for k in range(some.shape[0]):
            alive &= some[k][:, None] >= level.uses[k][None, :]
        state, option = np.nonzero(alive)
        for m in range(_DENSE, own.shape[0]):  # few are left to look at
            kept = own[m][state] >= level.losses[m][option]
            state, option = state[kept], option[kept]
        lefts.append(some[:, state] - level.uses[:, option])
        slacks.append(own[:, state] - level.losses[:, option])
    return np.concatenate(lefts, axis=1), np.concatenate(slacks, axis=1)


def _within(left: Whole, slack: Whole, bounds: list[RowBounds], decided: int) -> tuple[Whole, Whole]:
    """Return the states that no relaxed rows cut."""
    for bound in bounds:
        kept = np.asarray(bound.slack(decided, left, slack[0]) >= 0, dtype=np.bool_)
        left, slack = left[:, kept], slack[:, kept]
    return left, slack


def _merged(left: Whole, slack: Whole, level: _Level) -> tuple[Whole, Whole]:
    """Keep, of states that leave open jobs the same room, one of the most worth; see `_keys`."""
    keys, worth = _keys(left, level), slack[0]
    if keys.shape[0] == 0:
        best = int(np.argmax(worth))
        return left[:, best : best + 1], slack[:, best : best + 1]
    by_worth = np.argsort(-worth, kind="stable")
    if keys.shape[0] == 1:
        # one capacity: a state with no more room and no more worth than another is of no use
        order = by_worth[np.argsort(-keys[0][by_worth], kind="stable")]
        top = np.maximum.accumulate(worth[order])
        kept = np.ones(order.size, dtype=np.bool_)
        kept[1:] = worth[order][1:] > top[:-1]
    else:
        order = by_worth[np.lexsort(keys[:, by_worth])]
        ranked = keys[:, order]
        kept = np.ones(order.size, dtype=np.bool_)
        kept[1:] = (ranked[:, 1:] != ranked[:, :-1]).any(axis=0)
    chosen = order[kept]
    return left[:, chosen], slack[:, chosen]


def _keys(left: Whole, level: _Level) -> NDArray[np.int64]:
    """Return the room that can matter: at most what open jobs can use, alike capacities in rising order."""
    keys = np.minimum(left, level.reach.reshape(-1, 1))
    for group in level.alike:
        keys[list(group)] = np.sort(keys[list(group)], axis=0)
    if keys.dtype != object:
        return keys
    ranks = [np.unique(row, return_inverse=True)[1] for row in keys]
    return np.array(ranks, dtype=np.int64).reshape(keys.shape)
