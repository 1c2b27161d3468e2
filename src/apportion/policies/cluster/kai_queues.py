"""KAI's division as a policy of a cluster: a baseline.

All GPUs are divided between the tenants by `kai_division`; the tenant with the least part of its fair share
goes next, its jobs in order of submission. One that stays within its fair share may take GPUs back from
tenants above theirs, the youngest jobs first.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from apportion.policies.cluster.believed_speeds import believed_speeds, gpus_by_type
from apportion.policies.cluster.claims import Claims, claims_of
from apportion.policies.cluster.cluster_view import ClusterPlan, ClusterView
from apportion.policies.cluster.place_by_type import place_by_type
from apportion.policies.tenancy.kai_division import KaiQueue, divided

__all__ = ["KaiQueues"]


class KaiQueues:
    """Queues served by how much of their fair share they have."""

    def __init__(self) -> None:
        self._since: dict[int, float] = {}

    def __call__(self, view: ClusterView) -> ClusterPlan:
        """Decide a round."""
        jobs = view.jobs.tolist()
        since = np.array([self._since.get(job, view.time_s) for job in jobs])
        chosen = _Round(view, claims_of(view), since).run()
        self._since = {
            job: at for job, at, kind in zip(jobs, since.tolist(), chosen, strict=True) if kind >= 0
        }
        return ClusterPlan(place_by_type(view, chosen))


class _Round:
    def __init__(self, view: ClusterView, claims: Claims, since: NDArray[np.float64]) -> None:
        self._gpus, self._tenant, self._since = view.requested_gpus, claims.tenant, since
        self._speeds = believed_speeds(view)
        self._chosen = np.array(
            [view.nodes.kind[held[0]] if held else -1 for held in view.held], dtype=np.int64
        )
        self._left = gpus_by_type(view)
        running = self._chosen >= 0
        np.subtract.at(self._left, self._chosen[running], self._gpus[running])
        self._held = np.bincount(
            self._tenant[running], weights=self._gpus[running], minlength=len(claims.tenants)
        )
        self._fair = _fair_shares(view, claims)
        order = np.lexsort((np.arange(view.num_jobs), view.submitted_s))
        self._waiting: list[list[int]] = [[] for _ in claims.tenants]
        for job in order[::-1].tolist():
            if not running[job]:
                self._waiting[int(self._tenant[job])].append(job)

    def run(self) -> NDArray[np.int64]:
        """Return the type of every job, -1 to wait."""
        while any(self._waiting):
            tenant = min(
                (number for number, queue in enumerate(self._waiting) if queue),
                key=self._served,
            )
            job = self._waiting[tenant].pop()
            if not self._start(job) and self._held[tenant] + self._gpus[job] <= self._fair[tenant]:
                self._reclaim(job)
        return self._chosen

    def _served(self, tenant: int) -> tuple[float, int]:
        """Return what tenants are ordered by: the part of its fair share that one has."""
        return float(self._held[tenant]) / max(float(self._fair[tenant]), 1e-9), tenant

    def _start(self, job: int) -> bool:
        for kind in np.argsort(-self._speeds[job], kind="stable").tolist():
            if self._speeds[job, kind] > 0 and self._gpus[job] <= self._left[kind]:
                self._chosen[job] = kind
                self._left[kind] -= self._gpus[job]
                self._held[self._tenant[job]] += self._gpus[job]
                return True
        return False

    def _reclaim(self, job: int) -> None:
        """Stop the youngest jobs of tenants above their fair share, if that makes room on some type."""
        for kind in np.argsort(-self._speeds[job], kind="stable").tolist():
            if self._speeds[job, kind] <= 0:
                continue
            free, held, victims = int(self._left[kind]), self._held.copy(), []
            on_type = np.flatnonzero(self._chosen == kind)
            for victim in on_type[np.argsort(-self._since[on_type], kind="stable")].tolist():
                owner = self._tenant[victim]
                if free < self._gpus[job] and owner != self._tenant[job] and held[owner] > self._fair[owner]:
                    free += int(self._gpus[victim])
                    held[owner] -= self._gpus[victim]
                    victims.append(victim)
            if free >= self._gpus[job]:
                self._chosen[victims] = -1
                self._held, self._left[kind] = held, free
                self._start(job)
                return


def _fair_shares(view: ClusterView, claims: Claims) -> NDArray[np.float64]:
    asked = np.bincount(claims.tenant, weights=view.requested_gpus, minlength=len(claims.tenants))
    queues = [
        KaiQueue(
            name, int(claims.entitled[number].sum()), int(asked[number]), weight=float(claims.share[number])
        )
        for number, name in enumerate(claims.tenants)
    ]
    return np.array([float(share) for share in divided(queues, view.nodes.total_gpus).shares])
