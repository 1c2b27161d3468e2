"""The cluster simulation against a plain reading of its rules, and the laws every policy keeps."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.cluster.policies.names import CLUSTER_POLICIES
from apportion.cluster.policies.rounds.cluster_view import ClusterPlan, ClusterView, InvalidClusterPlan, Nodes
from apportion.cluster.policies.rounds.placing import run_lengths
from apportion.cluster.simulation.rounds.accounts import summarise_cluster
from apportion.cluster.simulation.rounds.job_states import Observe, RoundRules, SimulatedJobs
from apportion.cluster.simulation.rounds.scenario import Scenario, homogeneous, parse_nodes
from apportion.cluster.simulation.rounds.simulator import ClusterRun, Stalled, run_cluster
from apportion.core.errors import InvalidInstance, InvalidOption
from tests.budgets import examples
from tests.clusters import FREEZING, application, scenario

JOBS = st.lists(
    st.tuples(
        st.integers(0, 900).map(float),
        st.sampled_from(["net", "bert"]),
        st.sampled_from([1, 2, 4, 8]),
        st.sampled_from([64, 128, 256]),
    ),
    min_size=1,
    max_size=8,
)


def simulated(made: Scenario, name: str, observe: Observe | None = None, **more: object) -> ClusterRun:
    named = CLUSTER_POLICIES[name]
    return run_cluster(
        named.make(0),
        made.nodes,
        SimulatedJobs(
            made.ground_truth(named.adaptive, FREEZING if named.freezes else {}),
            made.submitted_s,
            made.requested_gpus,
            made.beliefs(named.adaptive, FREEZING if named.freezes else {}),
        ),
        RoundRules(**more),  # type: ignore[arg-type]
        observe=observe,
    )


def alone(made: Scenario, job: int, nodes: tuple[int, ...], start_s: float) -> float:
    """Complete one job by the written rules, scalar by scalar: the delay, then rounds of 60 seconds."""
    ground_truth, now, left_delay, progress, epoch = made.ground_truth(False), start_s, 30.0, 0.0, 0
    while True:
        seconds = 60.0
        waited = min(left_delay, seconds)
        left_delay, seconds, now = left_delay - waited, seconds - waited, now + waited
        while seconds > 0:
            rate = ground_truth.rate(job, epoch, progress, run_lengths(nodes), "gpu", 0)
            target = ground_truth.progress_at(job, epoch + 1)
            if progress + rate * seconds < target:
                progress, now, seconds = progress + rate * seconds, now + seconds, 0.0
                continue
            delta = round((target - progress) / rate)
            progress, now, seconds, epoch = target, now + delta, seconds - delta, epoch + 1
            if epoch == ground_truth.epochs(job):
                return now


@settings(max_examples=examples(30))
@given(JOBS)
def test_uncontended_jobs_follow_the_written_rules(jobs: list[tuple[float, str, int, int]]) -> None:
    made = scenario(jobs, homogeneous(16, 4, "gpu"))
    run = simulated(made, "fifo")
    for index, job in enumerate(made.jobs):
        started = max(1.0, math.ceil(job.submitted_s / 60.0)) * 60.0
        nodes = tuple(gpu // 4 for gpu in range(job.gpus))
        assert run.completed_s[index] == alone(made, index, nodes, started)


@pytest.mark.parametrize("name", sorted(CLUSTER_POLICIES))
@settings(max_examples=examples(12, fewest=2))
@given(jobs=JOBS)
def test_every_policy_completes_every_job(name: str, jobs: list[tuple[float, str, int, int]]) -> None:
    made = scenario(jobs, homogeneous(3, 4, "gpu"))
    run = simulated(made, name)
    summary = summarise_cluster(run, name, 0.0)
    assert summary.jobs_done == len(jobs)
    assert (run.completed_s > run.submitted_s).all()
    assert (run.attained_s <= run.completed_s - run.submitted_s + 60.0).all()
    assert summary.gpu_hours * 3600 <= 12 * (run.completed_s.max() + 60.0)
    assert (run.frozen_s <= run.attained_s).all()


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", ["sia", "icefrog", "gavel-max-min", "gavel-makespan"])
def test_unlike_machines_are_used_within_one_type_a_job(name: str) -> None:
    nodes = parse_nodes("slow:2x4,fast:1x8")
    profiles = {"net": application(speeds={"slow": 1.0, "fast": 3.0})}
    made = scenario([(0.0, "net", 4, 128)] * 16, nodes, profiles)
    kinds: set[str] = set()

    def note(view: ClusterView, plan: ClusterPlan) -> None:
        kinds.update(nodes.type_of(held) for held in plan.nodes if held)

    run = simulated(made, name, observe=note)
    assert not np.isnan(run.completed_s).any()
    assert kinds == {"slow", "fast"}


def test_jobs_on_machines_that_leave_are_preempted_and_go_on() -> None:
    made = scenario([(0.0, "net", 4, 128), (0.0, "net", 4, 128)], homogeneous(2, 4, "gpu"))
    steady = simulated(made, "tiresias")
    gone = simulated(made, "tiresias", present=lambda now: np.array([True, not 120 <= now < 600]))
    assert gone.completed_s.max() > steady.completed_s.max()
    assert gone.restarts.sum() > steady.restarts.sum()


def test_interference_slows_distributed_jobs_that_share_a_node() -> None:
    made = scenario([(0.0, "net", 6, 256), (0.0, "net", 6, 256)], homogeneous(3, 4, "gpu"))
    free, crowded = simulated(made, "tiresias"), simulated(made, "tiresias", interference=0.5)
    assert (crowded.completed_s > free.completed_s).all()


def test_a_limit_stops_and_leaves_the_rest_open() -> None:
    made = scenario([(0.0, "net", 1, 64), (0.0, "net", 1, 64)], homogeneous(1, 4, "gpu"))
    summary = summarise_cluster(simulated(made, "fifo", limit_s=60.0), "fifo", 0.0)
    assert (summary.jobs_done, summary.avg_jct_s) == (0, None)


def test_plans_are_checked() -> None:
    made = scenario([(0.0, "net", 1, 64)], homogeneous(1, 4, "gpu"))

    def run(nodes: tuple[int, ...]) -> None:
        run_cluster(
            lambda view: ClusterPlan([nodes]),
            made.nodes,
            SimulatedJobs(
                made.ground_truth(False), made.submitted_s, made.requested_gpus, made.beliefs(False)
            ),
        )

    with pytest.raises(InvalidClusterPlan, match="from 0 to 0"):
        run((1,))
    with pytest.raises(InvalidClusterPlan, match="4 GPUs and gets more"):
        run((0,) * 5)
    with pytest.raises(Stalled, match=r"10001 rounds: 0 \(numbered .* 0 of them run"):
        run(())


def test_wrong_machines_and_workloads_are_told() -> None:
    with pytest.raises(InvalidOption, match="TYPE:NODESxGPUS"):
        parse_nodes("aws:4")
    with pytest.raises(InvalidInstance, match="asks for 64 GPUs"):
        scenario([(0.0, "net", 64, 64)], homogeneous(1, 4, "gpu"))
    with pytest.raises(InvalidInstance, match="measured on none"):
        scenario([(0.0, "net", 1, 64)], Nodes(np.array([4]), np.array([0]), ("other",)))
