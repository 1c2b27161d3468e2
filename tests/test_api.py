"""The whole call: compile, solve, check, certify; and what the caller may rely on."""

from __future__ import annotations

import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import apportion
from apportion.core.outcome import Termination
from apportion.formulations.gap_filling.by_count import GapFillingByCount
from apportion.instances import GapFillingInstance, MultipleChoiceKnapsackInstance
from apportion.instances.kinds import kind_of
from apportion.models import MultipleChoiceKnapsack
from tests.budgets import examples
from tests.oracles import enumerate_knapsack
from tests.strategies import gap_filling_instances, knapsack_instances, knapsacks


def close(left: float, right: float) -> bool:
    return abs(left - right) <= 1e-9 * max(1.0, abs(left), abs(right))


def assert_certified(solution: apportion.Solution) -> None:
    """A plan is feasible by the checker, and the verified bound follows exactly from the multipliers."""
    kind = kind_of(solution.instance)
    report = kind.check(solution.instance, solution.plan)
    assert report.feasible
    assert report.objective == solution.objective
    certificate = solution.certificate
    assert certificate.verified_bound is not None
    assert certificate.multipliers is not None
    exact = kind.exact_bound(solution.instance, certificate.multipliers)
    assert exact is not None
    sign = 1 if kind.maximizes(solution.instance) else -1
    slack = sign * (Fraction(certificate.verified_bound) - exact)
    assert 0 <= slack <= Fraction(1, 10**9) * abs(exact) + Fraction(5, 10**324)
    assert sign * (exact - kind.exact_objective(solution.instance, solution.plan)) >= 0


@given(gap_filling_instances(pins=True))
@settings(max_examples=examples(300))
def test_gap_filling_is_optimal_checked_and_certified(instance: GapFillingInstance) -> None:
    oracle = enumerate_knapsack(GapFillingByCount(instance).model)
    solution = apportion.solve(instance)
    if oracle is None:
        assert solution.termination is Termination.INFEASIBLE
        assert solution.plan is None
        return
    assert solution.termination is Termination.OPTIMAL
    assert solution.objective is not None
    assert close(solution.objective, oracle[0])
    assert_certified(solution)


@given(knapsack_instances())
@settings(max_examples=examples(300))
def test_menus_are_solved_optimally_checked_and_certified(instance: MultipleChoiceKnapsackInstance) -> None:
    from apportion.formulations.multiple_choice import MenuFormulation

    oracle = enumerate_knapsack(MenuFormulation(instance).model)
    solution = apportion.solve(instance)
    if oracle is None:
        assert solution.termination is Termination.INFEASIBLE
        assert solution.plan is None
        return
    assert solution.termination is Termination.OPTIMAL
    assert solution.objective is not None
    assert close(solution.objective, oracle[0])
    assert_certified(solution)


@given(knapsacks())
@settings(max_examples=examples(300))
def test_bare_arrays_are_solved_as_an_instance_is(model: MultipleChoiceKnapsack) -> None:
    oracle = enumerate_knapsack(model)
    solution = apportion.solve(model)
    if oracle is None:
        assert solution.termination is Termination.INFEASIBLE
        return
    assert isinstance(solution.plan, np.ndarray)
    assert solution.plan.dtype == np.int64
    assert solution.termination is Termination.OPTIMAL
    assert close(model.objective(solution.plan), oracle[0])


@given(gap_filling_instances(), st.randoms(use_true_random=False))
@settings(max_examples=examples(100))
def test_job_order_is_irrelevant_to_the_objective(
    instance: GapFillingInstance, random: st.DataObject
) -> None:
    jobs = list(instance.jobs)
    random.shuffle(jobs)  # type: ignore[attr-defined]
    shuffled = GapFillingInstance("1", instance.horizon_s, instance.nodes, tuple(jobs), instance.name)
    first, second = apportion.solve(instance), apportion.solve(shuffled)
    assert close(first.require() and first.objective, second.objective)


@given(gap_filling_instances())
@settings(max_examples=examples(100))
def test_units_of_time_are_irrelevant(instance: GapFillingInstance) -> None:
    """Milliseconds instead of seconds: rates fall by 1000, durations grow by 1000, samples stay."""
    import msgspec

    jobs = tuple(
        msgspec.structs.replace(
            job,
            scaling=apportion.ScalingCurve(
                job.scaling.nodes, tuple(rate / 1000 for rate in job.scaling.rate)
            ),
            rescale_up_s=job.rescale_up_s * 1000,
            rescale_down_s=job.rescale_down_s * 1000,
        )
        for job in instance.jobs
    )
    slower = GapFillingInstance("1", instance.horizon_s * 1000, instance.nodes, jobs, instance.name)
    first, second = apportion.solve(instance), apportion.solve(slower)
    assert first.objective is not None
    assert second.objective is not None
    assert close(first.objective, second.objective)


@given(gap_filling_instances())
@settings(max_examples=examples(100))
def test_one_more_idle_node_is_never_worse(instance: GapFillingInstance) -> None:
    wider = GapFillingInstance("1", instance.horizon_s, (*instance.nodes, "one more"), instance.jobs)
    first, second = apportion.solve(instance), apportion.solve(wider)
    assert first.objective is not None
    assert second.objective is not None
    assert second.objective >= first.objective - 1e-9 * max(1.0, abs(first.objective))


@given(gap_filling_instances(), st.sampled_from([0.0, 1e-3, 0.1, 0.5]))
@settings(max_examples=examples(100))
def test_the_gap_is_honoured(instance: GapFillingInstance, gap: float) -> None:
    solution = apportion.solve(instance, gap=gap)
    assert solution.gap is not None
    assert solution.gap <= max(gap, 1e-9)


@given(gap_filling_instances())
@settings(max_examples=examples(50))
def test_instances_and_solutions_survive_pickling(instance: GapFillingInstance) -> None:
    assert pickle.loads(pickle.dumps(instance)) == instance
    solution = apportion.solve(instance)
    again = pickle.loads(pickle.dumps(solution))
    assert again.plan == solution.plan
    assert again.certificate == solution.certificate


def test_a_missing_plan_raises_on_require() -> None:
    model = apportion.MultipleChoiceKnapsack.from_arrays([1.0], [5], [0, 1], [4], required=True)
    solution = apportion.solve(model)
    assert solution.termination is Termination.INFEASIBLE
    with pytest.raises(apportion.NoPlan, match="infeasible"):
        solution.require()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("time_limit", 0.0),
        ("time_limit", float("nan")),
        ("gap", -1.0),
        ("threads", 0),
        ("seed", -1),
        ("work_limit", -3),
        ("deterministic", 1),
    ],
)
def test_a_bad_option_is_named(field: str, value: object) -> None:
    model = apportion.MultipleChoiceKnapsack.from_arrays([1.0], [1], [0, 1], [1])
    with pytest.raises(apportion.InvalidOption, match=field):
        apportion.solve(model, **{field: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("backend", ["gurobi", np.array(["auto", "highs"]), None, 3])
def test_an_unknown_backend_is_refused(backend: Any) -> None:
    model = apportion.MultipleChoiceKnapsack.from_arrays([1.0], [1], [0, 1], [1])
    with pytest.raises(apportion.BackendUnavailable, match=r"gurobi|a backend is a name"):
        apportion.solve(model, backend=backend)


def test_auto_says_why_it_chose() -> None:
    model = apportion.MultipleChoiceKnapsack.from_arrays([1.0], [1], [0, 1], [1])
    solution = apportion.solve(model)
    assert solution.backend == "exact"
    assert "multiple-choice knapsack" in solution.reason


@given(gap_filling_instances(), gap_filling_instances())
@settings(max_examples=examples(100))
def test_any_earlier_answer_is_a_harmless_warm_start(
    now: GapFillingInstance, then: GapFillingInstance
) -> None:
    """A plan of another machine state is repaired or dropped; the optimum stays the same."""
    from apportion.io import stored

    earlier = apportion.solve(then)
    cold = apportion.solve(now)
    for given_start in (earlier, earlier.plan, stored.document(earlier), {"plan": None}, {"x": 1}, [1, 2]):
        warm = apportion.solve(now, warm_start=given_start)
        assert warm.termination is Termination.OPTIMAL
        assert cold.objective is not None
        assert warm.objective is not None
        assert close(cold.objective, warm.objective)
