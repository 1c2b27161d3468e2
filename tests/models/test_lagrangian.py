"""The verified bound: outward of the exact one, close to it, and valid."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.models import MultipleChoiceKnapsack
from apportion.models.lagrangian import exact_lagrangian_bound, lagrangian_bound
from tests.oracles import enumerate_knapsack
from tests.strategies import knapsacks


@given(knapsacks(max_jobs=4), st.data())
@settings(max_examples=500)
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
    for prices in ([-1.0], [np.nan], [np.inf], [1.0, 2.0]):
        assert lagrangian_bound(model, np.array(prices)) is None


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
