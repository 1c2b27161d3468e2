"""A linear model in integers: the same points, exactly, and an objective no further off than it says."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from apportion.models import LinearModel, LinearModelBuilder
from apportion.solvers.general.cp_sat import integers_of, refusal
from tests.solvers.conformance import lp, small, unbounded


def random_model(rng: np.random.Generator) -> LinearModel:
    """Return a small bounded integer model with binary fractions in its rows and any cost."""
    columns, rows = int(rng.integers(1, 5)), int(rng.integers(0, 4))
    lower = rng.integers(-3, 2, columns).astype(np.float64)
    m = LinearModelBuilder(str(rng.choice(["maximize", "minimize"])))  # type: ignore[arg-type]
    x = m.integer("x", (columns,), lower, lower + rng.integers(0, 4, columns) + rng.choice([0.0, 0.5]))
    unit = 2.0 ** -rng.integers(0, 12, (rows, 1))
    low = rng.integers(-20, 10, rows) / 7.0
    high = np.where(rng.random(rows) < 0.3, np.inf, low + rng.integers(0, 40, rows) / 3.0)
    m.between("row", low, (rng.integers(-9, 10, (rows, columns)) * unit) @ x, high)
    size = 10.0 ** rng.integers(-12, 13)
    m.objective((x * (rng.normal(size=columns) * size)).sum() + rng.normal() * size)
    return m.build()


def exact(numbers: np.ndarray, point: tuple[int, ...]) -> Fraction:
    """Return a dot product in rationals."""
    return sum((Fraction(float(a)) * b for a, b in zip(numbers, point, strict=True)), Fraction(0))


def feasible(model: LinearModel, point: tuple[int, ...], rows: np.ndarray) -> bool:
    """Return whether a point meets every row, in rationals."""
    return all(
        (low == -np.inf or exact(row, point) >= Fraction(float(low)))
        and (high == np.inf or exact(row, point) <= Fraction(float(high)))
        for row, low, high in zip(rows, model.row_lower, model.row_upper, strict=True)
    )


@pytest.mark.parametrize("block", range(5))
def test_the_same_points_and_the_stated_error(block: int) -> None:
    rng = np.random.default_rng([11, block])
    for _ in range(40):
        model = random_model(rng)
        assert refusal(model) is None
        whole = integers_of(model)
        rows = model.matrix().toarray()
        scaled = model.matrix().copy()
        scaled.data = whole.data.astype(np.float64)
        scaled_rows = scaled.toarray().astype(np.int64)
        inside = [range(int(a), int(b) + 1) for a, b in zip(whole.lower, whole.upper, strict=True)]
        box = [
            range(int(np.ceil(a)), int(np.floor(b)) + 1)
            for a, b in zip(model.lower, model.upper, strict=True)
        ]
        assert inside == box
        for point in product(*inside):
            activity = scaled_rows @ np.array(point, dtype=np.int64)
            ours = bool(((activity >= whole.row_lower) & (activity <= whole.row_upper)).all())
            assert ours == feasible(model, point, rows)
            claimed = Fraction(int(whole.cost @ np.array(point, dtype=np.int64))) / Fraction(whole.scale)
            assert abs(claimed - exact(model.cost, point)) <= Fraction(whole.error)
        assert np.log2(whole.scale) == int(np.log2(whole.scale)), "a power of two"


def test_whole_costs_are_taken_as_they_are() -> None:
    whole = integers_of(small())
    assert whole.cost.tolist() == [5, 4, 3]
    assert (whole.scale, whole.error) == (1.0, 0.0)


def test_the_error_is_small() -> None:
    """Beside what the objective can reach, less than double arithmetic itself would lose."""
    rng = np.random.default_rng(1)
    for _ in range(50):
        model = random_model(rng)
        reach = float(np.abs(model.cost) @ np.maximum(np.abs(model.lower), np.abs(model.upper)))
        assert integers_of(model).error <= 1e-14 * reach


def test_one_ulp_beyond_a_bound_is_forgiven() -> None:
    """A capacity of 0.1 * 30 is 3 though it computes to a little more or less."""
    model = replace(small(), row_upper=np.array([5.0 - 1e-15]), upper=np.array([1.0, 1.0 - 1e-12, 1.0]))
    whole = integers_of(model)
    assert whole.row_upper.tolist() == [5]
    assert whole.upper.tolist() == [1, 1, 1]


def test_what_cannot_be_written_is_refused_in_words() -> None:
    third = replace(small(), data=np.array([1 / 3, 3.0, 1.0]))
    far = replace(small(), upper=np.array([2.0**50, 1.0, 1.0]))
    reach = replace(small(), data=np.array([2.0**53, 3.0, 1.0]))
    for model, told in (
        (lp(), "continuous"),
        (unbounded(whole=True), "unbounded"),
        (third, "no power of two"),
        (far, "beyond 2**40"),
        (reach, "beyond 2**52"),
        (replace(small(), data=np.array([np.inf, 3.0, 1.0])), "beyond 2**52"),
        (replace(small(), data=np.array([np.nan, 3.0, 1.0])), "no power of two"),
    ):
        reason = refusal(model)
        assert reason is not None and told in reason
