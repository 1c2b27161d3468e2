"""Themis' idea (Mahajan et al., NSDI 2020): GPUs on lease, offered to those whose finish-time ratio is worst.

Every round the GPUs whose lease has ended are offered to the jobs with the worst ratios rho; what they bid
is how much better their rho would become, and the offer is shared so that the product of their 1 / rho is
greatest: proportional fairness, here by an exact knapsack over logarithms. What they leave goes to the
others. The paper's hidden payments, which keep bidders honest, are left out: beliefs do not lie here.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from apportion.policies.cluster.cluster_view import ClusterPlan, ClusterView, Nodes
from apportion.policies.cluster.finish_times import FinishTimesTracker
from apportion.policies.cluster.matching import best_types
from apportion.policies.cluster.place_by_type import place_by_type
from apportion.policies.cluster.placing import free_gpus

__all__ = ["Themis"]


class Themis:
    """Themis' auction.

    Parameters
    ----------
    fairness
        f: the worst 1 - f of the jobs without a lease are offered GPUs first; 0.8 in the paper.
    lease_s
        How long an allocation is kept; 1200 s in the paper.
    gap
        Relative optimality gap of the auction.
    """

    def __init__(self, fairness: float = 0.8, lease_s: float = 1200.0, gap: float = 1e-3) -> None:
        self._fairness, self._lease_s, self._gap = fairness, lease_s, gap
        self._until: dict[int, float] = {}
        self._tracker = FinishTimesTracker()

    def __call__(self, view: ClusterView) -> ClusterPlan:
        """Decide a round."""
        now = self._tracker.now(view)
        jobs = view.jobs.tolist()
        leased = np.array(
            [
                bool(held) and self._until.get(job, 0.0) > view.time_s
                for job, held in zip(jobs, view.held, strict=True)
            ],
            dtype=np.bool_,
        )
        chosen = np.array(
            [view.nodes.kind[held[0]] if kept else -1 for held, kept in zip(view.held, leased, strict=True)]
        )
        waits = now.after(self._lease_s, np.zeros(view.num_jobs))
        runs = now.after(self._lease_s, now.speeds * self._lease_s)
        bids = np.where(now.speeds > 0, np.log(waits[:, None] / runs), 0.0)
        bidders = np.flatnonzero(~leased)
        bidders = bidders[np.argsort(-waits[bidders], kind="stable")]
        first = max(1, int(np.ceil((1 - self._fairness) * bidders.size)))
        for offered in (bidders[:first], bidders[first:]):
            if offered.size:
                left = _left(view, chosen)
                chosen[offered] = best_types(left, view.requested_gpus[offered], bids[offered], self._gap)
        started = {
            job for job, kind, kept in zip(jobs, chosen, leased, strict=True) if kind >= 0 and not kept
        }
        self._until = {
            job: view.time_s + self._lease_s if job in started else self._until[job]
            for job, kind in zip(jobs, chosen, strict=True)
            if kind >= 0
        }
        return ClusterPlan(place_by_type(view, chosen))


def _left(view: ClusterView, chosen: NDArray[np.int64]) -> Nodes:
    """Return the machines without the GPUs of the jobs that are chosen already."""
    placed = place_by_type(view, chosen)
    return Nodes(free_gpus(view.nodes.gpus, placed), view.nodes.kind, view.nodes.types)
