"""Last bits decide nothing: figures that differ in them alone are the same figure without them."""

from __future__ import annotations

import numpy as np

from apportion.cluster.estimation.profiling import without_last_bits


def test_what_differs_in_the_last_bits_alone_is_the_same() -> None:
    values = np.exp(np.random.default_rng(0).normal(0.0, 9.0, 2000)) * np.tile([1.0, -1.0], 1000)
    same = without_last_bits(values)
    for towards in (np.inf, -np.inf):
        assert np.array_equal(without_last_bits(np.nextafter(values, towards)), same)
    assert np.allclose(same, values, rtol=2e-9, atol=0.0)
    assert np.array_equal(without_last_bits(same), same)


def test_nothing_and_no_figure_stay_as_they_are() -> None:
    assert np.array_equal(without_last_bits(np.array([0.0, np.inf, np.nan])), [0.0, np.inf, np.nan], True)
