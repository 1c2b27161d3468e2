"""From node counts to nodes, so that one departure hits few jobs.

Nodes that became idle together tend to leave together. A growing job is given whole groups (first of those it
already has a part of), the most demanding job first; a shrinking one gives up its smallest groups, so that
what is left of them does not tie it to one more departure. Among groups alike the more hazardous go first
to the job that asks first, which gathers them in as few jobs as possible.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from apportion.policies.gap_filling_view import FREE, GapFillingView, Plan

__all__ = ["complete_by_groups"]


def complete_by_groups(
    view: GapFillingView,
    counts: NDArray[np.int64],
    held: NDArray[np.int64],
    hazard: NDArray[np.float64],
) -> Plan:
    """Return the plan with these node counts.

    Parameters
    ----------
    view
        The instant; nodes of one `idle_since_s` are a group.
    counts, held
        int64 [jobs]: nodes every job gets and holds.
    hazard
        float64 [nodes]: departures per second expected of each node.
    """
    change = counts - held
    shrinking, growing = np.flatnonzero(change < 0), np.flatnonzero(change > 0)
    if not shrinking.size and not growing.size:
        return Plan(view.holder)
    holder = view.holder.copy()
    _, group = np.unique(view.idle_since_s, return_inverse=True)
    num_groups = int(group.max(initial=-1)) + 1
    for job in shrinking.tolist():
        own = np.flatnonzero(holder == job)
        size = np.bincount(group[own], minlength=num_groups)[group[own]]
        order = np.lexsort((-hazard[own], size))
        holder[own[order[: int(held[job] - counts[job])]]] = FREE
    for job in growing[np.argsort(-change[growing], kind="stable")].tolist():
        free = np.flatnonzero(holder == FREE)
        need = int(change[job])
        size = np.bincount(group[free], minlength=num_groups)[group[free]]
        foreign = np.bincount(group[holder == job], minlength=num_groups)[group[free]] == 0
        fit = np.where(
            size >= need, size, view.nodes.size + need - size
        )  # the least that is enough, else the largest
        order = np.lexsort((group[free], -hazard[free], fit, foreign))
        holder[free[order[:need]]] = job
    return Plan(holder)
