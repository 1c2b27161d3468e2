"""The speeds that are believed of jobs on the GPUs they asked for; the data of shares of time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from apportion.policies.cluster.cluster_view import ClusterView
from apportion.policies.cluster.placing import filled
from apportion.policies.time_shares.shares_problem import SharesProblem

__all__ = ["believed_speeds", "gpus_by_type", "shares_problem"]


def gpus_by_type(view: ClusterView) -> NDArray[np.int64]:
    """Return int64 [types]: the GPUs of every type."""
    return np.bincount(view.nodes.kind, weights=view.nodes.gpus, minlength=len(view.nodes.types)).astype(
        np.int64
    )


def believed_speeds(view: ClusterView) -> NDArray[np.float64]:
    """Return float64 [jobs, types]: progress per second on the requested GPUs, 0 where it cannot run."""
    speeds = np.zeros((view.num_jobs, len(view.nodes.types)))
    for kind, name in enumerate(view.nodes.types):
        own = view.nodes.gpus[view.nodes.of_type(kind)]
        for job, belief in enumerate(view.beliefs):
            gpus = int(view.requested_gpus[job])
            if gpus <= int(own.sum()):
                rate = belief.rate(filled(gpus, int(own.max())), name)
                speeds[job, kind] = rate if rate > 0 else 0.0
    return speeds


def shares_problem(view: ClusterView) -> SharesProblem:
    """Return the jobs of a view as a problem over shares of time."""
    return SharesProblem(
        believed_speeds(view), view.requested_gpus.astype(np.float64), gpus_by_type(view).astype(np.float64)
    )
