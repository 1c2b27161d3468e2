"""Parts of a knapsack: fewer jobs, fewer or other capacities, a job held to some of its options."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from apportion.models.multiple_choice import MultipleChoiceKnapsack

__all__ = ["held_to", "least_uses", "part", "with_capacities"]


def part(
    model: MultipleChoiceKnapsack, jobs: NDArray[np.int64], capacities: NDArray[np.int64]
) -> MultipleChoiceKnapsack:
    """Return the knapsack of some jobs under some capacities; costs are relative uses, to be minimised."""
    sizes = np.diff(model.offsets)[jobs]
    rows = _rows(model.offsets, jobs)
    uses = model.uses[np.ix_(rows, capacities)]
    room = np.maximum(model.capacities[capacities], 1)
    return MultipleChoiceKnapsack.from_arrays(
        (uses / room).sum(axis=1),
        uses,
        np.concatenate(([0], np.cumsum(sizes))).astype(np.int64),
        model.capacities[capacities],
        required=model.required[jobs],
        sense="minimize",
        capacity_names=[model.capacity_names[k] for k in capacities],
    )


def with_capacities(model: MultipleChoiceKnapsack, capacities: NDArray[np.int64]) -> MultipleChoiceKnapsack:
    """Return the same menus under other capacities."""
    return model.under(model.uses, capacities, model.capacity_names)


def held_to(model: MultipleChoiceKnapsack, job: int, row: int) -> MultipleChoiceKnapsack:
    """Return the knapsack with one job held to one row of its menu, or left out (row -1)."""
    start, stop = int(model.offsets[job]), int(model.offsets[job + 1])
    kept = np.ones(model.num_options, dtype=np.bool_)
    kept[start:stop] = False
    if row >= 0:
        kept[row] = True
    offsets = model.offsets.copy()
    offsets[job + 1 :] -= (stop - start) - int(row >= 0)
    required = model.required.copy()
    required[job] = row >= 0
    return MultipleChoiceKnapsack.from_arrays(
        model.values[kept],
        model.uses[kept],
        offsets,
        model.capacities,
        required,
        model.sense,
        model.capacity_names,
    )


def least_uses(model: MultipleChoiceKnapsack) -> NDArray[np.int64]:
    """Return int64 [jobs, capacities]: the least any option of a job uses of each; 0 for an empty menu."""
    least = np.zeros((model.num_jobs, model.num_capacities), dtype=np.int64)
    filled = np.flatnonzero(np.diff(model.offsets))
    if filled.size and model.num_capacities:
        least[filled] = np.minimum.reduceat(model.uses, model.offsets[:-1][filled], axis=0)
    return least


def _rows(offsets: NDArray[np.int64], jobs: NDArray[np.int64]) -> NDArray[np.int64]:
    sizes = np.diff(offsets)[jobs]
    within = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    rows: NDArray[np.int64] = np.repeat(offsets[:-1][jobs], sizes) + within
    return rows
