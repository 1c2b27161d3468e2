"""Backends that lie: none of their lies reaches the caller."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import apportion
from apportion.core.options import SolveOptions, Start
from apportion.core.outcome import Outcome, Termination
from apportion.instances import GapFillingInstance
from apportion.models import LinearModel, MultipleChoiceKnapsack
from apportion.solving.registry import Backend
from tests.budgets import examples
from tests.oracles import enumerate_knapsack
from tests.strategies import gap_filling_instances, knapsacks

LIES = (
    "wrong_objective",
    "infeasible_point",
    "bound_too_good",
    "nan_point",
    "nan_bound",
    "wrong_length",
    "wrong_type",
    "claims_infeasible",
    "claims_unbounded",
    "optimal_without_point",
    "raises",
    "negative_multipliers",
    "nan_multipliers",
    "random_point",
    "foreign_rows",
)


def told(lie: str, seed: int, point: Any, bad_point: Any, random_point: Any) -> Outcome:
    """Return the outcome of one kind of lie around an honest point."""
    base: dict[str, Any] = {"termination": Termination.OPTIMAL, "raw_status": lie, "bound_source": "solver"}
    if lie == "raises":
        raise RuntimeError("the solver crashed")
    if lie == "optimal_without_point":
        return Outcome(**base, objective=7.0, bound=7.0)
    if lie == "claims_infeasible":
        return Outcome(**{**base, "termination": Termination.INFEASIBLE})
    if lie == "claims_unbounded":
        return Outcome(**{**base, "termination": Termination.UNBOUNDED})
    base["point"] = {
        "infeasible_point": bad_point,
        "nan_point": None if point is None else np.full(np.shape(point), np.nan),
        "wrong_length": np.zeros(3 + (0 if point is None else len(point))),
        "wrong_type": "optimal",
        "random_point": random_point,
        "foreign_rows": bad_point,
    }.get(lie, point)
    base["objective"] = {"wrong_objective": 1e9}.get(lie, 1.0)
    base["bound"] = {"bound_too_good": -1e12 if seed % 2 else 1e12, "nan_bound": math.nan}.get(lie)
    base["multipliers"] = {
        "negative_multipliers": np.full(1, -1.0),
        "nan_multipliers": np.full(1, np.nan),
    }.get(lie)
    return Outcome(**base)


def knapsack_liar(lie: str, seed: int) -> Backend:
    def solve(model: MultipleChoiceKnapsack, options: SolveOptions, start: Start) -> Outcome:
        rng = np.random.default_rng(seed)
        none = np.full(model.num_jobs, -1, dtype=np.int64)
        bad = np.full(model.num_jobs, model.num_options + 5, dtype=np.int64)
        random = rng.integers(-1, max(model.num_options, 1), model.num_jobs)
        return told(lie, seed, none if start.point is None else start.point, bad, random)

    return Backend("liar", "knapsack", solve)


def linear_liar(lie: str, seed: int) -> Backend:
    def solve(model: LinearModel, options: SolveOptions, start: Any) -> Outcome:
        rng = np.random.default_rng(seed)
        bad = np.full(model.num_columns, 7.5)
        random = rng.integers(0, 2, model.num_columns).astype(np.float64)
        return told(lie, seed, np.zeros(model.num_columns) if start is None else start, bad, random)

    return Backend("liar", "linear", solve)


def assert_no_lie(solution: apportion.Solution, optimum: float | None, maximizes: bool) -> None:
    """What reaches the caller is true: the plan feasible, the objective recomputed, the bounds valid."""
    if solution.plan is not None:
        report = apportion.check(solution.instance, solution.plan)
        assert report.feasible
        assert solution.objective == report.objective
        assert optimum is not None
    else:
        assert solution.objective is None
    assert solution.termination is not Termination.OPTIMAL or solution.gap is not None
    sign = 1.0 if maximizes else -1.0
    tolerance = 1e-9 * max(1.0, abs(optimum or 0.0))
    if solution.certificate.verified_bound is not None and optimum is not None:
        assert sign * (solution.certificate.verified_bound - optimum) >= -tolerance
    if solution.bound is not None:
        assert math.isfinite(solution.bound)
        if solution.objective is not None:
            assert sign * (solution.bound - solution.objective) >= -tolerance


@given(knapsacks(max_jobs=4, max_capacities=1), st.sampled_from(LIES), st.integers(0, 9))
@settings(max_examples=examples(400))
def test_no_lie_about_a_knapsack_reaches_the_caller(
    model: MultipleChoiceKnapsack, lie: str, seed: int
) -> None:
    oracle = enumerate_knapsack(model)
    solution = apportion.solve(model, backend=knapsack_liar(lie, seed))
    assert_no_lie(solution, None if oracle is None else oracle[0], model.sense == "maximize")


@given(gap_filling_instances(), st.sampled_from(LIES), st.integers(0, 9))
@settings(max_examples=examples(400))
def test_a_lying_milp_solver_leaves_the_greedy_plan(
    instance: GapFillingInstance, lie: str, seed: int
) -> None:
    honest = apportion.solve(instance)
    solution = apportion.solve(instance, backend=linear_liar(lie, seed))
    assert solution.plan is not None, "gap filling always has a plan: at worst the greedy one"
    assert_no_lie(solution, honest.objective, maximizes=True)


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_noted_or_harmless(lie: str) -> None:
    model = apportion.MultipleChoiceKnapsack.from_arrays(
        [3.0, 4.0, 2.0], [2, 4, 2], [0, 2, 3], [4], required=True
    )
    solution = apportion.solve(model, backend=knapsack_liar(lie, 1))
    assert solution.termination is not Termination.OPTIMAL
    assert solution.plan is None
    assert solution.notes or solution.termination in (Termination.INFEASIBLE, Termination.UNBOUNDED)
