"""What tenants and users claim of a cluster: whose a job is, weights, entitlements, deadlines, prices."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.cluster.policies.rounds.cluster_view import ClusterView

__all__ = ["Claims", "claims_of"]


@dataclass(frozen=True, slots=True, eq=False)
class Claims:
    """Tenants, and what every job of a view or of a workload claims.

    Attributes
    ----------
    tenants
        Names of the tenants to whom jobs belong.
    share
        float64 [tenants]: weights that add up to 1 over the tenants; of a tree, the product down to the leaf.
    entitled
        int64 [tenants, types]: GPUs of each type that are a tenant's own.
    first_come
        bool [tenants]: whether its jobs are served one after the other rather than alike.
    tenant
        int64 [jobs]: index of every job's tenant.
    weight
        float64 [jobs]: weight within its tenant.
    deadline_s
        float64 [jobs]: time by which it must end, infinity without one.
    gpu_cost
        float64 [types]: cost of a GPU and hour.
    """

    tenants: tuple[str, ...]
    share: NDArray[np.float64]
    entitled: NDArray[np.int64]
    first_come: NDArray[np.bool_]
    tenant: NDArray[np.int64]
    weight: NDArray[np.float64]
    deadline_s: NDArray[np.float64]
    gpu_cost: NDArray[np.float64]

    def of_jobs(self, jobs: NDArray[np.int64]) -> Claims:
        """Return the claims of some jobs, in their order."""
        return Claims(
            self.tenants,
            self.share,
            self.entitled,
            self.first_come,
            self.tenant[jobs],
            self.weight[jobs],
            self.deadline_s[jobs],
            self.gpu_cost,
        )


def claims_of(view: ClusterView) -> Claims:
    """Return the claims of a view; where nobody claims anything, all jobs are of one tenant that owns all."""
    if view.claims is not None:
        return view.claims
    jobs = view.num_jobs
    return Claims(
        ("everybody",),
        np.ones(1),
        view.nodes.gpus_by_type[None, :],
        np.zeros(1, dtype=np.bool_),
        np.zeros(jobs, dtype=np.int64),
        np.ones(jobs),
        np.full(jobs, np.inf),
        np.ones(len(view.nodes.types)),
    )
