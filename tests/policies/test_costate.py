"""The policy of prices of work, and what completed jobs teach."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from apportion.cluster.policies.rounds.baselines import afs
from apportion.cluster.policies.rounds.belief import profiled, remaining_draws, with_work
from apportion.cluster.policies.rounds.cluster_view import Claims, ClusterPlan, ClusterPolicy, ClusterView
from apportion.cluster.policies.rounds.costate import Costate, Weighed, why
from apportion.cluster.policies.rounds.remaining_work import EstimatedWork, knowing
from apportion.cluster.simulation.rounds.accounts import FairnessAccount, summarise_fairness
from apportion.cluster.simulation.rounds.job_states import RoundRules, SimulatedJobs
from apportion.cluster.simulation.rounds.scenario import Scenario, TrainingJob, homogeneous, parse_nodes
from apportion.cluster.simulation.rounds.simulator import ClusterRun, run_cluster
from apportion.core.errors import InvalidOption
from tests.clusters import application, scenario
from tests.policies.test_cluster_policies import first_view


def simulated(policy: ClusterPolicy, jobs: int = 24) -> ClusterRun:
    made = scenario(
        [(30.0 * k, ("net", "bert")[k % 2], 1 + k % 4, 128) for k in range(jobs)], homogeneous(2, 4, "gpu")
    )
    beliefs = made.beliefs(True)
    return run_cluster(
        policy,
        made.nodes,
        SimulatedJobs(made.ground_truth(True), made.submitted_s, made.requested_gpus, beliefs),
        RoundRules(),
    )


def mean_s(run: ClusterRun) -> float:
    return float((run.completed_s - run.submitted_s).mean())


def test_mean_completion_is_less_than_under_afs_and_little_more_without_an_oracle() -> None:
    known, learnt = mean_s(simulated(Costate())), mean_s(simulated(knowing("attained", Costate())))
    assert known < mean_s(simulated(afs))
    assert learnt < 1.5 * known
    assert mean_s(simulated(knowing("by-application", Costate()))) < 1.5 * known


def test_who_is_late_counts_more_where_fairness_is_asked_for() -> None:
    def ratios(policy: ClusterPolicy) -> tuple[float, float]:
        jobs = [(10.0 * k, ("net", "bert")[k % 2], 1 + k % 4, 128) for k in range(40)]
        made = scenario(jobs, homogeneous(2, 4, "gpu"))
        beliefs = made.beliefs(True)
        account = FairnessAccount(made.nodes, beliefs, made.requested_gpus, None)
        run = run_cluster(
            policy,
            made.nodes,
            SimulatedJobs(made.ground_truth(True), made.submitted_s, made.requested_gpus, beliefs),
            RoundRules(),
            account=account,
        )
        return mean_s(run), summarise_fairness(run, account).worst_finish_time_ratio or np.nan

    mean, worst = ratios(Costate())
    fair_mean, fair_worst = ratios(Costate(fairness=2.0))
    assert fair_worst < worst and fair_mean < 1.2 * mean
    assert ratios(Costate(ratio_limit=2.0))[1] < worst
    assert ratios(Costate(ratio_limit=100.0)) == (mean, worst)


def test_tenants_are_served_evenly_first_and_by_prices_within() -> None:
    """Ten jobs of one tenant came before two of another, that has half of the eight GPUs all the same."""
    jobs = [(0.0, "net", 1, 128)] * 10 + [(0.0, "bert", 4, 128)] * 2
    made = scenario(jobs, homogeneous(2, 4, "gpu"))
    tenant = np.array([0] * 10 + [1] * 2)
    alike = np.ones(12)
    claims = Claims(
        tenants=("many", "few"),
        share=np.array([0.5, 0.5]),
        entitled=np.zeros((2, 1), dtype=np.int64),
        first_come=np.zeros(2, dtype=np.bool_),
        tenant=tenant,
        weight=alike,
        deadline_s=alike * np.inf,
        gpu_cost=np.ones(1),
    )
    seen: list[list[int]] = []

    def observed(view: ClusterView, plan: ClusterPlan) -> None:
        if (view.jobs >= 10).sum() == 2:
            held = [
                sum(map(len, np.array(plan.nodes, dtype=object)[view.jobs // 10 == who])) for who in (0, 1)
            ]
            seen.append(held)

    run_cluster(
        Costate(),
        made.nodes,
        SimulatedJobs(
            made.ground_truth(True), made.submitted_s, made.requested_gpus, made.beliefs(True), claims=claims
        ),
        RoundRules(),
        observe=observed,
    )
    assert seen and all(held == [4, 4] for held in seen)


def test_several_types_of_gpus_are_shared_within_their_counts() -> None:
    """`run_cluster` checks every plan."""
    profiles = {"net": application(speeds={"a": 1.0, "b": 2.0})}
    made = scenario([(10.0 * k, "net", 1, 128) for k in range(10)], parse_nodes("a:1x4,b:2x2"), profiles)
    jobs = SimulatedJobs(made.ground_truth(True), made.submitted_s, made.requested_gpus, made.beliefs(True))
    assert not np.isnan(run_cluster(Costate(), made.nodes, jobs, RoundRules()).completed_s).any()
    with pytest.raises(InvalidOption, match="counts GPUs of one type, the machines have a, b"):
        run_cluster(afs, made.nodes, jobs, RoundRules())


def test_a_decision_is_said_in_prices_of_work() -> None:
    """Two jobs of speed equal to their GPUs, four GPUs: an hour of the shorter one delays both."""
    profiles = {"net": application()}
    jobs = [TrainingJob("long", 0.0, "net", 1, 128, work=30.0), TrainingJob("short", 0.0, "net", 1, 128)]
    made = Scenario.of(jobs, profiles, homogeneous(1, 4, "gpu"))
    seen: list[Weighed] = []
    beliefs = made.beliefs(True)
    run_cluster(
        Costate(note=seen.append),
        made.nodes,
        SimulatedJobs(made.ground_truth(True), made.submitted_s, made.requested_gpus, beliefs),
        RoundRules(),
    )
    first = seen[0]
    long, short = first.delay_s.tolist()
    assert short > long > 900.0  # the long one ends last: its work delays itself alone
    worth = [first.values[job, at] for job, at in enumerate(first.chosen) if at >= 0]
    for job in (0, 1):
        words = why(first, job)
        assert f"by {first.delay_s[job]:.0f} s, more than of {job} of 1 others" in words
    assert sum(worth) > 0.0
    # where one has all, the other is told what a GPU would save and what it would cost
    waits = [one for one in seen if (one.chosen < 0).any()]
    for one in waits:
        position = int((one.chosen < 0).argmax())
        words = why(one, position)
        assert "GPUs: none" in words and "others would lose" in words
        gained = np.nanmax(one.gained(position, -1))
        assert f"would save {gained:.3g} s a second" in words


def test_where_no_machine_is_there_everybody_waits() -> None:
    made = scenario([(0.0, "net", 1, 128), (0.0, "bert", 2, 128)], homogeneous(2, 4, "gpu"))
    rules = RoundRules(present=lambda time_s: np.array([time_s > 200.0, time_s > 100.0]))
    jobs = SimulatedJobs(made.ground_truth(True), made.submitted_s, made.requested_gpus, made.beliefs(True))
    run = run_cluster(Costate(), made.nodes, jobs, rules)
    assert (run.completed_s > 120.0).all()


def test_what_is_known_of_work_narrows_as_jobs_complete() -> None:
    seen: list[tuple[ClusterView, list[NDArray[np.float64]]]] = []

    def watching(view: ClusterView) -> ClusterPlan:
        seen.append((view, [remaining_draws(belief) for belief in view.beliefs]))
        return Costate()(view)

    truth: list[NDArray[np.float64]] = []
    learning = EstimatedWork(watching, "by-application")

    def both(view: ClusterView) -> ClusterPlan:
        truth.append(np.array([belief.remaining_progress for belief in view.beliefs]))
        return learning(view)

    simulated(both, 12)
    errors = [
        float(np.mean(np.abs(np.log(np.mean(draws, axis=1) / np.maximum(known, 1e-9)))))
        for (_, draws), known in zip(seen, truth, strict=True)
        if len(draws)
    ]
    assert all((draws > 0).all() for _, each in seen for draws in each)
    assert errors[-1] < 0.1 * errors[0]


def test_with_attained_work_alone_prices_begin_by_it() -> None:
    """Two jobs that differ in what they have attained alone: a geometric mean, whatever unit progress has."""
    view = first_view(2)
    learnt, by_attained = np.array([[4.0], [1.0]]), (3.0, 1.0)
    plain, ours = [], []
    for known, found in ((None, plain), (by_attained, ours)):
        beliefs = [
            with_work(belief, draws, None if known is None else known[at])
            for at, (belief, draws) in enumerate(zip(view.beliefs, learnt, strict=True))
        ]
        Costate(note=lambda one, found=found: found.append(one.price))(replace(view, beliefs=beliefs))
    expected = np.sqrt(plain[0] * np.array(by_attained))
    assert ours[0][0] / ours[0][1] == pytest.approx(expected[0] / expected[1])


def test_a_share_of_what_was_asked_for_is_learnt() -> None:
    """All jobs end after half of their epochs: before any did draws reach up to all of it."""
    profiles = {"net": application(epochs=8)}
    jobs = [TrainingJob(f"{k}", 60.0 * k, "net", 1, 128, epochs=4, work=1.0 + k % 3) for k in range(30)]
    made = Scenario.of(jobs, profiles, homogeneous(2, 4, "gpu"))
    assert [float(one.progress[-1]) for one in made.applications[:3]] == [2000.0, 4000.0, 6000.0]
    seen: list[tuple[list[NDArray[np.float64]], list[float], list[float]]] = []
    truth: list[list[float]] = []

    def watching(view: ClusterView) -> ClusterPlan:
        beliefs = [profiled(belief) for belief in view.beliefs]
        asked = [one.asked - one.progress for one in beliefs if one.asked is not None]
        seen.append(([remaining_draws(one) for one in beliefs], asked, truth[-1]))
        return Costate()(view)

    learning = knowing("asked", watching)

    def both(view: ClusterView) -> ClusterPlan:
        truth.append([belief.remaining_progress for belief in view.beliefs])
        return learning(view)

    beliefs = made.beliefs(True)
    run_cluster(
        both,
        made.nodes,
        SimulatedJobs(made.ground_truth(True), made.submitted_s, made.requested_gpus, beliefs),
        RoundRules(),
    )
    assert all(
        draws.min() > 0.0 and draws.max() <= left * (1.0 + 1e-9)
        for each, asked, _ in seen
        for draws, left in zip(each, asked, strict=True)
    )
    errors = [
        float(np.mean([abs(draws.mean() - known) / 4000.0 for draws, known in zip(each, own, strict=True)]))
        for each, _, own in seen
        if each
    ]
    assert np.mean(errors[-10:]) < 0.5 * np.mean(errors[:3])


def test_draws_of_a_job_stay_where_they_were() -> None:
    view = first_view(6)
    known: list[list[float]] = []

    def asked(given: ClusterView) -> ClusterPlan:
        known.append([belief.remaining_progress for belief in given.beliefs])
        return ClusterPlan([()] * given.num_jobs)

    learning = EstimatedWork(asked)
    learning(view)
    learning(replace(view, time_s=view.time_s + 60.0))
    assert known[0] == known[1] and len(set(known[0])) > 1
    with pytest.raises(InvalidOption, match="did you mean 'attained'"):
        knowing("atained", Costate())
