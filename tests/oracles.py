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
