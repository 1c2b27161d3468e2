"""From node counts to nodes: a growing job keeps its nodes, a shrinking one a subset, nobody migrates.

The gap-filling menus of a view as arrays, value by value those of the formulation by count.

    value_j(n) = horizon rate_j(n) - rate_j(C_j) (up_j [n > C_j] + down_j [n < C_j]),   n in {0} and
    min_j..max_j

with C_j the nodes held and rate_j(C_j) = 0 below the minimum (BFTrainer, arXiv:2106.12091).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.cluster.policies.gap_filling_view import FREE, GapFillingView, Plan
from apportion.models.multiple_choice import MultipleChoiceKnapsack

__all__ = ["CountMenus", "complete", "count_menus", "next_completion", "values_of"]


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
    admissible = view.allowed(width)
    if allowed is not None:
        admissible &= allowed[:, :width]
    job, count = np.nonzero(admissible)
    offsets = np.zeros(values.shape[0] + 1, dtype=np.int64)
    np.cumsum(np.bincount(job, minlength=values.shape[0]), out=offsets[1:])
    knapsack = MultipleChoiceKnapsack.from_arrays(
        values[job, count], count.reshape(-1, 1), offsets, [idle], capacity_names=("idle_nodes",)
    )
    return CountMenus(knapsack, count)


def complete(
    view: GapFillingView,
    counts: NDArray[np.int64],
    held: NDArray[np.int64],
    worth: NDArray[np.float64] | None = None,
    urgency: NDArray[np.float64] | None = None,
) -> Plan:
    """Return the plan with these node counts that touches only nodes that change hands.

    Parameters
    ----------
    view
        The instant.
    counts
        int64 [jobs]: nodes every job gets; they fit.
    held
        int64 [jobs]: nodes every job holds, `view.held()`.
    worth
        float64 [nodes]: a job keeps its most valuable nodes, and free nodes are handed out most valuable
        first; without it nodes are kept and handed out in ascending order.
    urgency
        float64 [jobs]: growing jobs are served in descending order of it; in job order without it.
    """
    change = counts - held
    shrinking, growing = np.flatnonzero(change < 0), np.flatnonzero(change > 0)
    if not shrinking.size and not growing.size:
        return Plan(view.holder)
    holder = view.holder.copy()
    for job in shrinking.tolist():
        own = np.flatnonzero(holder == job)
        if worth is not None:
            own = own[np.argsort(-worth[own], kind="stable")]
        holder[own[int(counts[job]) :]] = FREE
    if growing.size:
        free = np.flatnonzero(holder == FREE)
        if worth is not None:
            free = free[np.argsort(-worth[free], kind="stable")]
        if urgency is not None:
            growing = growing[np.argsort(-urgency[growing], kind="stable")]
        more = change[growing]
        holder[free[: int(more.sum())]] = np.repeat(growing, more)
    return Plan(holder)


def next_completion(view: GapFillingView, held: NDArray[np.int64], counts: NDArray[np.int64]) -> float | None:
    """Return when the first job will be done with these node counts, ``None`` if none runs.

    Parameters
    ----------
    view
        The instant.
    held, counts
        int64 [jobs]: nodes every job holds and gets.
    """
    rate = view.running_rate(counts)
    charge = view.running_rate(held) * (view.up_s * (counts > held) + view.down_s * (counts < held))
    running = rate > 0
    if not running.any():
        return None
    lasting = (view.remaining[running] + charge[running]) / rate[running]
    return view.time_s + max(float(lasting.min()), 0.5) + 0.01
