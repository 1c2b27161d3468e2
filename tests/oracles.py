"""Slow, obvious answers that the tests compare every solver with."""

from __future__ import annotations

from itertools import product

import numpy as np

from apportion.models import MultipleChoiceKnapsack


def enumerate_knapsack(model: MultipleChoiceKnapsack) -> tuple[float, np.ndarray] | None:
    """Return the best objective and a best choice by trying every combination; ``None`` if infeasible."""
    menus = [
        ([] if model.required[job] else [-1]) + list(range(model.offsets[job], model.offsets[job + 1]))
        for job in range(model.num_jobs)
    ]
    best: tuple[float, np.ndarray] | None = None
    sign = 1.0 if model.sense == "maximize" else -1.0
    for combination in product(*menus):
        choice = np.array(combination, dtype=np.int64)
        if (model.used(choice) <= model.capacities).all():
            value = model.objective(choice)
            if best is None or sign * value > sign * best[0]:
                best = (value, choice)
    return best


def tabulate_knapsack(model: MultipleChoiceKnapsack) -> tuple[float, np.ndarray] | None:
    """Return the same of one capacity by a table over all of it: every job tries every option everywhere."""
    sizes, sign = np.diff(model.offsets), 1.0 if model.sense == "maximize" else -1.0
    most = np.maximum.reduceat(model.uses[:, 0], model.offsets[:-1][sizes > 0]).sum() if sizes.any() else 0
    capacity = min(int(model.capacities[0]), int(most))
    best, taken = np.zeros(capacity + 1), np.full((model.num_jobs, capacity + 1), -1)
    for job in range(model.num_jobs):
        before = best
        best = np.full(before.size, -np.inf) if model.required[job] else before.copy()
        for row in range(int(model.offsets[job]), int(model.offsets[job + 1])):
            if (use := int(model.uses[row, 0])) <= capacity:
                value = before[: before.size - use] + sign * model.values[row]
                better = value > best[use:]
                best[use:][better], taken[job, use:][better] = value[better], row
    at = int(best.argmax())
    if best[at] == -np.inf:
        return None
    choice = np.full(model.num_jobs, -1, dtype=np.int64)
    for job in range(model.num_jobs - 1, -1, -1):
        choice[job] = taken[job, at]
        at -= int(model.uses[choice[job], 0]) if choice[job] >= 0 else 0
    return model.objective(choice), choice
