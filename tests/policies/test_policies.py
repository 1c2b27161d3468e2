"""Policies against the library's own answer, the published model, enumeration and their own rules."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import apportion
from apportion.cluster.policies import (
    EqualShare,
    FreeTrain,
    FreeTrainPublished,
    GapFillingView,
    Greedy,
    Plan,
    Policy,
    Static,
    check_plan,
)
from apportion.cluster.policies.adaptive import Adaptive, Priced, complete_by_groups
from apportion.cluster.policies.completion import values_of
from apportion.cluster.policies.freetrain import FreeTrainLiteral, instance_of
from apportion.cluster.policies.names import POLICIES, policy
from apportion.cluster.simulation import Replay, generated_jobs, generated_trace, node_changes, workload
from apportion.cluster.simulation.summary import summarise
from apportion.core.errors import InvalidOption
from apportion.core.outcome import Termination
from apportion.instances.gap_filling.schema import PUBLISHED_CURVES


def random_view(
    rng: np.random.Generator, jobs: int = 4, nodes: int = 9, reach: int = 6, lists: bool = False
) -> GapFillingView:
    low = rng.integers(1, 3, jobs)
    high = low + rng.integers(0, reach - 2, jobs)
    rates = np.hstack((np.zeros((jobs, 1)), np.cumsum(rng.integers(0, 40, (jobs, reach)), axis=1)))
    holder = rng.integers(-1, jobs, nodes)
    for job in range(jobs):
        own = np.flatnonzero(holder == job)
        holder[own[high[job] :]] = -1
    return GapFillingView(
        time_s=5000.0,
        jobs=np.arange(jobs),
        rates=rates.astype(np.float64),
        min_nodes=low,
        max_nodes=high,
        up_s=rng.integers(5, 30, jobs).astype(np.float64),
        down_s=rng.integers(3, 20, jobs).astype(np.float64),
        remaining=rng.integers(10, 9000, jobs).astype(np.float64),
        nodes=np.sort(rng.permutation(40)[:nodes]),
        holder=holder.astype(np.int64),
        idle_since_s=rng.integers(0, 5, nodes) * 900.0,
        departed_after_s=np.zeros(0),
        waiting=3,
        measured=np.full(jobs, np.nan),
        listed=rng.random(rates.shape) < 0.5 if lists else None,
    )


def allocation(view: GapFillingView, plan: Plan) -> dict[str, set[str]]:
    return {
        f"j{job}": {str(node) for node in view.nodes[plan.holder == job].tolist()}
        for job in range(view.num_jobs)
        if (plan.holder == job).any()
    }


def test_the_fast_path_and_the_library_give_the_same_plan() -> None:
    rng = np.random.default_rng(2)
    for _ in range(150):
        view = random_view(rng, int(rng.integers(1, 6)), int(rng.integers(1, 12)))
        horizon_s = float(rng.choice([10.0, 60.0, 120.0]))
        plan = FreeTrain(horizon_s)(view)
        check_plan(view, plan)
        solution = apportion.solve(instance_of(view, horizon_s)).require()
        assert allocation(view, plan) == {job: set(nodes) for job, nodes in solution["allocation"].items()}


@pytest.mark.slow
def test_the_restricted_counts_are_the_published_model() -> None:
    """The published big-M as a limit on changes gives the optimum of the literal MILP."""
    rng, proven = np.random.default_rng(4), 0
    for _ in range(12):
        view = random_view(rng, 3, 6, 5)
        solution = apportion.solve(
            instance_of(view, 60.0), backend="highs", formulation="by_node_published", time_limit=None
        )
        fast, literal = FreeTrainPublished(60.0)(view), FreeTrainLiteral(60.0, time_limit_s=None)(view)
        values, rows = values_of(view, view.held(), 60.0), np.arange(view.num_jobs)
        worth = float(values[rows, check_plan(view, fast)].sum())
        if solution.plan is None:
            assert np.array_equal(fast.holder, view.holder)
        else:
            assert worth == pytest.approx(solution.objective, rel=1e-6, abs=1e-6)
        if solution.termination is Termination.OPTIMAL:
            assert values[rows, check_plan(view, literal)].sum() == pytest.approx(worth, rel=1e-6, abs=1e-6)
            proven += 1
        else:
            assert np.array_equal(literal.holder, view.holder), "what is not proven is thrown away"
    assert proven > 5


def test_freetrain_equals_enumeration() -> None:
    rng = np.random.default_rng(6)
    for part in range(60):
        view = random_view(rng, 3, 7, 5, lists=part % 2 == 1)
        values = values_of(view, view.held(), 30.0)
        menus = [
            [0, *(n for n in range(int(low), int(high) + 1) if view.listed is None or view.listed[job, n])]
            for job, (low, high) in enumerate(zip(view.min_nodes, view.max_nodes, strict=True))
        ]
        best = max(
            sum(values[job, n] for job, n in enumerate(counts))
            for counts in product(*menus)
            if sum(counts) <= view.nodes.size
        )
        counts = check_plan(view, FreeTrain(30.0)(view))
        assert values[np.arange(3), counts].sum() == pytest.approx(best)


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_every_policy_keeps_the_rules(name: str) -> None:
    rng = np.random.default_rng(9)
    for part in range(60):
        made: Policy = policy(name, 60.0)
        view = random_view(rng, int(rng.integers(0, 6)), int(rng.integers(0, 12)), lists=part % 2 == 1)
        check_plan(view, made(view))


def test_equal_share_as_published_gives_nothing_where_the_quota_is_the_minimum() -> None:
    view = random_view(np.random.default_rng(1), 3, 3)
    view.min_nodes[:] = 1
    view.max_nodes[:] = 5
    ours, theirs = (check_plan(view, EqualShare(as_published)(view)) for as_published in (False, True))
    assert ours.tolist() == [1, 1, 1] and theirs.tolist() == [3, 0, 0]


def test_greedy_is_exact_on_concave_curves_with_free_rescaling() -> None:
    rng = np.random.default_rng(3)
    for _ in range(40):
        view = random_view(rng, 3, 8)
        view.min_nodes[:] = 1
        view.up_s[:] = view.down_s[:] = 0.0
        view.rates[:, 1:] = np.cumsum(np.sort(rng.integers(1, 50, (3, 6)), axis=1)[:, ::-1], axis=1)
        rows = np.arange(3)
        greedy, exact = (check_plan(view, made(view)) for made in (Greedy(), FreeTrain(1.0)))
        assert view.rates[rows, greedy].sum() == pytest.approx(view.rates[rows, exact].sum())


def test_static_refills_and_never_shrinks() -> None:
    view = random_view(np.random.default_rng(5), 3, 9)
    counts = check_plan(view, Static(2)(view))
    assert (counts >= np.minimum(view.held(), counts)).all() and counts.sum() <= 9


def test_groups_go_to_one_job_and_broken_groups_are_given_up_first() -> None:
    """Two free groups of three and one of one; a job that needs three gets a whole group."""
    view = random_view(np.random.default_rng(7), 2, 7)
    view.holder[:] = [-1, -1, -1, -1, -1, -1, -1]
    view.idle_since_s[:] = [0, 10, 10, 20, 20, 10, 20]
    plan = complete_by_groups(view, np.array([3, 3]), np.array([0, 0]), np.zeros(7))
    assert {len(set(view.idle_since_s[plan.holder == job].tolist())) for job in (0, 1)} == {1}
    assert plan.holder[0] == -1
    view.holder[:] = [0, 0, 0, 0, 0, -1, -1]
    view.idle_since_s[:] = [10, 20, 10, 10, 30, 40, 40]
    plan = complete_by_groups(view, np.array([3, 0]), np.array([5, 0]), np.zeros(7))
    assert plan.holder.tolist() == [0, -1, 0, 0, -1, -1, -1]


def test_the_adaptive_policy_wakes_at_the_next_completion() -> None:
    view = random_view(np.random.default_rng(2), 2, 6)
    plan = Adaptive()(view)
    counts = check_plan(view, plan)
    held = view.held()
    ends = [
        (view.remaining[j] + view.running_rate(held)[j] * stall) / view.rates[j, counts[j]]
        for j in range(2)
        if counts[j]
        for stall in [view.up_s[j] if counts[j] > held[j] else view.down_s[j] if counts[j] < held[j] else 0.0]
    ]
    assert plan.wake_s == pytest.approx(5000.01 + max(min(ends), 0.5))
    assert Adaptive(wakes=False)(view).wake_s is None


def test_prices_of_work_end_jobs_sooner_on_average_and_the_last_one_counts_where_asked() -> None:
    """Beside `adaptive`, whose sum is efficiency: a lower mean; or a lower makespan than so."""
    changes = node_changes(generated_trace(5, nodes=64, days=14.0))
    jobs = workload(generated_jobs(5, count=24), PUBLISHED_CURVES)
    jobs = replace(jobs, work=jobs.work * np.exp(0.7 * np.random.default_rng(5).normal(size=24)))
    told = {}
    for name, made in {"adaptive": Adaptive(), "mean": Priced(), "makespan": Priced(makespan=4.0)}.items():
        replay = Replay(changes, jobs, made, trainers=8)
        replay.run()
        told[name] = summarise(replay, name)
        mean_s = (replay.completed_s - jobs.submitted_s).mean()
        assert told[name].mean_completion_h == pytest.approx(mean_s / 3600.0)
    mean = {name: one.mean_completion_h or np.inf for name, one in told.items()}
    makespan = {name: one.makespan_h or np.inf for name, one in told.items()}
    assert mean["mean"] < 0.85 * mean["adaptive"]
    assert mean["mean"] < mean["makespan"] and makespan["makespan"] < makespan["mean"]


def test_unknown_names_and_horizons_are_refused() -> None:
    with pytest.raises(InvalidOption, match="policy must be one of"):
        policy("best", 60.0)
    with pytest.raises(InvalidOption, match="horizon"):
        policy("freetrain", 0.0)
