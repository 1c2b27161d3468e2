"""A feasible choice at a multiplier, filled up; among equal optima the first in the order of jobs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from apportion.models import MultipleChoiceKnapsack
from apportion.solvers.knapsack.menu_blocks import Columns, MenuBlocks, build

__all__ = ["break_solution", "choice", "first_optimum", "repaired"]


_LARGEST_TABLE = 4_000_000
"""Entries of the table above which the question is not answered."""
_MOST_STEPS = 200_000_000
"""Options times capacity above which the question is not answered."""
_TIE = 1e-12


def first_optimum(model: MultipleChoiceKnapsack, objective: float) -> NDArray[np.int64] | None:
    """Return the lexicographically first optimal choice, or ``None`` where the table would be too large.

    Earlier jobs decide first; being left out comes before the options, which come in the order of their menu.
    Sums that agree within 1e-12 of the objective count as equal; values of options that no optimum takes do
    not matter, however large. The table's own path always qualifies.

    Parameters
    ----------
    model
        A knapsack with one capacity, jobs and options in the order that matters.
    objective
        Its optimal objective.
    """
    divisor = int(np.gcd.reduce(model.uses[:, 0])) or 1 if model.num_options else 1
    residual = min(int(model.capacities[0]) // divisor, _reach(model, divisor))
    jobs = model.num_jobs
    if (jobs + 1) * (residual + 1) > _LARGEST_TABLE or model.num_options * (residual + 1) > _MOST_STEPS:
        return None
    sign = 1.0 if model.sense == "maximize" else -1.0
    uses, values = (model.uses[:, 0] // divisor).tolist(), (sign * model.values).tolist()
    rest = np.zeros((jobs + 1, residual + 1))
    for job in range(jobs - 1, -1, -1):
        best = np.full(residual + 1, -np.inf) if model.required[job] else rest[job + 1].copy()
        for row in range(int(model.offsets[job]), int(model.offsets[job + 1])):
            use = uses[row]
            if use <= residual:
                np.maximum(best[use:], values[row] + rest[job + 1, : residual + 1 - use], out=best[use:])
        rest[job] = best
    slack = _TIE * abs(objective)
    if not np.isfinite(rest[0, residual]):
        return None
    return _walk(model, rest, uses, values, residual, slack)


def _walk(
    model: MultipleChoiceKnapsack,
    rest: NDArray[np.float64],
    uses: list[int],
    values: list[float],
    residual: int,
    slack: float,
) -> NDArray[np.int64] | None:
    choice = np.full(model.num_jobs, -1, dtype=np.int64)
    for job in range(model.num_jobs):
        wanted = rest[job, residual] - slack / max(model.num_jobs, 1)
        if not model.required[job] and rest[job + 1, residual] >= wanted:
            continue
        for row in range(int(model.offsets[job]), int(model.offsets[job + 1])):
            if uses[row] <= residual and values[row] + rest[job + 1, residual - uses[row]] >= wanted:
                choice[job], residual = row, residual - uses[row]
                break
        else:
            return None
    return choice


def _reach(model: MultipleChoiceKnapsack, divisor: int) -> int:
    """Return what all jobs together could use at most."""
    filled = np.flatnonzero(np.diff(model.offsets))
    if not filled.size:
        return 0
    return int(np.maximum.reduceat(model.uses[:, 0], model.offsets[filled]).sum()) // divisor


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
    residual = menus.capacity - menus.used(high)
    for block, target, column in zip(menus.blocks, low, columns, strict=True):
        jobs = np.flatnonzero(target != column)
        if not jobs.size or residual <= 0:
            continue
        part = block if jobs.size == block.size else block.subset(jobs)
        more = part.use_at(target[jobs]) - part.use_at(column[jobs])
        order = np.argsort(-more, kind="stable") if largest_first else np.arange(more.size)
        order = order[more[order] > 0]
        taken = _fitting(more[order], residual)
        column[jobs[order[taken]]] = target[jobs[order[taken]]]
        residual -= int(more[order[taken]].sum())
    return columns


def repaired(menus: MenuBlocks, columns: Columns) -> Columns:
    """Return a feasible choice made from any choice: downgraded until it fits, then filled up."""
    columns = [column.copy() for column in columns]
    excess = menus.used(columns) - menus.capacity
    if excess > 0:
        _downgrade(menus, columns, excess)
    for _ in range(_ROUNDS):
        residual = menus.capacity - menus.used(columns)
        if residual <= 0 or not _upgrade(menus, columns, residual):
            break
    return columns


def _fitting(uses: NDArray[np.int64], residual: int) -> NDArray[np.intp]:
    """Return the positions first-fit takes, in order."""
    taken: list[NDArray[np.intp]] = []
    rest = np.flatnonzero(uses <= residual)
    while rest.size:
        total = np.cumsum(uses[rest])
        count = int(np.searchsorted(total, residual, side="right"))
        if count:
            taken.append(rest[:count])
            residual -= int(total[count - 1])
        rest = rest[count:]
        rest = rest[uses[rest] <= residual]
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


def _upgrade(menus: MenuBlocks, columns: Columns, residual: int) -> bool:
    """Move jobs to better options that fit the room, greatest gain per use first; False if there are none."""
    changed = False
    for block, column in zip(menus.blocks, columns, strict=True):
        value, use = block.value_at(column), block.use_at(column)
        gain = np.where(block.use - use[:, None] <= residual, block.value - value[:, None], -np.inf)
        target = gain.argmax(axis=1)
        best = gain.ravel().take(block.flat(target))
        jobs = np.flatnonzero(best > 0)
        if not jobs.size:
            continue
        more = block.use_at(target)[jobs] - use[jobs]
        order = np.argsort(-best[jobs] / np.maximum(more, 0.5), kind="stable")
        taken = order[_fitting(np.maximum(more[order], 0), residual)]
        column[jobs[taken]] = target[jobs[taken]]
        residual -= int(more[taken].sum())
        changed = changed or bool(taken.size)
    return changed
