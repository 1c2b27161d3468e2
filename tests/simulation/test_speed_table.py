"""Jobs known by their speeds, GPUs that two jobs share, and nodes that come and go."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paper_repro.joint.gap_nodes import GapNodes
from paper_repro.joint.speed_table import SpeedTable

from apportion.cluster.policies.rounds.cluster_view import ClusterPlan, ClusterView, Nodes
from apportion.cluster.policies.rounds.matching import Matching
from apportion.cluster.policies.rounds.packing import Packing, PairSpeeds
from apportion.cluster.simulation.idle_trace import generated_trace
from apportion.cluster.simulation.rounds.job_states import RoundRules, SharedGpus, SimulatedJobs
from apportion.cluster.simulation.rounds.simulator import ClusterRun, run_cluster
from apportion.core.errors import InvalidInstance, InvalidOption
from tests.budgets import examples
from tests.clusters import application

TYPES = ("slow", "fast")


def table(speeds: list[list[float]], steps: float = 3600.0, gpus: int = 1, slots: int = 1) -> SpeedTable:
    jobs = len(speeds)
    return SpeedTable(
        TYPES,
        np.array(speeds),
        np.full(jobs, steps),
        np.full(jobs, gpus),
        np.zeros(jobs),
        slots,
    )


def gpus_of(slow: int, fast: int) -> Nodes:
    """Nodes of one GPU with two slots each."""
    return Nodes(np.full(slow + fast, 2), np.repeat([0, 1], [slow, fast]), TYPES)


def shared(made: SpeedTable, nodes: Nodes, plan: list[tuple[int, ...]], relative: float) -> ClusterRun:
    pairs = PairSpeeds(np.zeros(made.steps.size, dtype=np.int64), np.full((2, 1, 1), relative))

    def policy(view: ClusterView) -> ClusterPlan:
        return ClusterPlan([plan[job] for job in view.jobs.tolist()])

    return run_cluster(
        policy,
        nodes,
        SimulatedJobs(made, made.submitted_s, made.requested_slots, made.believed(made.speeds)),
        RoundRules(interference=SharedGpus(nodes, pairs)),
    )


@settings(max_examples=examples(40))
@given(st.floats(0.5, 20.0), st.floats(100.0, 50_000.0))
def test_a_job_alone_ends_after_its_steps_over_its_speed(speed: float, steps: float) -> None:
    made = table([[speed, np.nan]], steps)
    nodes = Nodes(np.array([1, 1]), np.array([0, 1]), TYPES)
    run = run_cluster(
        Matching(),
        nodes,
        SimulatedJobs(made, made.submitted_s, made.gpus, made.believed(made.speeds)),
        RoundRules(round_s=360.0),
    )
    # submitted at 0, seen at the first round, 30 s of restart
    assert abs(run.completed_s[0] - (360.0 + 30.0 + steps / speed)) <= 1.0


def test_speeds_hold_for_the_gpus_asked_for_and_no_others() -> None:
    made = table([[2.0, 4.0]], gpus=2)
    assert made.rate(0, 0, 0.0, (2,), "fast", 0) == 4.0
    assert made.rate(0, 0, 0.0, (1, 1), "slow", 0) == 2.0
    assert np.isnan(made.rate(0, 0, 0.0, (1,), "slow", 0))
    wide, single = table([[2.0, 4.0]], gpus=2, slots=2), table([[2.0, 4.0]], slots=2)
    assert wide.rate(0, 0, 0.0, (2, 2), "slow", 0) == 2.0
    assert np.isnan(wide.rate(0, 0, 0.0, (1, 1, 2), "slow", 0)) and np.isnan(
        wide.rate(0, 0, 0.0, (1,), "slow", 0)
    )
    assert single.rate(0, 0, 0.0, (1,), "slow", 0) == single.rate(0, 0, 0.0, (2,), "slow", 0) == 2.0
    assert np.isnan(single.rate(0, 0, 0.0, (1, 1), "slow", 0))


def test_jobs_on_one_gpu_slow_each_other_down_until_one_is_done() -> None:
    made = SpeedTable(TYPES, np.ones((2, 2)), np.array([600.0, 1200.0]), np.ones(2, int), np.zeros(2), 2)
    nodes = gpus_of(1, 0)
    run = shared(made, nodes, [(0,), (0,)], relative=0.5)
    # 60 s until the first round, 30 s of restart, then half the speed
    assert run.completed_s[0] == 90.0 + 600.0 / 0.5
    # the other one is quick again from the round after: 1290 lies within the round that ends at 1320
    done = (1320.0 - 90.0) * 0.5
    assert run.completed_s[1] == 1320.0 + (1200.0 - done)


def test_a_job_with_its_gpu_to_itself_loses_nothing() -> None:
    made = table([[1.0, 1.0], [1.0, 1.0]], 600.0, slots=2)
    run = shared(made, gpus_of(2, 0), [(0, 0), (1,)], relative=0.1)
    assert run.completed_s.tolist() == [690.0, 690.0]


def test_the_speed_beside_another_is_the_pairs_own() -> None:
    nodes = gpus_of(1, 1)
    relative = np.arange(1, 9).reshape(2, 2, 2) / 10.0
    pairs = PairSpeeds(np.array([0, 1, -1]), relative)
    lost = SharedGpus(nodes, pairs)
    assert lost(np.array([0, 1]), [(1,), (1,)]) == pytest.approx([1.0 - 0.6, 1.0 - 0.7])
    assert lost(np.array([0, 1]), [(0,), (0,)]) == pytest.approx([1.0 - 0.2, 1.0 - 0.3])
    assert lost(np.array([0, 1]), [(0,), (1,)]).tolist() == [0.0, 0.0]
    assert lost(np.array([0, 2]), [(0,), (0,)]).tolist() == [1.0, 1.0], "not measured: does not fit"
    assert lost(np.array([], dtype=np.int64), []).size == 0


@settings(max_examples=examples(12))
@given(st.integers(0, 1000))
def test_packed_jobs_of_any_kind_all_complete(seed: int) -> None:
    rng = np.random.default_rng(seed)
    jobs, kinds = 9, 3
    made = SpeedTable(
        TYPES,
        rng.uniform(0.5, 4.0, (jobs, 2)),
        rng.uniform(100, 20_000, jobs),
        rng.choice([1, 1, 1, 2], jobs),
        rng.uniform(0, 3000, jobs),
        2,
    )
    relative = rng.uniform(0.3, 1.0, (2, kinds, kinds))
    apart = rng.random((2, kinds, kinds)) < 0.2
    relative[apart | apart.transpose(0, 2, 1)] = np.nan
    pairs = PairSpeeds(np.where(made.gpus == 1, rng.integers(0, kinds, jobs), -1), relative)
    nodes = gpus_of(2, 2)
    run = run_cluster(
        Packing(pairs),
        nodes,
        SimulatedJobs(made, made.submitted_s, made.requested_slots, made.believed(made.speeds)),
        RoundRules(round_s=300.0, interference=SharedGpus(nodes, pairs)),
    )
    assert not np.isnan(run.completed_s).any()


def test_wrong_tables_are_told() -> None:
    with pytest.raises(InvalidInstance, match="measured nowhere"):
        table([[np.nan, np.nan]])
    with pytest.raises(InvalidInstance, match="must be positive"):
        table([[1.0, 0.0]])
    with pytest.raises(InvalidInstance, match="1 or 2 slots"):
        table([[1.0, 1.0]], slots=3)


def test_gap_nodes_are_there_as_the_trace_says_and_begin_anew() -> None:
    trace = generated_trace(3, nodes=20, days=0.2)
    gap, own = GapNodes(trace, 4, "gap", "gpu"), Nodes(np.array([8]), np.array([0]), ("gpu",))
    nodes, present = gap.joined(own), gap.present(own)
    assert nodes.types == ("gpu", "gap") and nodes.gpus.tolist() == [8] + [4] * 20
    over = float(trace.event_s[-1])
    for now in np.random.default_rng(0).uniform(0, over, 50):
        idle = {
            int(node)
            for node, start, end in zip(trace.node, trace.start_s, trace.end_s, strict=True)
            if start <= now < end
        }
        there = present(float(now))
        assert there[0] and set((np.flatnonzero(there) - 1).tolist()) - {-1} == idle
        assert (present(float(now) + over) == there).all()
    profiles = {"net": application(), "far": application(speeds={"other": 1.0})}
    assert set(gap.measured(profiles)["net"].step_times) == {"gpu", "gap"}
    assert set(gap.measured(profiles)["far"].step_times) == {"other"}
    with pytest.raises(InvalidOption, match="at least one GPU"):
        GapNodes(trace, 0, "gap", "gpu")


def test_measured_pairs_are_those_of_the_published_table(data: Path) -> None:
    from paper_repro.joint.drawn_jobs import predicted
    from paper_repro.joint.packing import measured_pairs, predicted_pairs

    measured = predicted(data, "Gavel")[0]
    true, told = measured_pairs(data), predicted_pairs(data)
    assert np.isfinite(true).sum(axis=(1, 2)).tolist() == [589, 656, 636], "counted in the file by hand"
    names = [signature.name for signature in measured.signatures]
    one, two = names.index("ResNet-18 (batch size 16) x1"), names.index("ResNet-18 (batch size 32) x1")
    alone, beside = 4.795294551566172, 2.539979567443098
    assert true[measured.architectures.index("k80"), one, two] == pytest.approx(beside / alone)
    assert (np.isnan(told) == np.isnan(true)).all()
    off = np.abs(told - true)[~np.isnan(true)]
    assert off.mean() < np.abs(np.nanmedian(true) - true)[~np.isnan(true)].mean(), "better than a guess"
