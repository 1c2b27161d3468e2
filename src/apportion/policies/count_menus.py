"""The gap-filling menus of a view as arrays, value by value those of the formulation by count.

    value_j(n) = horizon rate_j(n) - rate_j(C_j) (up_j [n > C_j] + down_j [n < C_j]),   n in {0} and
    min_j..max_j

with C_j the nodes held and rate_j(C_j) = 0 below the minimum (BFTrainer, arXiv:2106.12091).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.policies.gap_filling_view import GapFillingView

__all__ = ["CountMenus", "count_menus", "values_of"]


@dataclass(frozen=True, slots=True, eq=False)
class CountMenus:
    """A knapsack over node counts.

    Attributes
    ----------
    knapsack
        One option per job and admissible count.
    counts
        int64 [options]: node count of each option.
    """

    knapsack: MultipleChoiceKnapsack
    counts: NDArray[np.int64]

    def rows(self, wanted: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the option with each job's wanted count, -1 where it has none."""
        offsets = self.knapsack.offsets
        hits = np.flatnonzero(self.counts == np.repeat(wanted, np.diff(offsets)))
        rows = np.full(wanted.size, -1, dtype=np.int64)
        rows[np.searchsorted(offsets, hits, side="right") - 1] = hits
        return rows


def values_of(
    view: GapFillingView, held: NDArray[np.int64], horizon_s: float | NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return float64 [jobs, counts]: the value of every node count, admissible or not.

    Parameters
    ----------
    view
        The instant.
    held
        int64 [jobs]: nodes held.
    horizon_s
        Forward-looking time, seconds; one, or one per job as [jobs, 1].
    """
    running = view.running_rate(held)
    counts = np.arange(view.rates.shape[1])
    current = held[:, None]
    stall = (running * view.up_s)[:, None] * (counts > current)
    stall += (running * view.down_s)[:, None] * (counts < current)
    return horizon_s * view.rates - stall


def count_menus(
    view: GapFillingView, values: NDArray[np.float64], allowed: NDArray[np.bool_] | None = None
) -> CountMenus:
    """Return the knapsack of a table of values.

    Parameters
    ----------
    view
        The instant.
    values
        float64 [jobs, counts], as of `values_of`.
    allowed
        bool [jobs, counts]: further limits on the counts, or ``None``.
    """
    idle = view.nodes.size
    width = min(values.shape[1], idle + 1)
    counts = np.arange(width)
    admissible = (counts >= view.min_nodes[:, None]) & (counts <= view.max_nodes[:, None])
    admissible[:, 0] = True
    if allowed is not None:
        admissible &= allowed[:, :width]
    job, count = np.nonzero(admissible)
    offsets = np.zeros(values.shape[0] + 1, dtype=np.int64)
    np.cumsum(np.bincount(job, minlength=values.shape[0]), out=offsets[1:])
    knapsack = MultipleChoiceKnapsack.from_arrays(
        values[job, count], count.reshape(-1, 1), offsets, [idle], capacity_names=("idle_nodes",)
    )
    return CountMenus(knapsack, count)
