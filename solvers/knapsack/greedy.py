"""A feasible choice at a multiplier: the break solution, filled up."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from apportion.models import MultipleChoiceKnapsack
from apportion.solvers.knapsack.menu_blocks import Columns, MenuBlocks, build

__all__ = ["break_solution", "choice", "repaired"]

_ROUNDS = 12


def choice(model: MultipleChoiceKnapsack, multiplier: float) -> NDArray[np.int64] | None:
    """Return a feasible choice near the one a multiplier suggests, ``None`` only if nothing is feasible.

    While the best options at `multiplier` do not fit together, jobs go to their option of least use, cheapest
    loss of value per use first; what is left of the capacity is handed to the best upgrades.

    Parameters
    ----------
    model
        The model, with one capacity.
    multiplier
        What one unit of capacity is worth, at least 0; any value is valid, the dual's optimum is best.
    """
    menus = build(model)
    if menus is None:
        return None
    return menus.rows(repaired(menus, [block.best(multiplier) for block in menus.blocks]))


def break_solution(menus: MenuBlocks, low: Columns, high: Columns, largest_first: bool = True) -> Columns:
    """Return `high` with the jobs moved to `low` that first-fit takes, by falling use or in order."""
    columns = [column.copy() for column in high]
    room = menus.capacity - menus.used(high)
    for block, target, column in zip(menus.blocks, low, columns, strict=True):
        jobs = np.flatnonzero(target != column)
        if not jobs.size or room <= 0:
            continue
        part = block if jobs.size == block.size else block.subset(jobs)
        more = part.use_at(target[jobs]) - part.use_at(column[jobs])
        order = np.argsort(-more, kind="stable") if largest_first else np.arange(more.size)
        order = order[more[order] > 0]
        taken = _fitting(more[order], room)
        column[jobs[order[taken]]] = target[jobs[order[taken]]]
        room -= int(more[order[taken]].sum())
    return columns


def repaired(menus: MenuBlocks, columns: Columns) -> Columns:
    """Return a feasible choice made from any choice: downgraded until it fits, then filled up."""
    columns = [column.copy() for column in columns]
    excess = menus.used(columns) - menus.capacity
    if excess > 0:
        _downgrade(menus, columns, excess)
    for _ in range(_ROUNDS):
        room = menus.capacity - menus.used(columns)
        if room <= 0 or not _upgrade(menus, columns, room):
            break
    return columns


def _fitting(uses: NDArray[np.int64], room: int) -> NDArray[np.intp]:
    """Return the positions first-fit takes, in order."""
    taken: list[NDArray[np.intp]] = []
    rest = np.flatnonzero(uses <= room)
    while rest.size:
        total = np.cumsum(uses[rest])
        count = int(np.searchsorted(total, room, side="right"))
        if count:
            taken.append(rest[:count])
            room -= int(total[count - 1])
        rest = rest[count:]
        rest = rest[uses[rest] <= room]
    return np.concatenate(taken) if taken else np.zeros(0, dtype=np.intp)


def _downgrade(menus: MenuBlocks, columns: Columns, excess: int) -> None:
    freed = [b.use_at(c) - b.use_at(t) for b, c, t in zip(menus.blocks, columns, menus.least, strict=True)]
    lost = [b.value_at(c) - b.value_at(t) for b, c, t in zip(menus.blocks, columns, menus.least, strict=True)]
    block_of = np.repeat(np.arange(len(freed)), [f.size for f in freed])
    job_of = np.concatenate([np.arange(f.size) for f in freed])
    free, loss = np.concatenate(freed), np.concatenate(lost)
    some = np.flatnonzero(free > 0)
    order = some[np.argsort(loss[some] / free[some], kind="stable")]
    total = np.cumsum(free[order])
    enough = order[: int(np.searchsorted(total, excess)) + 1]
    for k, least in enumerate(menus.least):
        jobs = job_of[enough[block_of[enough] == k]]
        columns[k][jobs] = least[jobs]


def _upgrade(menus: MenuBlocks, columns: Columns, room: int) -> bool:
    """Move jobs to better options that fit the room, greatest gain per use first; False if there are none."""
    changed = False
    for block, column in zip(menus.blocks, columns, strict=True):
        value, use = block.value_at(column), block.use_at(column)
        gain = np.where(block.use - use[:, None] <= room, block.value - value[:, None], -np.inf)
        target = gain.argmax(axis=1)
        best = gain.ravel().take(block.flat(target))
        jobs = np.flatnonzero(best > 0)
        if not jobs.size:
            continue
        more = block.use_at(target)[jobs] - use[jobs]
        order = np.argsort(-best[jobs] / np.maximum(more, 0.5), kind="stable")
        taken = order[_fitting(np.maximum(more[order], 0), room)]
        column[jobs[taken]] = target[jobs[taken]]
        room -= int(more[taken].sum())
        changed = changed or bool(taken.size)
    return changed
