"""From node counts to nodes: a growing job keeps its nodes, a shrinking one a subset, nobody migrates."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from apportion.policies.gap_filling_view import FREE, GapFillingView, Plan

__all__ = ["complete", "next_completion"]


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
