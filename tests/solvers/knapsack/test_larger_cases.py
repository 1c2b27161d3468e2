"""Medium and hard knapsacks, compared with the plain dynamic program and with HiGHS on the lowered model."""

from __future__ import annotations

import highspy
import numpy as np
import pytest
from tests.oracles import tabulate_knapsack

from apportion.core.options import SolveOptions
from apportion.core.outcome import Termination
from apportion.instances.multiple_choice_knapsack.generator import generate
from apportion.models import MultipleChoiceKnapsack
from apportion.models.lowering import lower
from apportion.solvers.knapsack import one_capacity


def pisinger(
    kind: str, jobs: int, width: int, reach: int, seed: int, share: float = 0.5
) -> MultipleChoiceKnapsack:
    """Menus after the classes of Pisinger's generators; integer values and uses up to about `reach`."""
    rng = np.random.default_rng(seed)
    uses = rng.integers(1, reach + 1, (jobs, width))
    if kind == "uncorrelated":
        values = rng.integers(1, reach + 1, (jobs, width))
    elif kind == "weakly correlated":
        values = np.maximum(uses + rng.integers(-10, 11, (jobs, width)), 1)
    elif kind == "strongly correlated":
        uses = np.cumsum(rng.integers(1, reach // width + 2, (jobs, width)), axis=1)
        values = np.cumsum(np.sort(rng.integers(1, reach // width + 2, (jobs, width)), axis=1) + 10, axis=1)
    elif kind == "fixed charge":
        values = uses + 10
    elif kind == "subset sum":
        values = uses
    elif kind == "even subset sum":
        uses = 2 * uses
        values = uses
    else:
        uses, values = np.sort(uses, axis=1), np.sort(rng.integers(1, reach + 1, (jobs, width)), axis=1)
    least, most = int(uses.min(axis=1).sum()), int(uses.max(axis=1).sum())
    capacity = (least + int(share * (most - least))) | 1
    return MultipleChoiceKnapsack.from_arrays(
        values.ravel().astype(float), uses.ravel(), np.arange(jobs + 1) * width, [capacity]
    )


KINDS = (
    "uncorrelated",
    "weakly correlated",
    "strongly correlated",
    "fixed charge",
    "subset sum",
    "even subset sum",
    "zigzag",
)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share", [0.1, 0.5])
def test_hard_classes_match_a_table(kind: str, share: float) -> None:
    for seed in range(4):
        model = pisinger(kind, 40, 8, 300, seed, share)
        outcome = one_capacity.solve(model, SolveOptions(), None)
        assert outcome.termination is Termination.OPTIMAL
        assert outcome.point is not None and model.check(outcome.point).feasible
        known = tabulate_knapsack(model)
        assert known is not None and outcome.objective == known[0] == outcome.bound


@pytest.mark.parametrize("seed", range(12))
def test_ragged_medium_cases_match_a_table(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, 30, 80)
    total = int(sizes.sum())
    sense = "maximize" if seed % 2 else "minimize"
    sign = 1.0 if seed % 2 else -1.0
    uses = rng.integers(0, 40, total)
    values = sign * (uses ** rng.uniform(0.5, 1.2) * rng.uniform(0.5, 1.5, total) + (seed % 3) * 5)
    if seed % 4 == 0:
        values = np.rint(values)
    model = MultipleChoiceKnapsack.from_arrays(
        values,
        uses,
        np.concatenate(([0], np.cumsum(sizes))),
        [int(rng.integers(500, 1500))],
        required=(rng.random(80) < 0.5) & (sizes > 0),
        sense=sense,
    )
    outcome = one_capacity.solve(model, SolveOptions(), None)
    assert outcome.termination is Termination.OPTIMAL
    assert outcome.point is not None and model.check(outcome.point).feasible
    known = tabulate_knapsack(model)
    assert known is not None and outcome.objective == pytest.approx(known[0], rel=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_large_enough_for_the_small_core_first(seed: int) -> None:
    rng = np.random.default_rng(seed)
    jobs, width = 900, 30
    uses = np.tile(np.arange(width), jobs)
    curve = np.concatenate(([0.0], np.cumsum(rng.uniform(0.2, 2.0, width - 1))))
    rates = curve if seed < 2 else rng.uniform(0.8, 1.2, (jobs, 1)) * curve
    values = np.broadcast_to(rates, (jobs, width)) - (seed % 2) * rng.uniform(0, 2, (jobs, 1)) * (
        np.arange(width) != rng.integers(0, width, (jobs, 1))
    )
    model = MultipleChoiceKnapsack.from_arrays(
        values.ravel(), uses, np.arange(jobs + 1) * width, [4001], required=True
    )
    outcome = one_capacity.solve(model, SolveOptions(), None)
    assert outcome.termination is Termination.OPTIMAL
    known = tabulate_knapsack(model)
    assert known is not None and outcome.objective == pytest.approx(known[0], rel=1e-12)


def test_a_large_model_is_close_to_its_certificate() -> None:
    rng = np.random.default_rng(3)
    jobs, width = 60_000, 8
    model = MultipleChoiceKnapsack.from_arrays(
        rng.random(jobs * width) * 100,
        rng.integers(0, 1000, jobs * width),
        np.arange(jobs + 1) * width,
        [jobs * 250],
        required=rng.random(jobs) < 0.5,
    )
    outcome = one_capacity.solve(model, SolveOptions(gap=1e-6), None)
    assert outcome.termination in (Termination.OPTIMAL, Termination.GAP_REACHED)
    assert outcome.objective is not None and outcome.bound is not None and outcome.point is not None
    assert model.check(outcome.point).feasible
    assert 0 <= outcome.bound - outcome.objective <= 1e-6 * outcome.objective
    proven = one_capacity.solve(model, SolveOptions(), None)
    assert proven.termination is Termination.OPTIMAL
    assert proven.objective is not None and outcome.objective <= proven.objective <= outcome.bound


@pytest.mark.parametrize("seed", range(6))
def test_matches_highs_on_the_lowered_model(seed: int) -> None:
    rng = np.random.default_rng(40 + seed)
    sizes = rng.integers(1, 12, 25)
    total = int(sizes.sum())
    model = MultipleChoiceKnapsack.from_arrays(
        rng.normal(10, 20, total),
        rng.integers(0, 10**6, total),
        np.concatenate(([0], np.cumsum(sizes))),
        [int(rng.integers(4 * 10**6, 10**7))],
        required=rng.random(25) < 0.4,
        sense="maximize" if seed % 2 else "minimize",
    )
    outcome = one_capacity.solve(model, SolveOptions(), None)
    linear = lower(model).model
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("mip_rel_gap", 0.0)
    problem = highspy.HighsLp()
    problem.num_col_, problem.num_row_ = linear.num_columns, linear.num_rows
    problem.col_cost_, problem.col_lower_, problem.col_upper_ = linear.cost, linear.lower, linear.upper
    problem.row_lower_, problem.row_upper_ = linear.row_lower, linear.row_upper
    problem.integrality_ = [highspy.HighsVarType.kInteger] * linear.num_columns
    problem.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    problem.a_matrix_.start_, problem.a_matrix_.index_ = linear.indptr, linear.indices
    problem.a_matrix_.value_ = linear.data
    problem.sense_ = highspy.ObjSense.kMaximize if seed % 2 else highspy.ObjSense.kMinimize
    assert highs.passModel(problem) == highspy.HighsStatus.kOk
    highs.run()
    if outcome.termination is Termination.INFEASIBLE:
        assert highs.getModelStatus() == highspy.HighsModelStatus.kInfeasible
        return
    assert highs.getModelStatus() == highspy.HighsModelStatus.kOptimal
    assert outcome.objective == pytest.approx(highs.getInfo().objective_function_value, rel=1e-6)


def test_uses_of_any_size() -> None:
    rng = np.random.default_rng(5)
    for reach in (10**6, 10**9, 10**12):
        uses = rng.integers(0, reach, 60)
        values = rng.random(60) * 10
        offsets = np.arange(16) * 4
        small = MultipleChoiceKnapsack.from_arrays(values, uses, offsets, [int(uses.sum() // 5)])
        outcome = one_capacity.solve(small, SolveOptions(), None)
        factor = 997
        large = MultipleChoiceKnapsack.from_arrays(
            values, uses * factor, offsets, [int(uses.sum() // 5) * factor + factor - 1]
        )
        again = one_capacity.solve(large, SolveOptions(), None)
        assert outcome.termination is again.termination is Termination.OPTIMAL
        assert outcome.objective == again.objective


@pytest.mark.parametrize("seed", range(5))
def test_values_that_are_uses_and_bonuses_are_proved(seed: int) -> None:
    """Beside the optimum no point of the lattice of uses and values is left; the states ended by memory."""
    made = generate(seed, "strongly_correlated", 10_000, 10)
    model = MultipleChoiceKnapsack.from_arrays(**made._asdict())
    outcome = one_capacity.solve(model, SolveOptions(work_limit=1e8))
    assert outcome.termination is Termination.OPTIMAL and outcome.bound == outcome.objective
    assert outcome.point is not None and model.check(outcome.point).feasible


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("unit", [(1.0, 10.0), (3.0, 7.0), (0.5, 5.0), (1.0, 0.0), (0.25, 2.5), (-1.0, 3.0)])
def test_lattices_of_uses_and_values_match_a_table(unit: tuple[float, float], seed: int) -> None:
    rng = np.random.default_rng(seed)
    jobs, width = int(rng.integers(10, 60)), int(rng.integers(1, 5))
    uses = int(rng.integers(1, 3)) * np.cumsum(rng.integers(1, 30, (jobs, width)), axis=1)
    values = unit[0] * uses + unit[1] * rng.integers(0, 5, (jobs, width))
    required = rng.random(jobs) < 0.4
    spare = int(rng.random() * 0.6 * uses.max(axis=1).sum())
    model = MultipleChoiceKnapsack.from_arrays(
        values.ravel(),
        uses.reshape(-1, 1),
        np.arange(jobs + 1) * width,
        [int(uses.min(axis=1)[required].sum()) + spare],
        required=required,
        sense="maximize" if seed % 2 else "minimize",
    )
    outcome, known = one_capacity.solve(model, SolveOptions()), tabulate_knapsack(model)
    assert outcome.termination is Termination.OPTIMAL and known is not None
    assert outcome.objective == known[0] == outcome.bound
