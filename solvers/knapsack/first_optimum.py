"""Among equal optima of a one-capacity knapsack, the first in job order: a backward table, a forward walk."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from apportion.models import MultipleChoiceKnapsack

__all__ = ["first_optimum"]

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
    room = min(int(model.capacities[0]) // divisor, _reach(model, divisor))
    jobs = model.num_jobs
    if (jobs + 1) * (room + 1) > _LARGEST_TABLE or model.num_options * (room + 1) > _MOST_STEPS:
        return None
    sign = 1.0 if model.sense == "maximize" else -1.0
    uses, values = (model.uses[:, 0] // divisor).tolist(), (sign * model.values).tolist()
    rest = np.zeros((jobs + 1, room + 1))
    for job in range(jobs - 1, -1, -1):
        best = np.full(room + 1, -np.inf) if model.required[job] else rest[job + 1].copy()
        for row in range(int(model.offsets[job]), int(model.offsets[job + 1])):
            use = uses[row]
            if use <= room:
                np.maximum(best[use:], values[row] + rest[job + 1, : room + 1 - use], out=best[use:])
        rest[job] = best
    slack = _TIE * abs(objective)
    if not np.isfinite(rest[0, room]):
        return None
    return _walk(model, rest, uses, values, room, slack)


def _walk(
    model: MultipleChoiceKnapsack,
    rest: NDArray[np.float64],
    uses: list[int],
    values: list[float],
    room: int,
    slack: float,
) -> NDArray[np.int64] | None:
    choice = np.full(model.num_jobs, -1, dtype=np.int64)
    for job in range(model.num_jobs):
        wanted = rest[job, room] - slack / max(model.num_jobs, 1)
        if not model.required[job] and rest[job + 1, room] >= wanted:
            continue
        for row in range(int(model.offsets[job]), int(model.offsets[job + 1])):
            if uses[row] <= room and values[row] + rest[job + 1, room - uses[row]] >= wanted:
                choice[job], room = row, room - uses[row]
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
