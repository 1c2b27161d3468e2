"""One suite for every general backend: each runs each case, and where it may not answer it must refuse."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from apportion.core.errors import ApportionError
from apportion.core.options import Incumbent, SolveOptions
from apportion.core.outcome import Outcome, Termination
from apportion.models import LinearModel, LinearModelBuilder, MultipleChoiceKnapsack
from tests.budgets import examples
from tests.oracles import enumerate_knapsack
from tests.patience import patience
from tests.solvers.conformance import (
    BACKENDS,
    Backend,
    hard_knapsack,
    infeasible,
    knapsack_rows,
    lowered,
    lp,
    market_split,
    random_menus,
    small,
    unbounded,
    without_columns,
)
from tests.strategies import knapsacks

pytestmark = pytest.mark.parametrize("backend", BACKENDS, ids=lambda backend: backend.name)

RANDOM = 600
"""Random instances per backend; hypothesis adds its own."""


def assert_consistent(model: LinearModel, outcome: Outcome) -> None:
    """The point is feasible, the objective is its own, and the bound lies on the right side of it."""
    assert isinstance(outcome.termination, Termination)
    assert outcome.raw_status
    if outcome.point is None:
        assert outcome.objective is None
    else:
        report = model.check(outcome.point)
        assert report.feasible, report.violations
        assert outcome.objective == report.objective
    if outcome.bound is not None:
        assert math.isfinite(outcome.bound)
        assert outcome.bound_source is not None
        if outcome.objective is not None:
            sign = 1.0 if model.sense == "maximize" else -1.0
            largest = float(np.abs(model.cost).max(initial=0.0))
            assert sign * (outcome.bound - outcome.objective) >= -1e-6 * max(abs(outcome.objective), largest)


def solved(backend: Backend, model: LinearModel, start: Any = None, **options: Any) -> Outcome:
    outcome = backend.solve(model, SolveOptions(**options), start)
    assert_consistent(model, outcome)
    return outcome


def test_optimal(backend: Backend) -> None:
    outcome = solved(backend, small())
    assert outcome.termination is Termination.OPTIMAL
    assert outcome.objective == 9.0
    assert outcome.bound == pytest.approx(9.0)
    assert outcome.point is not None and outcome.point.tolist() == [1.0, 1.0, 0.0]
    assert outcome.start_used is None


def test_minimise(backend: Backend) -> None:
    outcome = solved(backend, knapsack_rows([5, 4, 3], [2, 3, 1], 4, "minimize"))
    assert (outcome.termination, outcome.objective) == (Termination.OPTIMAL, 7.0)


def test_feasible_at_a_work_limit(backend: Backend) -> None:
    if backend.work_limit is None:
        outcome = solved(backend, small(), work_limit=1)
        assert outcome.objective == 9.0, "a limit the bridge cannot pass on changes no answer"
        return
    model = hard_knapsack()
    start = np.zeros(model.num_columns)
    outcome = solved(backend, model, start, work_limit=backend.work_limit)
    again = solved(backend, model, start, work_limit=backend.work_limit)
    assert outcome.termination is Termination.NODE_LIMIT
    assert outcome.objective is not None
    assert (outcome.objective, outcome.bound) == (again.objective, again.bound)


@pytest.mark.one_in(4)
def test_feasible_at_a_time_limit(backend: Backend) -> None:
    model = hard_knapsack(columns=120, rows=10)
    began = time.perf_counter()
    limit = patience(0.4)
    outcome = solved(backend, model, np.zeros(model.num_columns), time_limit=limit)
    assert time.perf_counter() - began < patience(3.0) + limit
    assert outcome.termination is Termination.TIME_LIMIT
    assert outcome.objective is not None and outcome.objective > 0.0


def test_a_limit_with_no_incumbent(backend: Backend) -> None:
    limits: dict[str, float] = {"time_limit": 0.4}
    if backend.work_limit is not None:
        limits = {"work_limit": backend.work_limit}
    outcome = solved(backend, market_split(), **limits)
    expected = Termination.TIME_LIMIT if backend.work_limit is None else Termination.NODE_LIMIT
    assert outcome.termination is expected
    assert outcome.point is None and outcome.objective is None


def test_infeasible(backend: Backend) -> None:
    outcome = solved(backend, infeasible())
    assert outcome.termination is Termination.INFEASIBLE
    assert outcome.point is None and outcome.bound is None


@pytest.mark.parametrize("whole", [False, True])
def test_unbounded(backend: Backend, whole: bool) -> None:
    outcome = backend.solve(unbounded(whole=whole), SolveOptions(time_limit=5.0), None)
    if not backend.continuous:
        assert outcome.termination is Termination.ERROR
        assert "continuous variables" in outcome.raw_status or "unbounded variables" in outcome.raw_status
        return
    assert outcome.termination in (Termination.UNBOUNDED, Termination.INFEASIBLE_OR_UNBOUNDED)
    assert outcome.bound is None


def test_an_lp_without_integers(backend: Backend) -> None:
    outcome = solved(backend, lp())
    if not backend.continuous:
        assert outcome.termination is Termination.ERROR
        assert "continuous variables" in outcome.raw_status
        return
    assert outcome.termination is Termination.OPTIMAL
    assert outcome.objective == pytest.approx(11.5)
    assert outcome.bound == pytest.approx(11.5)


@pytest.mark.parametrize(
    ("low", "high", "feasible"), [(-1, 1, True), (0, 0, True), (1, 2, False), (-2, -1, False)]
)
def test_no_columns(backend: Backend, low: float, high: float, feasible: bool) -> None:
    outcome = solved(backend, without_columns(low, high))
    if feasible:
        assert (outcome.termination, outcome.objective, outcome.bound) == (Termination.OPTIMAL, 7.5, 7.5)
    else:
        assert outcome.termination is Termination.INFEASIBLE


def test_no_rows(backend: Backend) -> None:
    m = LinearModelBuilder("maximize")
    x = m.integer("x", (2,), lower=-3, upper=4)
    m.objective((x * [2.0, -1.0]).sum())
    outcome = solved(backend, m.build())
    assert (outcome.termination, outcome.objective) == (Termination.OPTIMAL, 11.0)


def test_no_rows_and_no_objective(backend: Backend) -> None:
    m = LinearModelBuilder("minimize")
    m.binary("x", (2,))
    outcome = solved(backend, m.build())
    assert (outcome.termination, outcome.objective) == (Termination.OPTIMAL, 0.0)


@pytest.mark.parametrize("feasible", [True, False])
def test_a_row_without_terms(backend: Backend, feasible: bool) -> None:
    m = LinearModelBuilder("maximize")
    x = m.binary("x", (2,))
    m.at_most("nothing", (x * 0.0).sum(), 1.0 if feasible else -1.0)
    m.objective(x.sum())
    outcome = solved(backend, m.build())
    assert outcome.termination is (Termination.OPTIMAL if feasible else Termination.INFEASIBLE)


def test_bounds_with_nothing_between(backend: Backend) -> None:
    m = LinearModelBuilder("maximize")
    x = m.integer("x", (2,), lower=[0.4, 0], upper=[0.6, 1])
    m.objective(x.sum())
    assert solved(backend, m.build()).termination is Termination.INFEASIBLE
    crossed = replace(small(), lower=np.array([0.0, 2.0, 0.0]))
    assert solved(backend, crossed).termination is Termination.INFEASIBLE


@pytest.mark.parametrize("place", ["cost", "data", "row_upper", "upper"])
def test_nan_is_an_error(backend: Backend, place: str) -> None:
    model = small()
    values = np.array(getattr(model, place))
    values[0] = np.nan
    outcome = backend.solve(replace(model, **{place: values}), SolveOptions(), None)
    assert outcome.termination is Termination.ERROR
    assert place in outcome.raw_status
    assert outcome.point is None


def test_a_bad_option_is_an_error(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    from apportion.solvers.general import cp_sat_call, highs_call, pyomo_bridge, scip

    if backend.name == "highs":
        original = highs_call.set_option
        monkeypatch.setattr(
            highs_call, "set_option", lambda native, name, value: original(native, name + "x", value)
        )
    elif backend.name == "scip":
        from ortools.math_opt.python import mathopt

        monkeypatch.setattr(
            scip, "_parameters", lambda options, left: mathopt.SolveParameters(iteration_limit=3)
        )
    elif backend.name == "cp-sat":

        def bad(limits: Any) -> Any:
            from ortools.sat.python import cp_model

            solver = cp_model.CpSolver()
            solver.parameters.num_workers = -5
            return solver

        monkeypatch.setattr(cp_sat_call, "_configured", bad)
    else:

        def wrong(solver: Any, options: SolveOptions) -> None:
            solver.highs_options = {"no_such_option": 1}
            solver.config.no_such_option = 1

        monkeypatch.setattr(pyomo_bridge, "_configure", wrong)
    try:
        outcome = backend.solve(small(), SolveOptions(), None)
    except (ApportionError, ValueError, AttributeError) as error:
        assert str(error)
    else:
        assert outcome.termination is Termination.ERROR
        assert outcome.raw_status


def test_a_complete_start(backend: Backend) -> None:
    outcome = solved(backend, small(), np.array([1.0, 1.0, 0.0]))
    assert outcome.start_used is True
    assert outcome.objective == 9.0


@pytest.mark.one_in(4)
def test_a_complete_start_is_never_lost(backend: Backend) -> None:
    model = hard_knapsack(columns=120, rows=10)
    best = solved(backend, model, time_limit=0.5)
    assert best.point is not None and best.objective is not None
    outcome = solved(backend, model, best.point, time_limit=0.01)
    assert outcome.objective is not None and outcome.objective >= best.objective


def test_a_partial_start(backend: Backend) -> None:
    outcome = solved(backend, small(), np.array([np.nan, 1.0, np.nan]))
    assert outcome.start_used is backend.partial_starts
    assert (outcome.termination, outcome.objective) == (Termination.OPTIMAL, 9.0)


@pytest.mark.parametrize(
    "start", [[1.0, 1.0, 1.0], [0.5, 0.0, 0.0], [2.0, 0.0, 0.0], [np.inf, 0.0, 0.0], [0.0], [np.nan] * 3]
)
def test_an_infeasible_start(backend: Backend, start: list[float]) -> None:
    outcome = solved(backend, small(), np.array(start))
    assert outcome.start_used is False
    assert (outcome.termination, outcome.objective) == (Termination.OPTIMAL, 9.0)


def test_a_partial_start_outside_the_box(backend: Backend) -> None:
    outcome = solved(backend, small(), np.array([7.0, np.nan, np.nan]))
    assert (outcome.termination, outcome.objective) == (Termination.OPTIMAL, 9.0)


def test_duplicate_entries(backend: Backend) -> None:
    m = LinearModelBuilder("maximize")
    x = m.binary("x", (2,))
    m.at_most("twice", x[0] + x[0] + x[1] + x[0] - x[1], 2)
    m.objective(x[0] + x[1] + x[0])
    outcome = solved(backend, m.build())
    assert (outcome.termination, outcome.objective) == (Termination.OPTIMAL, 1.0)


def test_degenerate_ties(backend: Backend) -> None:
    outcome = solved(backend, knapsack_rows(np.ones(30), np.ones(30), 15))
    assert (outcome.termination, outcome.objective) == (Termination.OPTIMAL, 15.0)
    assert outcome.bound == pytest.approx(15.0)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("offset", [0.0, -14000.0, 1e7])
def test_the_gap_is_honoured(backend: Backend, offset: float) -> None:
    model = replace(hard_knapsack(columns=30), offset=offset)
    outcome = solved(backend, model, gap=0.02, time_limit=patience(20.0))
    assert outcome.termination in (Termination.OPTIMAL, Termination.GAP_REACHED)
    assert outcome.objective is not None and outcome.bound is not None
    gap = abs(outcome.bound - outcome.objective) / abs(outcome.objective)
    assert gap <= 0.02 + 1e-9
    assert (outcome.termination is Termination.OPTIMAL) == (gap <= 1e-9)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("sense", ["maximize", "minimize"])
def test_incumbents_only_improve(backend: Backend, sense: str) -> None:
    model = hard_knapsack(columns=60)
    if sense == "minimize":
        model = replace(model, sense=sense, cost=-model.cost)
    told: list[Incumbent] = []
    outcome = solved(backend, model, time_limit=0.5, on_incumbent=told.append)
    assert told
    sign = 1.0 if sense == "maximize" else -1.0
    assert all(sign * later.objective > sign * earlier.objective for earlier, later in pairwise(told))
    assert all(later.seconds >= earlier.seconds >= 0.0 for earlier, later in pairwise(told))
    assert outcome.objective is not None and sign * outcome.objective >= sign * told[-1].objective
    for incumbent in told:
        assert incumbent.bound is None or sign * (incumbent.bound - incumbent.objective) >= -1e-6


@pytest.mark.one_in(4)
def test_observe_gets_the_points(backend: Backend) -> None:
    model = hard_knapsack(columns=25)
    seen: list[tuple[Any, ...]] = []
    backend.solve(model, SolveOptions(time_limit=5.0), None, lambda *told: seen.append(told))
    points = [told for told in seen if told[0] is not None]
    assert points
    for point, objective, _, _ in points:
        report = model.check(point)
        assert report.feasible and report.objective == objective


class Stop(Exception):
    """Raised in a callback."""


@pytest.mark.one_in(5)
@pytest.mark.parametrize("error", [Stop("enough"), OSError("no pipe"), KeyboardInterrupt()], ids=repr)
def test_an_exception_in_the_callback_stops_the_solve(backend: Backend, error: BaseException) -> None:
    def stop(incumbent: Incumbent) -> None:
        raise error

    # who tells of its last point alone must come to an end first, on a busy machine too
    model = hard_knapsack(columns=120, rows=10) if backend.streams else hard_knapsack(columns=15)
    began = time.perf_counter()
    with pytest.raises(type(error)) as caught:
        backend.solve(
            model, SolveOptions(time_limit=8.0 if backend.streams else 60.0, on_incumbent=stop), None
        )
    assert caught.value is error
    assert time.perf_counter() - began < patience(5.0)


def test_stdout_stays_empty(backend: Backend, capfd: pytest.CaptureFixture[str]) -> None:
    backend.solve(small(), SolveOptions(on_incumbent=lambda incumbent: None), None)
    backend.solve(infeasible(), SolveOptions(), None)
    backend.solve(hard_knapsack(), SolveOptions(time_limit=0.2), None)
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("unit", [1e-12, 1e-9, 1e9, 1e12])
def test_tiny_and_huge_objectives(backend: Backend, unit: float) -> None:
    values = np.array([5.0, 4.0, 3.0, 2.5, 1.0]) * unit
    outcome = solved(backend, knapsack_rows(values, [2, 3, 1, 2, 2], 5))
    assert outcome.termination is Termination.OPTIMAL
    assert outcome.objective == pytest.approx(10.5 * unit, rel=1e-12)
    assert outcome.bound == pytest.approx(10.5 * unit, rel=1e-6)


@pytest.mark.parametrize("offset", [-3.25, 0.1, 1e6 + 0.5])
def test_the_offset_counts(backend: Backend, offset: float) -> None:
    outcome = solved(backend, knapsack_rows([5.0, 4.0, 3.0], [2, 3, 1], 5, offset=offset))
    assert outcome.termination is Termination.OPTIMAL
    assert outcome.objective == pytest.approx(9.0 + offset, rel=1e-12)
    assert outcome.bound == pytest.approx(9.0 + offset, rel=1e-7)


def agree(backend: Backend, knapsack: MultipleChoiceKnapsack) -> None:
    oracle = enumerate_knapsack(knapsack)
    model = lowered(knapsack)
    outcome = solved(backend, model)
    if oracle is None:
        assert outcome.termination is Termination.INFEASIBLE
        return
    assert outcome.termination is Termination.OPTIMAL
    assert outcome.objective == pytest.approx(oracle[0], rel=1e-9, abs=1e-9)
    assert outcome.bound == pytest.approx(oracle[0], rel=1e-6, abs=1e-6)


@pytest.mark.one_in(4)
def test_every_random_instance_agrees_with_enumeration(backend: Backend) -> None:
    rng = np.random.default_rng([7, BACKENDS.index(backend)])
    for _ in range(examples(RANDOM)):
        agree(backend, random_menus(rng))


@pytest.mark.one_in(2)
@given(knapsack=knapsacks())
@settings(max_examples=examples(60))
def test_every_drawn_instance_agrees_with_enumeration(
    backend: Backend, knapsack: MultipleChoiceKnapsack
) -> None:
    agree(backend, knapsack)
