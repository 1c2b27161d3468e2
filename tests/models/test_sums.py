"""Sums that cancel, against fractions."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.models.exact_sums import accurate_sum, exact_sum


@given(st.lists(st.sampled_from((1e16, -1e16, 1.0, 0.1, -0.1, 3e-9, 1e-30, 0.0))))
def test_a_sum_is_off_by_next_to_nothing_of_itself(values: list[float]) -> None:
    exact = sum(map(Fraction, values), Fraction(0))
    assert abs(Fraction(accurate_sum(np.array(values))) - exact) <= abs(exact) * Fraction(1, 10**12)


@pytest.mark.parametrize("size", [3, 1000, 4097])
@pytest.mark.parametrize("left", [0.0, 1.0, 1e-3, 1e9])
def test_what_is_left_of_a_sum_that_cancels_is_right(size: int, left: float) -> None:
    rng = np.random.default_rng(size)
    half = rng.random(size) * 10.0 ** rng.integers(0, 16, size)
    values = rng.permutation(np.concatenate((half, -half, [left])))
    exact = sum(map(Fraction, values.tolist()), Fraction(0))
    assert exact == Fraction(left)
    assert abs(Fraction(accurate_sum(values)) - exact) <= abs(exact) * Fraction(1, 10**13)


def test_a_sum_that_does_not_cancel_is_not_added_up_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    def slowly(values: object) -> float:
        raise AssertionError("added up one by one")

    monkeypatch.setattr(math, "fsum", slowly)
    for values in (np.ones(100), np.linspace(1e-30, 1e-20, 50), np.zeros(0), np.zeros(9), -np.ones(2)):
        assert accurate_sum(values) == values.sum()


@pytest.mark.parametrize("size", [451, 1 << 14, (1 << 14) + 1, 100_000])
@pytest.mark.parametrize("spread", [0, 3, 40, 280])
def test_a_long_sum_is_rounded_once(size: int, spread: int) -> None:
    rng = np.random.default_rng(size + spread)
    values = rng.standard_normal(size) * 10.0 ** rng.integers(-spread, spread + 1, size)
    values[:: size // 7] *= -1.0
    assert accurate_sum(values) == math.fsum(values.tolist())
    assert accurate_sum(np.concatenate((values, -values[1:]))) == values[0]


@pytest.mark.parametrize("magnitude", [5e-324, 1e-300, 1e300])
def test_a_long_sum_of_extreme_values_is_rounded_once(magnitude: float) -> None:
    values = np.random.default_rng(0).integers(-9, 10, 2_000) * magnitude
    assert accurate_sum(values) == math.fsum(values.tolist())
    assert accurate_sum(np.zeros(2_000)) == 0.0


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_long_sum_with_one_small_value_of_the_other_sign_is_rounded_once(sign: float) -> None:
    values = np.append(np.random.default_rng(0).random(5_000) * 1e9, -1e-9) * sign
    assert accurate_sum(values) == math.fsum(values.tolist())


def test_values_near_the_greatest_double_cancel() -> None:
    assert accurate_sum(np.append(np.resize([1.5e306, -1.5e306], 2_000), 7.0)) == 7.0


def test_many_ones_add_up() -> None:
    assert accurate_sum(np.ones(20_000)) == 20_000.0


def test_a_long_sum_is_not_added_up_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(0).random(100_000)
    exact, asked = math.fsum(values.tolist()), []

    def counted(terms: list[float], fsum: Callable[[list[float]], float] = math.fsum) -> float:
        asked.append(len(terms))
        return fsum(terms)

    monkeypatch.setattr(math, "fsum", counted)
    assert accurate_sum(values) == exact
    assert len(asked) == 1 and asked[0] < 50


@given(values=st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=40))
def test_a_sum_in_fractions_is_exact(values: list[float]) -> None:
    assert exact_sum(np.array(values)) == sum(map(Fraction, values), Fraction(0))
