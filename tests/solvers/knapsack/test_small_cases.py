"""Thousands of small knapsacks, compared with enumeration and with the plain dynamic program."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from tests.budgets import examples
from tests.oracles import enumerate_knapsack, tabulate_knapsack
from tests.strategies import knapsacks

from apportion.core.options import SolveOptions
from apportion.core.outcome import Outcome, Termination
from apportion.models import MultipleChoiceKnapsack
from apportion.solvers.knapsack import dual, greedy, one_capacity


def random_model(rng: np.random.Generator, max_jobs: int = 5, max_options: int = 5) -> MultipleChoiceKnapsack:
    """Ragged, with ties, zero uses, negative values, empty menus, either sense, any capacity from 0 up."""
    jobs = int(rng.integers(0, max_jobs + 1))
    if rng.random() < 0.3:
        sizes = np.full(jobs, rng.integers(1, max_options + 1))
    else:
        sizes = rng.integers(0 if rng.random() < 0.5 else 1, max_options + 1, jobs)
    total = int(sizes.sum())
    scale = float(rng.choice([1.0, 0.1, 1e-30, 1e15]))
    kind = rng.integers(0, 4)
    values = [
        rng.integers(-5, 20, total).astype(float),
        rng.normal(5, 10, total),
        rng.integers(0, 3, total).astype(float),
        10.0 ** rng.integers(-6, 6, total),
    ][kind]
    top = int(rng.choice([1, 3, 12, 1000, 10**12]))
    uses = rng.integers(0, top + 1, total)
    if rng.random() < 0.2:
        uses *= 2
    if rng.random() < 0.1:
        values = uses.astype(float)
    need = rng.random(jobs) < rng.choice([0.0, 0.5, 1.0])
    capacity = int(rng.integers(0, max(1, int(1.2 * uses.sum() / max_options)) + 2))
    return MultipleChoiceKnapsack.from_arrays(
        values * scale,
        uses,
        np.concatenate(([0], np.cumsum(sizes))),
        [capacity],
        required=need,
        sense="maximize" if rng.random() < 0.5 else "minimize",
    )


def exact_bound(model: MultipleChoiceKnapsack, multiplier: float) -> Fraction:
    """The Lagrangian bound of the model in rational arithmetic, in its own sense."""
    sign = 1 if model.sense == "maximize" else -1
    price = Fraction(multiplier)
    total = price * int(model.capacities[0])
    for job in range(model.num_jobs):
        worths = [] if model.required[job] else [Fraction(0)]
        for row in range(model.offsets[job], model.offsets[job + 1]):
            worths.append(sign * Fraction(float(model.values[row])) - price * int(model.uses[row, 0]))
        total += max(worths)
    return sign * total


def assert_right(model: MultipleChoiceKnapsack, outcome: Outcome) -> None:
    expected = enumerate_knapsack(model)
    if expected is None:
        assert outcome.termination is Termination.INFEASIBLE
        assert outcome.point is None
        return
    assert outcome.termination is Termination.OPTIMAL
    assert outcome.point is not None and outcome.point.dtype == np.int64
    report = model.check(outcome.point)
    assert report.feasible, report.violations
    size = np.abs(model.values).sum()
    assert outcome.objective == report.objective
    assert report.objective == pytest.approx(expected[0], rel=1e-9, abs=1e-13 * size)
    # equal, or apart by what rounding may hide where the objective is 0 and values lie on no grid
    assert outcome.bound == pytest.approx(outcome.objective, rel=0.0, abs=1e-15 * size)
    assert outcome.multipliers is not None and outcome.multipliers[0] >= 0


@pytest.mark.one_in(4)
@pytest.mark.parametrize("seed", range(8))
def test_random_small_cases_match_enumeration(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(300):
        model = random_model(rng)
        assert_right(model, one_capacity.solve(model, SolveOptions(), None))


@settings(max_examples=examples(300))
@given(knapsacks(max_capacities=1))
def test_drawn_cases_match_enumeration_as_a_table_does(model: MultipleChoiceKnapsack) -> None:
    outcome = one_capacity.solve(model, SolveOptions(), None)
    assert_right(model, outcome)
    assert_a_table_is_right(model)


def assert_a_table_is_right(model: MultipleChoiceKnapsack) -> None:
    found, expected = tabulate_knapsack(model), enumerate_knapsack(model)
    assert (found is None) == (expected is None)
    if found is not None and expected is not None:
        assert model.check(found[1]).feasible
        assert found[0] == pytest.approx(expected[0], rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_dual_and_greedy_bracket_the_optimum(seed: int) -> None:
    rng = np.random.default_rng(100 + seed)
    for _ in range(100):
        model = random_model(rng)
        expected = enumerate_knapsack(model)
        choice = greedy.choice(model, float(rng.choice([0.0, 0.5, 1e6])))
        if expected is None:
            assert choice is None
            with pytest.raises(ValueError, match="feasible"):
                dual.multiplier(model)
            continue
        assert choice is not None and model.check(choice).feasible
        price, bound = dual.multiplier(model)
        sign = 1 if model.sense == "maximize" else -1
        assert sign * Fraction(bound) >= sign * exact_bound(model, price)
        size = np.abs(model.values).sum() + price * float(model.capacities[0])
        assert float(abs(Fraction(bound) - exact_bound(model, price))) <= 1e-12 * size
        assert sign * exact_bound(model, price) >= sign * Fraction(expected[0]) - Fraction(1e-12 * size)
        for other in (price * 0.9, price * 1.1, price + 1e-3 * size):
            assert float(sign * (exact_bound(model, other) - exact_bound(model, price))) >= -1e-12 * (
                size + other * float(model.capacities[0])
            )


@pytest.mark.parametrize("seed", range(3))
def test_a_start_is_used_if_it_fits_and_never_hurts(seed: int) -> None:
    rng = np.random.default_rng(200 + seed)
    for _ in range(60):
        model = random_model(rng)
        expected = enumerate_knapsack(model)
        if expected is None:
            continue
        outcome = one_capacity.solve(model, SolveOptions(), expected[1])
        assert_right(model, outcome)
        assert outcome.start_used
        wrong = np.full(model.num_jobs, model.num_options + 3, dtype=np.int64)
        outcome = one_capacity.solve(model, SolveOptions(), wrong)
        assert_right(model, outcome)
        assert outcome.start_used is (model.num_jobs == 0)


@pytest.mark.parametrize("seed", range(4))
def test_preferred_options_win_ties(seed: int) -> None:
    rng = np.random.default_rng(300 + seed)
    for _ in range(80):
        jobs, width = int(rng.integers(1, 5)), int(rng.integers(1, 5))
        model = MultipleChoiceKnapsack.from_arrays(
            rng.integers(0, 3, jobs * width).astype(float),
            rng.integers(0, 4, jobs * width),
            np.arange(jobs + 1) * width,
            [int(rng.integers(0, 2 * jobs))],
            required=rng.random(jobs) < 0.5,
        )
        expected = enumerate_knapsack(model)
        if expected is None:
            continue
        preferred = np.where(
            rng.random(jobs) < 0.8, model.offsets[:-1] + rng.integers(0, width, jobs), -1
        ).astype(np.int64)
        outcome = one_capacity.solve(model, SolveOptions(), None, preferred=preferred)
        assert_right(model, outcome)
        assert outcome.counters.get("tie_break_proven") == 1.0
        assert outcome.point is not None
        assert np.count_nonzero(outcome.point == preferred) == most_kept(model, expected[0], preferred)


def most_kept(model: MultipleChoiceKnapsack, objective: float, preferred: np.ndarray) -> int:
    """The most jobs any optimum keeps at their preferred row, by enumeration."""
    from itertools import product

    menus = [
        ([] if model.required[job] else [-1]) + list(range(model.offsets[job], model.offsets[job + 1]))
        for job in range(model.num_jobs)
    ]
    kept = 0
    for combination in product(*menus):
        choice = np.array(combination, dtype=np.int64)
        if (model.used(choice) <= model.capacities).all() and model.objective(choice) == objective:
            kept = max(kept, int(np.count_nonzero(choice == preferred)))
    return kept


def test_two_capacities_are_refused() -> None:
    from apportion.core.errors import BackendUnavailable

    model = MultipleChoiceKnapsack.from_arrays([1.0], [[1, 1]], [0, 1], [1, 1])
    with pytest.raises(BackendUnavailable, match="capacit"):
        one_capacity.solve(model, SolveOptions(), None)
