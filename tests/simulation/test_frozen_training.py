"""Frozen jobs in the simulated cluster: speeds, penalties, rebuilds and accuracy budgets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paper_repro.icefrog.account import FrozenAccount

from apportion.cluster.estimation.training import HOMOGENEOUS, read_applications
from apportion.cluster.estimation.training.freezing_profile import LEVELS
from apportion.cluster.policies.rounds.belief import JobBelief, profiled
from apportion.cluster.policies.rounds.cluster_view import ClusterPlan, ClusterPolicy, ClusterView
from apportion.cluster.policies.rounds.icefrog import IceFrog
from apportion.cluster.policies.rounds.sia import Sia
from apportion.cluster.simulation.rounds.accounts import summarise_cluster
from apportion.cluster.simulation.rounds.job_states import Observe, RoundRules, SimulatedJobs
from apportion.cluster.simulation.rounds.scenario import Scenario, homogeneous, read_workload
from apportion.cluster.simulation.rounds.simulator import ClusterRun, run_cluster
from tests.budgets import examples
from tests.clusters import FREEZING, application, scenario

NAMES = ("cifar10", "imagenet", "bert", "net")
JOBS = st.lists(
    st.tuples(
        st.integers(0, 900).map(float),
        st.sampled_from(NAMES),
        st.sampled_from([1, 2, 4]),
        st.sampled_from([64, 128, 256]),
    ),
    min_size=1,
    max_size=6,
)


def made_of(jobs: list[tuple[float, str, int, int]], nodes: int = 3) -> Scenario:
    profiles = {name: application(name, 5, 3.0, {"gpu": 0.4}) for name in NAMES}
    return scenario(jobs, homogeneous(nodes, 4, "gpu"), profiles)


def run(
    made: Scenario, policy: ClusterPolicy, theta: float = 0.5, observe: Observe | None = None, **more: object
) -> ClusterRun:
    return run_cluster(
        policy,
        made.nodes,
        SimulatedJobs(
            made.ground_truth(True, FREEZING, theta),
            made.submitted_s,
            made.requested_gpus,
            made.beliefs(True, FREEZING, theta),
        ),
        RoundRules(**more),  # type: ignore[arg-type]
        observe=observe,
    )


def at_depth(depth: int) -> ClusterPolicy:
    """Every job on one GPU of its own, frozen to one depth."""

    def policy(view: ClusterView) -> ClusterPlan:
        nodes = [(int(job) // 4,) for job in view.jobs]
        return ClusterPlan(nodes, np.full(view.num_jobs, depth))

    return policy


@settings(max_examples=examples(20))
@given(
    jobs=JOBS,
    budget=st.floats(0.0, 0.8),
    theta=st.sampled_from([0.0, 0.5, 1.0]),
    warm_up=st.sampled_from([0.0, 0.1]),
    round_s=st.sampled_from([7.0, 60.0]),
)
def test_no_accuracy_budget_is_ever_exceeded(
    jobs: list[tuple[float, str, int, int]], budget: float, theta: float, warm_up: float, round_s: float
) -> None:
    def within(view: ClusterView, plan: ClusterPlan) -> None:
        assert (view.frozen_s <= budget * view.attained_s + 1e-6).all()

    policy = IceFrog(budget=budget, warm_up=warm_up)
    ended = run(made_of(jobs), policy, theta, observe=within, rebuild_s=5.0, round_s=round_s)
    assert (ended.frozen_s <= budget * ended.attained_s + 1e-6).all()
    assert not np.isnan(ended.completed_s).any()


def test_budgets_are_used_where_freezing_is_free() -> None:
    ended = run(made_of([(0.0, "imagenet", 1, 64)] * 4, 1), IceFrog(budget=0.4), 0.0)
    share = ended.frozen_s / ended.attained_s
    assert (share > 0.3).all() and (share <= 0.4).all()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("theta", [0.0, 0.5, 1.5])
def test_a_frozen_step_takes_and_keeps_what_the_profile_says(name: str, theta: float) -> None:
    made = made_of([(0.0, name, 2, 128)])
    app, ground_truth = made.applications[0], made.ground_truth(True, FREEZING, theta)
    whole = made.ground_truth(True).rate(0, 2, 0.0, (2,), "gpu", 0)
    best = made.tables[name].best((2,), "gpu", 2)
    assert best is not None
    step, sync = app.step_times["gpu"].seconds((2,), best[1].local)
    for depth in range(LEVELS):
        progress = 0.6 * float(app.progress[-1])
        rate = ground_truth.rate(0, 2, progress, (2,), "gpu", depth)
        if name == "net":
            assert rate == whole
            continue
        profile = FREEZING[name]
        passes = (step - sync) * float(profile.relative[0][depth])
        # two GPUs lie half-way between one and four in doublings
        ending = step * float(profile.relative[:, depth].mean())
        kept = max(0.01, 1.0 - theta * (1.0 - float(profile.retained_at(0.6)[depth])))
        seconds = best[1].accumulation * passes + ending
        assert rate == pytest.approx(whole * best[1].seconds(step, sync) / seconds * kept)


def test_psi_moves_with_the_phase_and_never_rises_with_depth() -> None:
    for profile in FREEZING.values():
        for phase in np.linspace(0.0, 1.0, 21):
            psi = profile.retained_at(float(phase))
            assert psi[0] == 1.0 and (np.diff(psi) <= 1e-12).all() and (psi > 0).all()
        flat = profile.phase_agnostic()
        assert np.allclose(flat.retained_at(0.1), profile.retained.mean(axis=0))
        assert (flat.relative == profile.relative).all()
    borrowed = FREEZING["bert"].with_penalty_of(FREEZING["cifar10"])
    assert (borrowed.retained_at(0.5) == FREEZING["cifar10"].retained_at(0.5)).all()


def test_a_change_of_depth_costs_a_rebuild_and_no_restart() -> None:
    made = made_of([(0.0, "imagenet", 1, 64)])

    def flip(view: ClusterView) -> ClusterPlan:
        return ClusterPlan([(0,)], np.array([round(view.time_s / 60.0) % 2]))

    free, paid = (run(made, flip, 0.0, rebuild_s=seconds) for seconds in (0.0, 6.0))
    assert free.restarts.tolist() == paid.restarts.tolist() == [1]
    # of every round but the restarting one 6 of 60 seconds are lost
    assert paid.attained_s[0] == pytest.approx(free.attained_s[0] / 0.9, rel=0.05)
    # every other round, but for the last one that is begun
    assert free.frozen_s[0] == pytest.approx(0.05 * free.attained_s[0], abs=0.1 * 60 / 2)


def test_deep_freezing_that_costs_nothing_shortens_training_as_the_steps_do() -> None:
    made = made_of([(0.0, "imagenet", 1, 64)])
    plain, frozen = run(made, at_depth(0), 0.0), run(made, at_depth(9), 0.0)
    ground_truth = made.ground_truth(True, FREEZING, 0.0)
    faster = [
        ground_truth.rate(0, epoch, 0.0, (1,), "gpu", 9) / ground_truth.rate(0, epoch, 0.0, (1,), "gpu", 0)
        for epoch in range(5)
    ]
    ratio = (plain.attained_s[0] - 30.0) / (frozen.attained_s[0] - 30.0)
    assert min(faster) * 0.98 <= ratio <= max(faster) * 1.02


def test_a_job_frozen_to_death_still_moves_and_loses_much() -> None:
    made = made_of([(0.0, "cifar10", 1, 64)])
    plain, dead = run(made, at_depth(0), 1.5), run(made, at_depth(9), 1.5)
    assert np.isfinite(dead.completed_s).all()
    assert dead.attained_s[0] > 10 * plain.attained_s[0]


@pytest.mark.parametrize("theta", [0.0, 1.0])
def test_the_account_of_lost_progress_is_what_was_kept(theta: float) -> None:
    made = made_of([(0.0, "bert", 1, 64), (0.0, "net", 1, 64)])
    account = FrozenAccount(made.ground_truth(True, FREEZING, theta), 2)
    run(made, at_depth(9), theta, observe=account)
    totals = np.array([application.progress[-1] for application in made.applications])
    # BERT's psi is the same in every phase, the other job cannot be frozen
    assert account.lost(totals) == pytest.approx(theta * (1.0 - 0.865) / 2)


def test_nothing_is_frozen_in_the_warm_up() -> None:
    deep: list[float] = []

    def note(view: ClusterView, plan: ClusterPlan) -> None:
        assert plan.depth is not None
        for position in np.flatnonzero(plan.depth).tolist():
            deep.append(profiled(view.beliefs[position]).phase)

    run(made_of([(0.0, name, 1, 64) for name in NAMES]), IceFrog(warm_up=0.3), observe=note)
    assert deep and min(deep) >= 0.3


def test_beliefs_are_apart_from_the_truth() -> None:
    made = made_of([(0.0, "imagenet", 1, 64), (0.0, "bert", 1, 64)])
    seen: list[list[JobBelief]] = []
    run(
        made,
        at_depth(0),
        observe=lambda view, plan: seen.append([profiled(belief) for belief in view.beliefs]),
    )
    told = seen[0]

    class States:
        epoch, progress = np.array([belief.epoch for belief in told]), np.zeros(2)

    noisy = made.beliefs(True, FREEZING, 1.25, noise=0.3, seed=4)
    again = made.beliefs(True, FREEZING, 1.25, noise=0.3, seed=4)
    ratios = set()
    for job in range(2):
        one, same = noisy(job, States()), again(job, States())  # type: ignore[arg-type]
        for gpus in (1, 2, 4):
            assert one.rate((gpus,), "gpu") == same.rate((gpus,), "gpu")
            ratios.add(round(one.rate((gpus,), "gpu") / told[job].rate((gpus,), "gpu"), 9))
        assert profiled(one).freezing is not None and profiled(one).freezing.theta == 1.25  # type: ignore[union-attr]
        assert (profiled(one).speed_by_depth((2,), "gpu") == told[job].speed_by_depth((2,), "gpu")).all()
    assert len(ratios) == 6


@pytest.mark.slow
def test_half_the_penalty_gives_what_the_prototype_gave(data: Path) -> None:
    """A sixth less than without freezing under theta 1, more than a third under theta 0.5."""
    profiles = read_applications(data / "pollux")
    jobs = read_workload(data / "pollux" / "workloads" / "workload-6.csv", profiles)
    made = Scenario.of(jobs[:80], profiles, homogeneous(6, 4, HOMOGENEOUS))

    def average(policy: ClusterPolicy, theta: float) -> float:
        ended = summarise_cluster(run(made, policy, theta, rebuild_s=5.0), "", 0.0)
        assert ended.jobs_done == 80 and ended.avg_jct_s is not None
        return ended.avg_jct_s

    sia, whole, half = average(Sia(), 1.0), average(IceFrog(), 1.0), average(IceFrog(), 0.5)
    assert 0.12 < 1.0 - whole / sia < 0.25
    assert 0.25 < 1.0 - half / sia < 0.45
