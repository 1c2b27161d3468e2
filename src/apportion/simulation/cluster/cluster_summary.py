"""The figures of one run of a policy on a cluster."""

from __future__ import annotations

import msgspec
import numpy as np

from apportion.shown import Figures
from apportion.simulation.cluster.rounds import ClusterRun

__all__ = ["ClusterSummary", "summarise_cluster"]


class ClusterSummary(Figures, msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one simulation of a cluster.

    Attributes
    ----------
    policy
        Its name.
    jobs, jobs_done
        Jobs of the workload, and those complete.
    avg_jct_s, p50_jct_s, p99_jct_s
        Mean, median and 99th percentile (linear between jobs) of completion less submission; ``None`` if no
        job is complete.
    makespan_s
        From the first submission to the last completion.
    restarts
        Restarts of all jobs, first starts not counted.
    mean_frozen_fraction
        Frozen share of the layers, averaged over the seconds that jobs held GPUs.
    gpu_hours
        GPU-hours that jobs held.
    rounds, events
        Rounds in which the policy decided; submissions, reallocations and completions.
    seconds
        Wall-clock seconds of the simulation.
    """

    policy: str
    jobs: int
    jobs_done: int
    avg_jct_s: float | None
    p50_jct_s: float | None
    p99_jct_s: float | None
    makespan_s: float | None
    restarts: int
    mean_frozen_fraction: float
    gpu_hours: float
    rounds: int
    events: int
    seconds: float

    def __repr__(self) -> str:
        jct = "none" if self.avg_jct_s is None else f"{self.avg_jct_s:.6g} s"
        return f"<ClusterSummary: {self.policy}, {self.jobs_done} of {self.jobs} jobs done, mean JCT {jct}>"


def summarise_cluster(run: ClusterRun, policy: str, seconds: float) -> ClusterSummary:
    """Return the figures of a run that took `seconds`."""
    done = ~np.isnan(run.completed_s)
    jct = (run.completed_s - run.submitted_s)[done]
    held = float(run.attained_s.sum())
    return ClusterSummary(
        policy=policy,
        jobs=run.submitted_s.size,
        jobs_done=int(done.sum()),
        avg_jct_s=float(jct.mean()) if jct.size else None,
        p50_jct_s=float(np.median(jct)) if jct.size else None,
        p99_jct_s=float(np.percentile(jct, 99)) if jct.size else None,
        makespan_s=float(run.completed_s[done].max() - run.submitted_s.min()) if jct.size else None,
        restarts=int(np.maximum(run.restarts - 1, 0).sum()),
        mean_frozen_fraction=float(run.frozen_s.sum()) / held if held else 0.0,
        gpu_hours=float(run.attained_gpu_s.sum()) / 3600,
        rounds=run.rounds,
        events=run.events,
        seconds=seconds,
    )
