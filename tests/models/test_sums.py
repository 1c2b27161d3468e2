"""Sums that cancel, against fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.models.sums import accurate_sum


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
