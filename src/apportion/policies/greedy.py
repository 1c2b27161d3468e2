"""Greedy marginal gain: give the next node to the job whose throughput rises most by it.

Exact for concave curves and free rescaling (Federgruen and Groenevelt, *Operations Research* 34, 1986); a
baseline otherwise, since it cannot see past a flat stretch of a curve and ignores rescale stalls.
"""

from __future__ import annotations

import numpy as np

from apportion.policies.completion import complete
from apportion.policies.gap_filling_view import GapFillingView, Plan

__all__ = ["Greedy"]


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
        share[share < view.min_nodes] = 0
        return complete(view, share, view.held())
