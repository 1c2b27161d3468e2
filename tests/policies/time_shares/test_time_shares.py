"""Policies over shares of time: small figures by hand, and properties against programmes of their own."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.cluster.policies.rounds.gavel import cost_with_deadlines, finish_time_fairness, makespan
from apportion.cluster.policies.rounds.shares_problem import IsolatedTime, SharesProblem
from apportion.cluster.policies.rounds.shares_programme import (
    Entity,
    NoShares,
    flat_weights,
    hierarchical_weights,
    programme,
    water_filling,
)
from apportion.core.errors import InvalidOption
from tests.budgets import examples
from tests.policies.time_shares.gavel_formulas import alike_types, max_min_fairness


def problem_of(speeds: list[list[float]], scale: list[int], workers: list[int]) -> SharesProblem:
    return SharesProblem(*(np.array(given, dtype=np.float64) for given in (speeds, scale, workers)))


@st.composite
def problems(draw: st.DrawFn) -> tuple[SharesProblem, np.ndarray]:
    jobs, types = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    speeds = draw(
        st.lists(
            st.lists(st.integers(0, 8), min_size=types, max_size=types).filter(any),
            min_size=jobs,
            max_size=jobs,
        )
    )
    scale = draw(st.lists(st.sampled_from([1, 2, 4]), min_size=jobs, max_size=jobs))
    workers = draw(st.lists(st.integers(1, 6), min_size=types, max_size=types))
    weights = np.array(draw(st.lists(st.integers(1, 4), min_size=jobs, max_size=jobs)), dtype=np.float64)
    return problem_of(speeds, scale, workers), weights


def test_one_fast_type_is_shared_by_whom_it_helps_most() -> None:
    problem = problem_of([[4.0, 1.0], [1.0, 1.0]], [1, 1], [1, 1])
    fair = max_min_fairness(problem, np.ones(2))
    # 4 x / 2.5 = (1 - x) + x = 1 for x <= 5/8, else the second job loses: the first gets the fast type whole
    assert fair.value == pytest.approx(1.0)
    filled = water_filling(problem, flat_weights(np.ones(2)))
    assert filled.levels == pytest.approx([1.6, 1.0])
    assert makespan(problem, np.array([8.0, 2.0])).value == pytest.approx(2.0)


def test_deadlines_are_dropped_only_where_none_can_be_met_together() -> None:
    problem = problem_of([[2.0], [1.0]], [1, 1], [1])
    steps = np.array([10.0, 5.0])
    free = cost_with_deadlines(problem, np.array([4.0]))
    assert (free.value, free.deadlines_met) == (pytest.approx(0.5), True)
    met = cost_with_deadlines(problem, np.array([4.0]), steps, np.array([np.inf, 10.0]))
    assert (met.value, met.deadlines_met) == (pytest.approx(0.375), True)
    dropped = cost_with_deadlines(problem, np.array([4.0]), steps, np.array([np.inf, 4.0]))
    assert (dropped.value, dropped.deadlines_met) == (pytest.approx(0.5), False)
    with pytest.raises(NoShares):
        programme(problem, rising=np.ones(2), least=np.array([2.0, 1.0]))


def test_an_entity_that_serves_first_come_first_gives_all_to_its_first() -> None:
    problem = problem_of([[1.0]] * 4, [1] * 4, [2])
    entities = [Entity(1.0, "fifo"), Entity(1.0, "fairness")]
    weights = hierarchical_weights(entities, np.array([0, 0, 1, 1]), np.ones(4))
    # both entities get one worker: the first job of the first all of it, the others half of one each
    assert water_filling(problem, weights).levels == pytest.approx([1.0, 0.0, 0.5, 0.5], abs=1e-9)


def test_isolated_time_adds_up_over_calls() -> None:
    clock = IsolatedTime()
    assert clock.upto([7], np.array([100.0]), np.array([4.0])).tolist() == [0.0]
    assert clock.upto([7, 8], np.array([80.0, 50.0]), np.array([2.0, 1.0])).tolist() == [5.0, 0.0]
    assert clock.upto([7], np.array([60.0]), np.array([2.0])).tolist() == [15.0]


def test_pairs_of_unlike_scales_never_run() -> None:
    pairs, rates = np.array([[0, 1]]), np.full((1, 2, 1), 9.0)
    given = (np.array([[1.0], [1.0]]), np.array([1.0, 2.0]), np.array([2.0]), pairs, rates)
    found = max_min_fairness(SharesProblem(*given), np.ones(2))
    assert found.shares[2].max() == 0
    alike = SharesProblem(given[0], np.ones(2), np.array([1.0]), pairs, rates)
    assert max_min_fairness(alike, np.ones(2)).value == pytest.approx(9.0)


def test_a_wrong_shape_is_named() -> None:
    with pytest.raises(InvalidOption, match="scale must have the shape"):
        SharesProblem(np.ones((2, 1)), np.ones(3), np.ones(1))
    with pytest.raises(InvalidOption, match="throughput must be finite"):
        SharesProblem(np.full((1, 1), np.nan), np.ones(1), np.ones(1))


@pytest.mark.parametrize("spare", [0.0, 1e-10, 1e-9, 1e-8])
def test_throughputs_that_are_just_reached_are_reached(spare: float) -> None:
    """After its presolve HiGHS 1.13.1 calls two of these programmes infeasible, and all have shares."""
    problem = problem_of([[1, 2], [2, 3]], [4, 4], [4, 2])
    least = np.array([0.375 - spare, 15 / 14 - spare]) * problem.equal_share
    found = programme(problem, rising=problem.equal_share * [1.0, 0.0], least=least)
    assert found.level == pytest.approx(2.75 * spare, abs=1e-9)


@settings(max_examples=examples(25))
@given(problems())
def test_no_job_gains_without_one_at_or_below_it_losing(case: tuple[SharesProblem, np.ndarray]) -> None:
    problem, weights = case
    found = water_filling(problem, flat_weights(weights))
    assert problem.excess(found.shares) <= 1e-6
    prop = problem.equal_share
    assert (problem.rates(found.shares) >= found.levels * prop - 1e-6).all()
    order = found.levels * problem.scale / weights
    assert order.min() == pytest.approx(max_min_fairness(problem, weights).value, rel=1e-6)
    for job in range(problem.num_jobs):
        kept = np.where(order <= order[job] + 1e-7, found.levels - 1e-9, 0.0)
        alone = np.zeros(problem.num_jobs)
        alone[job] = prop[job]
        more = programme(problem, rising=alone, least=np.maximum(0.0, kept) * prop).level
        assert more is not None
        assert more <= 1e-5


@settings(max_examples=examples(25))
@given(problems(), st.randoms())
def test_the_order_of_jobs_changes_no_level(case: tuple[SharesProblem, np.ndarray], random: object) -> None:
    problem, weights = case
    places = list(range(problem.num_jobs))
    random.shuffle(places)  # type: ignore[attr-defined]
    mixed = SharesProblem(problem.throughput[places], problem.scale[places], problem.workers)
    one = water_filling(problem, flat_weights(weights)).levels
    other = water_filling(mixed, flat_weights(weights[places])).levels
    assert other == pytest.approx(one[places], abs=1e-6)


@settings(max_examples=examples(25))
@given(problems(), st.data())
def test_the_finish_time_ratio_is_least(case: tuple[SharesProblem, np.ndarray], data: st.DataObject) -> None:
    problem, _ = case
    size = {"min_size": problem.num_jobs, "max_size": problem.num_jobs}
    steps = np.array(data.draw(st.lists(st.integers(1, 50), **size)), dtype=np.float64)
    since = np.array(data.draw(st.lists(st.integers(0, 20), **size)), dtype=np.float64)
    fair = finish_time_fairness(problem, steps, since)
    assert problem.excess(fair.shares) <= 1e-6
    alone = steps / problem.isolated
    # nobody is worse off than alone where nobody waited: the isolated shares reach 1
    if not since.any():
        assert fair.value <= 1 + 1e-9
    smaller = fair.value * (1 - 1e-5) * alone - since
    if (smaller > 0).all():
        level = programme(problem, rising=steps / smaller).level
        assert level is not None
        assert level < 1


def test_a_policy_without_performance_sees_all_types_alike() -> None:
    problem = problem_of([[4.0, 1.0], [1.0, 2.0]], [1, 2], [1, 1])
    assert alike_types(problem).throughput.tolist() == [[1, 1], [1, 1]]
    assert alike_types(problem, 0).throughput.tolist() == [[4, 4], [1, 1]]
