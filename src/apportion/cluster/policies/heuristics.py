"""Baselines of gap filling: equal shares, greedy marginal gain, and a fixed number of nodes for every job.

`Greedy` gives the next node to the job whose throughput rises most by it: exact for concave curves and free
rescaling (Federgruen and Groenevelt, *Operations Research* 34, 1986), a baseline otherwise, since it cannot
see past a flat stretch of a curve and ignores rescale stalls. `Static` replaces what is lost when a node is
free.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from apportion.cluster.policies.completion import complete
from apportion.cluster.policies.gap_filling_view import GapFillingView, Plan
from apportion.instances.gap_filling.schema import equal_share

__all__ = ["EqualShare", "Greedy", "Static"]


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
        within = view.allowed(view.rates.shape[1])
        free = view.nodes.size - int(held.sum())
        for job in np.flatnonzero(held < target).tolist():
            reached = int(within[job, : min(int(target[job]), int(held[job]) + free) + 1].nonzero()[0][-1])
            if reached > held[job]:
                free -= reached - int(held[job])
                counts[job] = reached
        return complete(view, counts, held)


class Greedy:
    """Hand out nodes by greatest marginal rate, a job's minimum as one step."""

    __slots__ = ()

    def __call__(self, view: GapFillingView) -> Plan:
        """Return the greedy plan of this instant."""
        idle, num_jobs = view.nodes.size, view.num_jobs
        if not num_jobs:
            return Plan(view.holder)
        counts = np.arange(view.rates.shape[1])
        low, high = view.min_nodes[:, None], view.max_nodes[:, None]
        first = np.take_along_axis(view.rates, low, axis=1) / low
        gain = np.diff(view.rates, axis=1)
        gain = np.where(counts[1:] <= low, first, gain)
        gain = np.where(counts[1:] <= high, gain, -np.inf)
        gain = np.minimum.accumulate(gain, axis=1)  # a step is reached only through the steps before it
        flat = gain.ravel()
        order = np.argsort(-flat, kind="stable")
        order = order[flat[order] > 0][:idle]
        share = np.bincount(order // gain.shape[1], minlength=num_jobs)
        return complete(view, view.at_most(share), view.held())


@dataclass(frozen=True, slots=True)
class EqualShare:
    """Share idle nodes equally, what is left over first come first served.

    Attributes
    ----------
    as_published
        Whether a job whose minimum equals the quota gets none in the first pass, as in the published code.
    """

    as_published: bool = False

    def __call__(self, view: GapFillingView) -> Plan:
        """Return the equal shares of this instant."""
        least, most = view.min_nodes.tolist(), view.max_nodes.tolist()
        share = equal_share(view.nodes.size, least, most, self.as_published)
        return complete(view, view.at_most(np.array(share, dtype=np.int64)), view.held())
