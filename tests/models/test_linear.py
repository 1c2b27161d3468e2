"""The builder, the linear model and the lowering, against scipy and plain loops."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.models import LinearModelBuilder, MultipleChoiceKnapsack
from apportion.models.affine import Affine
from apportion.models.lowering import lower
from tests.budgets import examples
from tests.strategies import knapsacks


def value_of(expression: Affine, x: np.ndarray) -> np.ndarray:
    """Evaluate an expression by a plain loop over its terms."""
    flat = expression.constant.copy()
    for element, column, coefficient in zip(
        expression.element, expression.column, expression.coefficient, strict=True
    ):
        flat[element] += coefficient * x[column]
    return flat.reshape(expression.shape)


X = np.arange(1.0, 13.0) ** 1.5


@pytest.mark.parametrize(
    ("ours", "numpys"),
    [
        (lambda x: x + 1.5, lambda v: v + 1.5),
        (lambda x: 2 - x, lambda v: 2 - v),
        (lambda x: x * np.arange(4.0), lambda v: v * np.arange(4.0)),
        (lambda x: np.arange(3.0)[:, None] * x, lambda v: np.arange(3.0)[:, None] * v),
        (lambda x: x.sum(axis=0), lambda v: v.sum(axis=0)),
        (lambda x: x.sum(axis=1) - x[:, 0], lambda v: v.sum(axis=1) - v[:, 0]),
        (lambda x: x[1:, ::2], lambda v: v[1:, ::2]),
        (lambda x: x[np.array([2, 0, 2])], lambda v: v[np.array([2, 0, 2])]),
        (lambda x: x.sum() + x[0, 0] * 3, lambda v: v.sum() + v[0, 0] * 3),
        (lambda x: x + x[0], lambda v: v + v[0]),
        (lambda x: x.reshape(12)[5:7], lambda v: v.reshape(12)[5:7]),
        (lambda x: np.ones((2, 12)) @ x.reshape(12), lambda v: np.ones((2, 12)) @ v.reshape(12)),
        (
            lambda x: x.reshape(12).segment_sum(np.array([0, 0, 5, 12])),
            lambda v: np.array([0.0, v.ravel()[:5].sum(), v.ravel()[5:].sum()]),
        ),
    ],
)
def test_expressions_mean_what_numpy_means(ours, numpys) -> None:  # type: ignore[no-untyped-def]
    x = Affine.variables(0, (3, 4))
    assert np.allclose(value_of(ours(x), X), numpys(X.reshape(3, 4)))


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=examples(100))
def test_rows_are_what_was_written(seed: int) -> None:
    rng = np.random.default_rng(seed)
    m = LinearModelBuilder("minimize")
    x = m.integer("x", (3, 4), -2, 9)
    y = m.continuous("y", (4,), -np.inf)
    weights = rng.integers(-2, 3, (3, 4)).astype(float)
    m.at_most("mixed", (x * weights).sum(axis=0) - y + y * 2 - y, rng.integers(0, 5, 4))
    m.at_least("twice", x[0] + x[0], 1.0)
    m.equal("balance", x.sum() - y.sum(), 3.0)
    m.objective((x * weights).sum() + 5.0)
    model = m.build()
    point = rng.integers(-3, 10, model.num_columns).astype(float)
    dense = model.matrix().toarray()
    assert np.allclose(model.activity(point), dense @ point)
    grid = point[:12].reshape(3, 4)
    assert np.allclose(dense[:4] @ point, (grid * weights).sum(axis=0))
    assert np.allclose(dense[4:8] @ point, 2 * grid[0])
    assert np.isclose(model.objective(point), (grid * weights).sum() + 5.0)
    assert model.data.all(), "no explicit zeros"
    for row in range(model.num_rows):
        columns = model.indices[model.indptr[row] : model.indptr[row + 1]]
        assert np.unique(columns).size == columns.size, "no duplicates"


def test_a_violation_has_the_name_of_its_row() -> None:
    m = LinearModelBuilder("maximize")
    x = m.binary("x", (2, 2), (["j0", "j1"], ["n0", "n1"]))
    m.at_most("idle_nodes", x.sum(axis=0), 1, (["n0", "n1"],))
    m.objective(x.sum())
    model = m.build()
    report = model.check(np.array([1.0, 0.0, 1.0, 0.5]))
    assert [f"{v.rule}[{v.subject}]" for v in report.violations] == [
        "integer[x[j1,n1]]",
        "row[idle_nodes[n0]]",
    ]
    assert model.column_names() == ["x[j0,n0]", "x[j0,n1]", "x[j1,n0]", "x[j1,n1]"]


def test_names_must_be_new() -> None:
    m = LinearModelBuilder("maximize")
    x = m.binary("x", (2,))
    m.at_most("row", x, 1)
    with pytest.raises(ValueError, match="'x'"):
        m.binary("x", (2,))
    with pytest.raises(ValueError, match="'row'"):
        m.at_most("row", x, 1)


@given(knapsacks())
@settings(max_examples=examples(200))
def test_lowering_keeps_feasibility_and_objective(model: MultipleChoiceKnapsack) -> None:
    lowered = pickle.loads(pickle.dumps(lower(model)))
    rng = np.random.default_rng(1)
    for _ in range(5):
        choice = np.array(
            [
                rng.integers(start, stop) if stop > start and rng.random() < 0.8 else -1
                for start, stop in zip(model.offsets[:-1], model.offsets[1:], strict=True)
            ],
            dtype=np.int64,
        )
        point = lowered.point(choice)
        report = lowered.model.check(point)
        assert report.feasible == model.check(choice).feasible
        assert report.objective is not None
        assert np.isclose(report.objective, model.objective(choice))
        assert (lowered.choice(point) == choice).all()
