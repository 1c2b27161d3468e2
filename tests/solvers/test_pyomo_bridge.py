"""The Pyomo model says what the linear model says, and more than one interface works through it."""

from __future__ import annotations

import numpy as np
import pyomo.environ as pyo
import pytest
from hypothesis import given, settings

from apportion.core.errors import BackendUnavailable
from apportion.core.options import SolveOptions
from apportion.core.outcome import Termination
from apportion.models import LinearModel, LinearModelBuilder, MultipleChoiceKnapsack
from apportion.solvers.general import highs, pyomo_bridge
from tests.budgets import examples
from tests.solvers.conformance import lowered, lp, small
from tests.strategies import knapsacks


def mixed() -> LinearModel:
    """Every kind of row and column."""
    m = LinearModelBuilder("minimize")
    x = m.continuous("x", (3,), [-np.inf, -5.0, 2.5], [np.inf, -1.0, 2.5])
    n = m.integer("n", (2,), [-3, 0], [4, 7])
    m.equal("sum", x.sum() + n.sum(), 1.25)
    m.between("both", -2.0, x[0] + n[0], 3.5)
    m.at_least("least", n[0] * 2.0 - n[1], -1.0)
    m.between("free", -np.inf, x[0] + x[1], np.inf)
    m.objective((x * [1.0, 0.5, 2.0]).sum() + (n * [0.1, -0.3]).sum() - 4.5)
    return m.build()


@pytest.mark.parametrize("model", [mixed(), lp(), small()])
def test_rows_columns_and_objective_are_the_same(model: LinearModel) -> None:
    native = pyomo_bridge.to_pyomo(model)
    rng = np.random.default_rng(1)
    for _ in range(5):
        point = rng.integers(-9, 9, model.num_columns).astype(np.float64)
        for column, value in enumerate(point):
            native.x[column].set_value(value, skip_validation=True)
        assert pyo.value(native.objective) == pytest.approx(model.objective(point), abs=1e-12)
        activity = model.activity(point)
        for row, constraint in native.row.items():
            assert pyo.value(constraint.body) == pytest.approx(activity[row], abs=1e-12)
    for column in range(model.num_columns):
        variable = native.x[column]
        assert (variable.lb if variable.lb is not None else -np.inf) == model.lower[column]
        assert (variable.ub if variable.ub is not None else np.inf) == model.upper[column]
        assert variable.is_integer() == model.integer[column]
    for row in range(model.num_rows):
        sides = (model.row_lower[row], model.row_upper[row])
        if np.isinf(sides).all():
            continue  # Pyomo has no row without sides
        low, high = native.row[row].lb, native.row[row].ub
        assert (low if low is not None else -np.inf, high if high is not None else np.inf) == sides
    assert native.objective.sense == (pyo.maximize if model.sense == "maximize" else pyo.minimize)


@pytest.mark.parametrize("solver", ["appsi_highs", "highs"])
def test_either_interface_to_highs_agrees_with_the_arrays(solver: str) -> None:
    own = highs.solve(mixed(), SolveOptions(), None)
    outcome = pyomo_bridge.solve(mixed(), SolveOptions(time_limit=20.0), None, solver)
    assert outcome.termination is Termination.OPTIMAL
    assert outcome.objective == pytest.approx(own.objective, rel=1e-9)


@given(knapsack=knapsacks())
@settings(max_examples=examples(30))
def test_pyomo_and_the_arrays_agree(knapsack: MultipleChoiceKnapsack) -> None:
    model = lowered(knapsack)
    own = highs.solve(model, SolveOptions(), None)
    other = pyomo_bridge.solve(model, SolveOptions(), None, "appsi_highs")
    assert other.termination is own.termination
    if own.objective is not None:
        assert other.objective == pytest.approx(own.objective, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("solver", ["no_such_solver", "cplex_direct"])
def test_a_solver_that_is_not_there_is_named(solver: str) -> None:
    with pytest.raises(BackendUnavailable, match=solver):
        pyomo_bridge.solve(small(), SolveOptions(), None, solver)
