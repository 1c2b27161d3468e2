"""What a policy may be told of GPU types: the truth, what is similar, what is seen, nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pytest

from apportion.cluster.estimation.similarity import ModelSignature
from apportion.cluster.estimation.training.step_times import BootstrappedTimes, StepTimes
from apportion.cluster.policies.names import believing
from apportion.cluster.policies.rounds.belief import JobBelief, profiled
from apportion.cluster.policies.rounds.cluster_view import ClusterPlan, ClusterPolicy, ClusterView, Nodes
from apportion.cluster.policies.rounds.learned_speeds import similar_speeds
from apportion.cluster.policies.rounds.matching import Matching
from apportion.cluster.policies.rounds.sia import restart_factor
from apportion.cluster.simulation.rounds.job_states import RoundRules, SimulatedJobs
from apportion.cluster.simulation.rounds.scenario import parse_nodes
from apportion.cluster.simulation.rounds.simulator import run_cluster
from apportion.core.errors import InvalidInstance, InvalidOption
from tests.clusters import application, scenario

TYPES = ("slow", "fast")
ALIKE = {
    "net-a": application("net-a", speeds={"slow": 1.0, "fast": 3.0}),
    "net-b": application("net-b", speeds={"slow": 2.0, "fast": 6.0}),
    "odd": application("odd", speeds={"slow": 1.0, "fast": 0.5}),
}


def speeds(name: str, *kinds: str) -> list[float]:
    """Return the true speeds of one GPU with the initial batch."""
    belief = JobBelief(ALIKE[name], ALIKE[name].initial_batch, 0, 0.0)
    return [belief.rate((1,), kind) for kind in kinds]


def run(belief: str, similar: Mapping[str, Mapping[str, float]], policy: ClusterPolicy) -> None:
    jobs = [(0.0, name, 1, 32) for name in ALIKE for _ in range(3)]
    made = scenario(jobs, parse_nodes("slow:2x2,fast:1x2"), ALIKE)
    run_cluster(
        believing(belief, policy, lambda: similar),
        made.nodes,
        SimulatedJobs(made.ground_truth(False), made.submitted_s, made.requested_gpus, made.beliefs(False)),
    )


def test_a_prediction_leaves_its_own_application_out() -> None:
    predicted = similar_speeds(ALIKE, TYPES, {})
    slow, fast = speeds("net-a", *TYPES)
    odd = speeds("odd", *TYPES)
    for name in ("net-a", "net-b"):
        told = predicted[name]["fast"] / predicted[name]["slow"]
        assert odd[1] / odd[0] < told < fast / slow, "between the two others"
    assert predicted["odd"]["fast"] / predicted["odd"]["slow"] == pytest.approx(fast / slow, rel=0.05)


def test_a_family_counts_more_than_a_stranger() -> None:
    known = {
        "net-a": ModelSignature("net-a", "net"),
        "net-b": ModelSignature("net-b", "net"),
        "odd": ModelSignature("odd", "odd"),
    }
    slow, fast = speeds("net-b", *TYPES)
    told = similar_speeds(ALIKE, TYPES, known)["net-a"]
    plain = similar_speeds(ALIKE, TYPES, {})["net-a"]
    off, off_plain = (abs(math.log(one["fast"] / one["slow"] / (fast / slow))) for one in (told, plain))
    assert off < 0.05 < off_plain


def test_nobody_was_measured_there() -> None:
    lonely = {**ALIKE, "net-c": application("net-c", speeds={"new": 1.0})}
    with pytest.raises(InvalidInstance, match="net-c: no other application was measured on new"):
        similar_speeds(lonely, (*TYPES, "new"), {})


def test_similar_beliefs_keep_the_mean_and_change_the_ratio() -> None:
    seen: list[tuple[float, float]] = []
    true: list[tuple[float, float]] = []

    def noting(into: list[tuple[float, float]]) -> ClusterPolicy:
        def note(view: ClusterView) -> ClusterPlan:
            into.extend((one.rate((1,), "slow"), one.rate((1,), "fast")) for one in view.beliefs)
            return Matching()(view)

        return note

    relative = {name: {"slow": 1.0, "fast": 4.0} for name in ALIKE}
    run("similar", relative, noting(seen))
    run("true", relative, noting(true))
    for told, truth in zip(seen[:9], true[:9], strict=True):
        assert told[1] / told[0] == pytest.approx(4.0)
        assert math.prod(told) == pytest.approx(math.prod(truth))


def test_jobs_of_an_application_teach_each_other() -> None:
    told: dict[int, tuple[float, float]] = {}

    def first_runs_on_both(view: ClusterView) -> ClusterPlan:
        """Job 0 on the slow type, job 1 on the fast one, job 2 waits."""
        for job, one in zip(view.jobs.tolist(), view.beliefs, strict=True):
            told[job] = one.rate((1,), "slow"), one.rate((1,), "fast")
        return ClusterPlan([(min(job, 1),) if job < 2 else () for job in view.jobs.tolist()])

    made = scenario([(0.0, "net-a", 1, 32)] * 3, Nodes(np.array([1, 1]), np.array([0, 1]), TYPES), ALIKE)
    run_cluster(
        believing("fitted", first_runs_on_both, dict),
        made.nodes,
        SimulatedJobs(made.ground_truth(False), made.submitted_s, made.requested_gpus, made.beliefs(False)),
        RoundRules(limit_s=300.0),
    )
    assert told[2] == pytest.approx(tuple(speeds("net-a", *TYPES)), rel=0.05), "job 2 has never run"


def test_a_belief_has_a_name() -> None:
    with pytest.raises(InvalidOption, match=r"belief must be one of true, .*'fited'; did you mean 'fitted'"):
        believing("fited", Matching(), dict)


def test_what_was_measured_on_a_line_is_not_known_between() -> None:
    """As the published rows of a model that runs on 8 and 16 GPUs only; this was an internal error."""
    rows = np.array([[1.0, 0.1, 0.3], [2.0, 0.2, 0.3]])
    line = StepTimes({(8,): rows, (8, 8): rows}, np.empty((0, 5)))
    assert line.seconds((8,), 1) == (0.1, 0.3)
    assert all(math.isnan(one) for one in line.seconds((1,), 1))
    assert np.isnan(line.curve((4,), np.array([1, 2]))[0]).all()


def test_scaling_is_believed_perfect_until_it_is_seen() -> None:
    truth = ALIKE["net-a"].step_times
    local = np.array([8, 16, 32])
    alone, together = truth["slow"].curve((1,), local)[0], truth["slow"].curve((2, 4), local)
    new = BootstrappedTimes("slow", truth, {})
    assert new.curve((1,), local)[0].tolist() == alone.tolist()
    assert new.curve((2, 4), local)[0].tolist() == alone.tolist() and not new.curve((2, 4), local)[1].any()
    assert (together[0] > alone).all(), "so perfect scaling is too good"
    learnt = BootstrappedTimes("slow", truth, {"slow": frozenset({(2, 4)})})
    assert [one.tolist() for one in learnt.curve((2, 4), local)] == [one.tolist() for one in together]
    assert learnt.seconds((4, 4), 16)[0] == pytest.approx(together[0][1]), "the nearest count's step"
    assert math.isnan(learnt.seconds((99,), 16)[0]), "where nothing was measured is known"


def test_what_was_seen_on_one_type_is_taken_over_by_the_speeds_of_one_gpu() -> None:
    truth = ALIKE["net-a"].step_times
    taken = BootstrappedTimes("fast", truth, {"slow": frozenset({(2,)})})
    (slow_1, _), (slow_2, sync) = truth["slow"].seconds((1,), 16), truth["slow"].seconds((2,), 16)
    fast_1, _ = truth["fast"].seconds((1,), 16)
    assert taken.seconds((2,), 16) == pytest.approx((fast_1 * slow_2 / slow_1, fast_1 * sync / slow_1))


def test_a_bootstrapped_job_learns_by_running_and_for_itself_alone() -> None:
    """A job on two GPUs knows their true speed after a round in which it moved on; another job does not."""
    seen: list[list[float]] = []

    def policy(view: ClusterView) -> ClusterPlan:
        believed = [profiled(belief) for belief in view.beliefs]
        true = [JobBelief(ALIKE["net-a"], 128, one.epoch, one.progress) for one in believed]
        seen.append(
            [a.rate((2,), "slow") / b.rate((2,), "slow") for a, b in zip(believed, true, strict=True)]
        )
        return ClusterPlan([(0, 0) if job == 0 else () for job in view.jobs.tolist()])

    made = scenario([(0.0, "net-a", 2, 128)] * 2, parse_nodes("slow:1x2"), ALIKE)
    run_cluster(
        believing("bootstrapped", policy, dict),
        made.nodes,
        SimulatedJobs(made.ground_truth(False), made.submitted_s, made.requested_gpus, made.beliefs(False)),
        RoundRules(limit_s=150.0, restart_s=50.0),
    )
    assert seen[0][0] == seen[0][1] == seen[1][1] > 1.05
    assert seen[1][0] == pytest.approx(1.0)


def test_a_first_start_may_count_as_a_restart() -> None:
    factors: list[list[float]] = []

    def policy(view: ClusterView) -> ClusterPlan:
        factors.append([float(restart_factor(view, counts)[0]) for counts in (True, False)])
        return ClusterPlan([(0,)])

    made = scenario([(0.0, "net-a", 1, 32)], parse_nodes("fast:1x2"), ALIKE)
    jobs = SimulatedJobs(made.ground_truth(False), made.submitted_s, made.requested_gpus, made.beliefs(False))
    run_cluster(policy, made.nodes, jobs, RoundRules(limit_s=150.0))
    assert factors == [[60 / 90, 60 / 90], [(120 - 30) / 150, 120 / 150]]


def test_slow_downs_slow_the_truth_down() -> None:
    made = scenario([(0.0, "net-a", 1, 32), (0.0, "odd", 1, 32)], parse_nodes("fast:1x2"), ALIKE)
    plain, slowed = made.ground_truth(False), made.ground_truth(False, slowdowns={"odd": 2.0})
    rates = [[one.rate(job, 0, 0.0, (1,), "fast", 0) for job in (0, 1)] for one in (plain, slowed)]
    assert rates[1] == [rates[0][0], rates[0][1] / 2]
    with pytest.raises(InvalidOption, match="no job is of application 'net-b'"):
        made.ground_truth(False, slowdowns={"net-b": 2.0})
    with pytest.raises(InvalidOption, match="must be positive"):
        made.ground_truth(False, slowdowns={"odd": 0.0})
