"""The published Pollux simulator's deterministic results, to the last digit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from apportion.cluster.estimation.training import HOMOGENEOUS, read_applications
from apportion.cluster.policies.names import cluster_policy
from apportion.cluster.simulation.rounds.accounts import ClusterSummary, summarise_cluster
from apportion.cluster.simulation.rounds.job_states import SimulatedJobs
from apportion.cluster.simulation.rounds.scenario import Scenario, homogeneous, read_workload
from apportion.cluster.simulation.rounds.simulator import run_cluster

Run = Callable[[int, str], ClusterSummary]


@pytest.fixture(scope="module")
def run(data: Path) -> Run:
    profiles = read_applications(data / "pollux")
    nodes = homogeneous(16, 4, HOMOGENEOUS)

    def result(workload: int, name: str) -> ClusterSummary:
        jobs = read_workload(data / "pollux" / "workloads" / f"workload-{workload}.csv", profiles)
        scenario = Scenario.of(jobs, profiles, nodes)
        named = cluster_policy(name)
        made = run_cluster(
            named.make(0),
            nodes,
            SimulatedJobs(
                scenario.ground_truth(named.adaptive),
                scenario.submitted_s,
                scenario.requested_gpus,
                scenario.beliefs(named.adaptive),
            ),
        )
        return summarise_cluster(made, name, 0.0)

    return result


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("workload", "policy", "published_s"),
    [
        (1, "tiresias", 2473.65),
        (6, "tiresias", 3469.69375),
        (1, "optimus", 4087.0625),
        (6, "optimus", 5301.875),
    ],
)
def test_average_completion_times_are_the_published_ones(
    run: Run, workload: int, policy: str, published_s: float
) -> None:
    summary = run(workload, policy)
    assert summary.avg_jct_s == published_s
    assert summary.jobs_done == summary.jobs == 160
