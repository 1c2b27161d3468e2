"""The verified bound: outward of the exact one, close to it, and valid."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.models import MultipleChoiceKnapsack, lagrangian
from apportion.models.lagrangian import exact_lagrangian_bound, lagrangian_bound
from apportion.models.multiple_choice import Sense
from tests.budgets import examples
from tests.hunt.case import subject_of
from tests.hunt.draw import drawn
from tests.oracles import enumerate_knapsack
from tests.strategies import knapsacks


@given(knapsacks(max_jobs=4), st.data())
@settings(max_examples=examples(200))
def test_bounds_are_valid_and_rounded_outward(model: MultipleChoiceKnapsack, data: st.DataObject) -> None:
    prices = np.array(
        data.draw(
            st.lists(
                st.floats(0, 50, allow_nan=False),
                min_size=model.num_capacities,
                max_size=model.num_capacities,
            )
        )
    )
    exact, quick = exact_lagrangian_bound(model, prices), lagrangian_bound(model, prices)
    sign = 1 if model.sense == "maximize" else -1
    if quick is not None:
        assert exact is not None
        slack = sign * (Fraction(quick) - exact)
        assert 0 <= slack <= Fraction(2, 10**10) * abs(exact) + Fraction(1, 10**300)
    oracle = enumerate_knapsack(model)
    if oracle is not None:
        assert exact is not None
        assert sign * (float(exact) - oracle[0]) >= -1e-9 * max(1.0, abs(oracle[0]))


def test_unusable_multipliers_give_no_bound() -> None:
    model = MultipleChoiceKnapsack.from_arrays([1.0], [1], [0, 1], [1])
    for prices in ([-1.0], [-5e-324], [np.nan], [np.inf], [1.0, 2.0]):
        assert lagrangian_bound(model, np.array(prices)) is None
    assert lagrangian_bound(model, np.array([0.0])) is not None
    both = MultipleChoiceKnapsack.from_arrays([1.0], [[1, 1]], [0, 1], [1, 1])
    for pair in ([1.0, -1.0], [np.nan, 1.0], [1.0, np.inf], [-1.0, 1.0]):
        assert lagrangian_bound(both, np.array(pair)) is None
    assert lagrangian_bound(both, np.array([0.0, 1.0])) is not None


def test_an_empty_menu_matters_only_to_a_job_that_must_get_something() -> None:
    for required, bound in (([True, False], 7.0), ([False, True], None), ([False, False], 7.0)):
        model = MultipleChoiceKnapsack.from_arrays([5.0], [1], [0, 1, 1], [2], required=required)
        told = lagrangian_bound(model, np.array([2.0]))
        exact = exact_lagrangian_bound(model, np.array([2.0]))
        assert exact == (None if bound is None else 7)
        assert told is None if bound is None else told == pytest.approx(bound, rel=1e-12)


@pytest.mark.parametrize("sense", ["maximize", "minimize"])
def test_a_bound_of_nothing_is_zero_without_a_sign(sense: Sense) -> None:
    model = MultipleChoiceKnapsack.from_arrays([0.0], [0], [0, 1], [0], required=False, sense=sense)
    told = lagrangian_bound(model, np.array([3.0]))
    assert told == 0.0
    assert math.copysign(1.0, told or 0.0) == 1.0


@pytest.mark.parametrize("sense", ["maximize", "minimize"])
def test_rounding_of_the_values_moves_the_bound_outward_until_it_would_show(sense: Sense) -> None:
    model = MultipleChoiceKnapsack.from_arrays([8.0, 4.0], [1, 2], [0, 1, 2], [3], required=True, sense=sense)
    sign = 1 if sense == "maximize" else -1
    prices = np.array([0.5])
    exact = exact_lagrangian_bound(model, prices)
    assert exact == 12
    for error in (1e-12, 5e-10, 1e-9):
        told = lagrangian_bound(model, prices, error)
        assert told is not None
        assert sign * (Fraction(told) - 12) >= Fraction(error)
    assert lagrangian_bound(model, prices, 1.3e-9) is None


def test_menus_cut_into_chunks_anywhere_bound_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every chunk of jobs is met, whatever empty menus lie between."""
    compared = 0
    for number in range(200):
        case = drawn(f"chunks:{number}", ["menus"], ["plain"])
        assert case is not None
        model = subject_of(case)
        prices = np.random.default_rng(number).random(model.num_capacities)
        exact = exact_lagrangian_bound(model, prices)
        for chunk in (1, 2, 3, 1 << 18):
            monkeypatch.setattr(lagrangian, "_CHUNK", chunk)
            quick = lagrangian_bound(model, prices)
            if quick is None or exact is None:
                assert exact is None or quick is None
                continue
            sign = 1 if model.sense == "maximize" else -1
            assert (
                0
                <= sign * (Fraction(quick) - exact)
                <= Fraction(2, 10**10) * abs(exact) + Fraction(1, 10**300)
            )
            compared += 1
    assert compared > 300


def test_prices_beyond_what_doubles_hold_give_no_bound() -> None:
    """Without a warning or an overflow error: the hunt drew such capacities and uses."""
    large = 2**62
    for sense in ("maximize", "minimize"):
        model = MultipleChoiceKnapsack(
            np.array([1.0, 2.0]),
            np.array([[large, 1], [1, large]]),
            np.array([0, 1, 2]),
            np.array([large, large]),
            np.array([True, False]),
            sense,
        )
        assert lagrangian_bound(model, np.array([1e300, 1e300])) is None
        assert lagrangian_bound(model, np.array([3e289, 3e289])) is None


def test_many_chunks_agree_with_one_sum() -> None:
    rng = np.random.default_rng(0)
    jobs, options = 90_000, 8
    model = MultipleChoiceKnapsack.from_arrays(
        rng.random(jobs * options),
        rng.integers(0, 9, jobs * options),
        np.arange(jobs + 1) * options,
        [jobs * 2],
        required=False,
    )
    bound = lagrangian_bound(model, np.array([0.05]))
    worth = (model.values - 0.05 * model.uses[:, 0]).reshape(jobs, options).max(axis=1)
    assert bound is not None
    assert np.isclose(bound, 0.05 * jobs * 2 + np.maximum(worth, 0).sum(), rtol=1e-12)
