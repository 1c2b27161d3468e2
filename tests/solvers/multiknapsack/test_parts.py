"""The parts of the engine: multipliers against the linear relaxation, repair, reduction, beam, core."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csc_array
from tests.oracles import enumerate_knapsack
from tests.solvers.multiknapsack.test_several_capacities import random_mmkp
from tests.strategies import knapsacks

from apportion.core.options import SolveOptions
from apportion.core.outcome import Termination
from apportion.models import MultipleChoiceKnapsack
from apportion.models.exact_sums import grid
from apportion.models.lowering import lower
from apportion.solvers.multiknapsack import beam, dual, repair
from apportion.solvers.multiknapsack.anytime import without_dominated
from apportion.solvers.multiknapsack.entropic_dual import entropic_dual, freezing_temperature
from apportion.solvers.multiknapsack.option_table import build, reachable
from apportion.solvers.multiknapsack.proving import solve_core
from apportion.solvers.multiknapsack.several_capacities import solve


def relaxation(model: MultipleChoiceKnapsack) -> float:
    """Return the value of the linear relaxation by HiGHS."""
    import highspy

    linear = lower(model).model
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    highs.passModel(
        linear.num_columns, linear.num_rows, linear.num_nonzeros, 2, -1 if linear.sense == "maximize" else 1,
        linear.offset, linear.cost, linear.lower, linear.upper, linear.row_lower, linear.row_upper,
        linear.indptr, linear.indices, linear.data, np.zeros(linear.num_columns, np.int32),
    )  # fmt: skip
    highs.run()
    return float(highs.getInfo().objective_function_value)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("jobs", "options", "capacities"), [(20, 5, 1), (50, 10, 10), (100, 1, 5), (100, 1, 30), (3000, 20, 3)]
)
def test_the_dual_meets_the_linear_relaxation(jobs: int, options: int, capacities: int) -> None:
    model = random_mmkp(jobs, options, capacities, seed=jobs, required=options > 1)
    multipliers, bound = dual.multipliers(model)
    assert (multipliers >= 0).all()
    assert bound == pytest.approx(relaxation(model), rel=1e-6)
    assert bound == dual.model_bound(model, multipliers)


@given(model=knapsacks())
def test_multipliers_bound_every_model_and_repair_stays_feasible(model: MultipleChoiceKnapsack) -> None:
    multipliers, bound = dual.multipliers(model)
    truth = enumerate_knapsack(model)
    sign = 1.0 if model.sense == "maximize" else -1.0
    if truth is not None:
        assert sign * (bound - truth[0]) >= -1e-9 * max(1.0, abs(truth[0]))
    choice = repair.choice(model, multipliers)
    if choice is not None:
        assert model.check(choice).violations == ()
        assert truth is not None


@given(model=knapsacks(), data=st.data())
def test_repair_takes_any_start(model: MultipleChoiceKnapsack, data: st.DataObject) -> None:
    start = np.array(
        [data.draw(st.integers(-1, max(-1, model.num_options - 1))) for _ in range(model.num_jobs)],
        dtype=np.int64,
    )
    choice = repair.choice(model, np.zeros(model.num_capacities), start)
    assert choice is None or model.check(choice).violations == ()


def test_dominated_options_go_and_one_of_equals_stays() -> None:
    model = MultipleChoiceKnapsack.from_arrays(
        values=[5.0, 5.0, 4.0, 6.0, 4.0, 1.0],
        uses=np.array([[2, 2], [2, 2], [2, 3], [5, 1], [1, 9], [6, 9]]),
        offsets=[0, 5, 6],
        capacities=[8, 12],
        required=np.array([True, False]),
    )
    menus = build(model)
    assert menus is not None
    assert without_dominated(menus).rows.tolist() == [0, 3, 4, -1, 5]


@given(model=knapsacks(min_capacities=1))
def test_reductions_keep_an_optimum(model: MultipleChoiceKnapsack) -> None:
    truth = enumerate_knapsack(model)
    menus = build(model)
    if menus is None:
        assert truth is None
        return
    if truth is None or menus.num_jobs == 0:
        return
    weights = np.full(menus.num_capacities, 0.7)
    value = truth[0] if model.sense == "maximize" else -truth[0]
    kept = without_dominated(menus)
    left = kept.keep(reachable(kept, weights, dual.bound_at(menus, weights), value))
    rows = [left.rows[left.offsets[job] : left.offsets[job + 1]].tolist() for job in range(left.num_jobs)]
    assert all(rows)
    best = max(
        (
            sum(
                menus.values[np.flatnonzero((menus.rows == row) & (menus.job == job))[0]]
                for job, row in enumerate(pick)
            )
            for pick in _products(rows)
            if (model.used(np.array(pick, dtype=np.int64)) <= model.capacities).all()
        ),
    )
    assert best == pytest.approx(value)


def _products(rows: list[list[int]]) -> list[tuple[int, ...]]:
    from itertools import product

    return list(product(*rows))


@pytest.mark.parametrize(
    ("values", "step"),
    [
        ([3.0, 9.0], 3.0),
        ([0.5, 2.0], 0.5),
        ([0.1, 0.25], 0.05),
        ([np.pi], 0.0),
        ([], 0.0),
        ([-4.0, 6.0], 2.0),
    ],
)
def test_the_grid_of_values(values: list[float], step: float) -> None:
    assert grid(np.array(values)) == pytest.approx(step)


@pytest.mark.parametrize("seed", range(6))
def test_a_complete_beam_pass_is_a_proof(seed: int) -> None:
    model = random_mmkp(6, 5, 3, seed)
    truth = enumerate_knapsack(model)
    menus = build(model)
    assert truth is not None and menus is not None
    tilt = freezing_temperature(menus, np.zeros(menus.num_capacities))
    order = np.arange(menus.num_jobs)
    found = beam.search(menus, tilt, order, 100_000, None, lambda: False)
    assert found.complete and found.choice is not None
    assert menus.values[found.choice].sum() == truth[0]
    above = beam.search(menus, tilt, order, 100_000, truth[0] + 1, lambda: False)
    assert above.complete and above.choice is None
    narrow = beam.search(menus, tilt, order, 1, None, lambda: False)
    assert not narrow.complete
    assert beam.search(menus, tilt, order, 10, None, lambda: True).choice is None


def test_the_tilt_meets_the_capacities_on_average() -> None:
    menus = build(random_mmkp(40, 8, 4, 2))
    assert menus is not None
    tilt = entropic_dual(menus, np.zeros(4), 2.0)
    assert tilt.mean.sum(axis=1) + 2.0 / tilt.weights == pytest.approx(menus.capacities, rel=1e-3)
    assert np.add.reduceat(tilt.probability, menus.offsets[:-1]) == pytest.approx(np.ones(40))


@given(knapsacks(max_use=400_000_000_000, min_capacities=2))
@pytest.mark.parametrize("is_sparse", [False, True])
def test_whatever_fits_keeps_what_highs_is_given(is_sparse: bool, model: MultipleChoiceKnapsack) -> None:
    """Uses of hundreds of billions: HiGHS's word on whether anything fits is that of enumeration."""
    menus = build(model)
    if menus is None or not menus.num_jobs or not menus.num_capacities:
        return
    if is_sparse:
        menus = replace(menus, matrix=csc_array(menus.matrix))
    feasibility = replace(menus, values=np.zeros(menus.num_options))
    answer = solve_core(feasibility, start=None, seconds=None, nodes=None, step=1.0, threads=1, seed=0)
    best = enumerate_knapsack(model)
    assert answer.infeasible == (answer.choice is None)
    if best is None:
        assert answer.infeasible or not model.fits(menus.rows[answer.choice])
    else:
        assert not answer.infeasible
    exact = solve(model, SolveOptions())
    assert (exact.termination is Termination.INFEASIBLE) == (best is None)
    if best is not None:
        assert exact.objective == pytest.approx(best[0], rel=1e-9)
