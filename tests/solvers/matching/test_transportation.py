"""Transportation by flow, by matching and by linear program: one optimum, proven by the same prices."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import apportion
from apportion.core.outcome import Termination
from apportion.models.assignment import Assignment
from apportion.solvers.assignment import linear_assignment
from apportion.solvers.assignment.linear_assignment import classes_of, flow_slots, matching, whole_costs
from tests.budgets import examples
from tests.test_api import close


def alike(
    seed: int, jobs: int, kinds: int, machines: int, goal: str, optional: float, part: int
) -> Assignment:
    """Jobs of a few kinds on machines with several slots, some pairs forbidden."""
    rng = np.random.default_rng(seed)
    table = rng.integers(0, 40, (kinds, machines)) / part
    forbidden = rng.random((kinds, machines)) < 0.2
    forbidden[:, 0] = False
    of = rng.integers(0, kinds, jobs)
    need = rng.random(kinds) >= optional
    allowed = ~forbidden[of]
    return Assignment.from_arrays(
        goal,  # type: ignore[arg-type]
        table[of][allowed],
        np.nonzero(allowed)[1],
        np.concatenate(([0], np.cumsum(allowed.sum(axis=1)))),
        machines,
        uses=2,
        capacities=2 * rng.integers(0, max(2, 3 * jobs // machines), machines),
        limited=rng.random(machines) < 0.9,
        required=need[of],
    )


@given(
    st.integers(0, 10_000),
    st.integers(1, 14),
    st.integers(1, 4),
    st.integers(1, 5),
    st.sampled_from(["cost", "value"]),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.sampled_from([1, 4]),
)
@settings(max_examples=examples(150))
def test_flow_and_matching_agree(
    seed: int, jobs: int, kinds: int, machines: int, goal: str, optional: float, part: int
) -> None:
    model = alike(seed, jobs, kinds, machines, goal, optional, part)
    assert linear_assignment.is_transportation(model)
    by_matching = linear_assignment.solve_slots(model)
    matrix = linear_assignment._matrix(model)
    slots = linear_assignment._slots(model)
    written, by_flow = flow_slots(model, matrix, slots, classes_of(model, matrix))
    assert written
    assert (by_flow is None) == (by_matching is None)
    if by_flow is None or by_matching is None:
        assert apportion.solve(model, backend="highs", time_limit=None).termination is Termination.INFEASIBLE
        return
    assert model.check(by_flow).feasible
    assert model.objective(by_flow) == model.objective(by_matching)
    assert close(
        apportion.solve(model, backend="highs", time_limit=None).objective or 0.0, model.objective(by_flow)
    )


@pytest.mark.parametrize(("goal", "optional"), [("cost", 0.0), ("value", 1.0)])
def test_a_flow_is_taken_where_it_pays_and_is_proven(
    goal: str, optional: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = alike(3, 1500, 12, 6, goal, optional, 4)
    solution = apportion.solve(model)
    assert solution.termination is Termination.OPTIMAL
    assert solution.certificate.verified_bound == pytest.approx(solution.objective, rel=1e-9)
    calls = []
    monkeypatch.setattr(linear_assignment, "flow_slots", lambda *given: calls.append(given) or (False, None))
    other = apportion.solve(model)
    assert calls, "the flow was not asked"
    assert other.objective == solution.objective


def test_only_costs_that_are_exactly_whole_flow() -> None:
    assert whole_costs(np.array([0.25, -3.0]), 10) is not None
    assert whole_costs(np.array([0.25, -3.0]), 10).tolist() == [1, -12]  # type: ignore[union-attr]
    assert whole_costs(np.array([0.1]), 10) is None
    assert whole_costs(np.array([2.0**51]), 10) is None
    tenths = alike(5, 900, 5, 4, "cost", 0.0, 10)
    solution = apportion.solve(tenths)
    assert solution.termination is Termination.OPTIMAL
    assert close(solution.objective or 0.0, apportion.solve(tenths, backend="highs").objective or 0.0)


@pytest.mark.parametrize("shape", [(1, 1), (7, 12), (60, 60)])
def test_the_routine_alone_is_scipys(shape: tuple[int, int]) -> None:
    from scipy.optimize import linear_sum_assignment

    for seed in range(5):
        cost = np.random.default_rng(seed).integers(0, 30, shape).astype(float)
        rows, columns = matching(cost)
        theirs = linear_sum_assignment(cost)
        assert cost[rows, columns].sum() == cost[theirs].sum()
    with pytest.raises(ValueError, match="infeasible"):
        matching(np.full((2, 2), np.inf))


def test_a_linear_assignment_imports_no_optimizer() -> None:
    program = """
import sys, numpy as np, apportion
from apportion.models.assignment import Assignment
costs = np.random.default_rng(0).integers(1, 9, (30, 30)).astype(float)
solution = apportion.solve(Assignment.from_matrix("cost", costs, capacities=1))
assert solution.termination.value == "optimal"
print(sorted(name for name in ("scipy.optimize", "ortools", "highspy", "pandas") if name in sys.modules))
"""
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"


def test_prices_of_dense_and_sparse_tables_prove_the_same() -> None:
    rng = np.random.default_rng(9)
    for density in (1.0, 0.6, 0.15):
        cost = rng.integers(1, 50, (40, 44)).astype(float)
        cost[rng.random(cost.shape) > density] = np.nan
        cost[np.arange(40), np.arange(40)] = 60.0
        solution = apportion.solve(Assignment.from_matrix("cost", cost, capacities=1))
        assert solution.certificate.verified_bound == pytest.approx(solution.objective, rel=1e-9)
