"""A cluster policy of one's own, least attained service: ``python examples/own/cluster_policy.py``."""

from __future__ import annotations

import numpy as np

from apportion.cluster.policies.rounds.cluster_view import ClusterPlan, ClusterView
from apportion.cluster.policies.rounds.placing import free_gpus, place_on_freest


def least_attained_service(view: ClusterView, patience_gpu_s: float = 3600.0) -> ClusterPlan:
    """Run whoever has used the fewest GPU-seconds so far, with the GPUs asked for; believe nothing of a job.

    Use counts in steps of `patience_gpu_s`: jobs that overtake one another every round only restart.
    """
    step = np.floor(view.attained_gpu_s / patience_gpu_s)
    order = np.lexsort((view.submitted_s, step))  # by step, then by submission
    left = view.nodes.total_gpus
    nodes: list[tuple[int, ...]] = [()] * view.num_jobs
    starting: list[int] = []
    for job in order.tolist():
        wanted = int(view.requested_gpus[job])
        if wanted > left:
            continue
        left -= wanted
        nodes[job] = view.held[job]  # the same nodes in the same order: no restart
        if not view.held[job]:
            starting.append(job)
    free = free_gpus(view.nodes.gpus, nodes)
    for job in starting:
        nodes[job] = place_on_freest(free, int(view.requested_gpus[job]))
    return ClusterPlan(nodes)


def main() -> None:
    """Compare three policies on a drawn log of 300 jobs whose durations are heavy-tailed."""
    from apportion.cluster.policies.rounds.baselines import fifo, srtf
    from apportion.cluster.simulation.rounds.accounts import summarise_cluster
    from apportion.cluster.simulation.rounds.job_states import SimulatedJobs
    from apportion.cluster.simulation.rounds.scenario import homogeneous
    from apportion.cluster.simulation.rounds.simulator import run_cluster
    from apportion.cluster.simulation.rounds.workload_files import (
        DurationLog,
        FixedDurations,
        durations_known,
    )

    rng = np.random.default_rng(3)
    log = DurationLog(
        submitted_s=np.sort(rng.uniform(0, 24 * 3600, 300)),
        duration_s=np.minimum(rng.lognormal(7.3, 1.5, 300), 24 * 3600),
        gpus=rng.choice([1, 1, 2, 4, 8], 300),
    )
    nodes = homogeneous(8, 4, "gpu")
    for name, policy in {"fifo": fifo, "srtf": srtf, "least attained": least_attained_service}.items():
        run = run_cluster(
            policy,
            nodes,
            SimulatedJobs(FixedDurations(log), log.submitted_s, log.gpus, durations_known(log, nodes.types)),
        )
        told = summarise_cluster(run, name, 0.0)
        waits = f"mean {told.avg_jct_s:6.0f} s  median {told.p50_jct_s:5.0f} s"
        print(f"{name:16}{waits}  {told.restarts:4} restarts")


if __name__ == "__main__":
    main()
