"""Static: every job runs on one fixed number of nodes; what it loses is replaced when a node is free."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from apportion.policies.completion import complete
from apportion.policies.gap_filling_view import GapFillingView, Plan

__all__ = ["Static"]


@dataclass(frozen=True, slots=True)
class Static:
    """Give every job the same fixed number of nodes, first come first served, and no more.

    Attributes
    ----------
    nodes_per_job
        Nodes of a job, cut to its minimum and maximum; it runs on fewer, not below its minimum, until enough
        are free.
    """

    nodes_per_job: int = 8

    def __call__(self, view: GapFillingView) -> Plan:
        """Return the plan of this instant."""
        held = view.held()
        counts = held.copy()
        target = np.clip(self.nodes_per_job, view.min_nodes, view.max_nodes)
        free = view.nodes.size - int(held.sum())
        for job in np.flatnonzero(held < target).tolist():
            more = min(int(target[job] - held[job]), free)
            if held[job] + more >= view.min_nodes[job]:
                counts[job] += more
                free -= more
        return complete(view, counts, held)
