"""Static: every job keeps the nodes it has; nodes that nobody holds are shared out to the jobs that hold none."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from apportion.policies.completion import complete
from apportion.policies.view import GapFillingView, Plan

__all__ = ["Static"]


@dataclass(frozen=True, slots=True)
class Static:
    """Give every starting job a fixed number of nodes and never rescale it but by losing nodes.

    Attributes
    ----------
    nodes_per_job
        Nodes a job starts with, within its minimum and maximum; fewer if not enough are free.
    """

    nodes_per_job: int = 8

    def __call__(self, view: GapFillingView) -> Plan:
        """Return the plan: only jobs below their minimum get nodes."""
        held = view.held()
        counts = held.copy()
        free = view.nodes.size - int(held.sum())
        for job in np.flatnonzero(held < view.min_nodes).tolist():
            wanted = int(np.clip(self.nodes_per_job, view.min_nodes[job], view.max_nodes[job]))
            more = min(wanted - int(held[job]), free)
            if held[job] + more >= view.min_nodes[job]:
                counts[job] += more
                free -= more
        return complete(view, counts, held)
