"""Sums that cancel, against fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from apportion.models.sums import accurate_sum


@given(st.lists(st.sampled_from((1e16, -1e16, 1.0, 0.1, -0.1, 3e-9, 1e-30, 0.0))))
def test_a_sum_is_off_by_next_to_nothing_of_itself(values: list[float]) -> None:
    exact = sum(map(Fraction, values), Fraction(0))
    assert abs(Fraction(accurate_sum(np.array(values))) - exact) <= abs(exact) * Fraction(1, 10**12)
