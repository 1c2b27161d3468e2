"""LP and MPS texts: another reader finds the same model, the same optimum and the same names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import highspy
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.core.options import SolveOptions
from apportion.models import LinearModel, LinearModelBuilder, MultipleChoiceKnapsack
from apportion.models.lowering import lower
from apportion.solvers.general import highs
from apportion.solvers.general.export import legal, readable, to_lp, to_mps
from tests.budgets import examples
from tests.solvers.conformance import hard_knapsack, infeasible, lp, small, unbounded, without_columns
from tests.strategies import knapsacks

WRITERS = {"lp": to_lp, "mps": to_mps}
AWKWARD = (
    "", "free", "End", "inf", "st", "e1", "E", "1a", ".5", "_1", "a b", "a+b-c", "x[j 0,n/3]", "a%b", "%20",
    "é", "a:b", "<=", "a~b", "x(1)", "]", "a\nb", "objective", "%objective", "x", ";", "a#2", "%#2", "[lower",
)  # fmt: skip


def read_back(model: LinearModel, target: str, folder: Path) -> Any:
    path = folder / f"model.{target}"
    path.write_text(WRITERS[target](model))
    native = highspy.Highs()
    native.setOptionValue("output_flag", False)
    assert native.readModel(str(path)) == highspy.HighsStatus.kOk
    return native


def mixed() -> LinearModel:
    """Every kind of row and column: equal, two-sided, one-sided, free; fixed, negative, free, binary."""
    m = LinearModelBuilder("minimize")
    x = m.continuous("x", (4,), [-np.inf, -5.0, 2.5, -np.inf], [np.inf, -1.0, 2.5, 3.0])
    n = m.integer("n", (2,), [-3, 0], [np.inf, 7])
    b = m.binary("b", (2,), (("first one", "2nd"),))
    m.equal("sum", x.sum() + n.sum(), 1.25)
    m.between("both", -2.0, x[0] + b.sum(), 3.5)
    m.at_least("least", n[0] * 2.0 - b[1], -1.0)
    m.at_most("most", x[3] + n[1], 8.0)
    m.between("free", -np.inf, x[0] + x[1], np.inf)
    m.objective((x * [1.0, 0.0, 2.0, -1.0]).sum() + (n * [0.1, 1e-7]).sum() + b.sum() * 3.0 - 4.5)
    return m.build()


@pytest.mark.parametrize("target", WRITERS)
def test_every_kind_of_row_and_column_comes_back(target: str, tmp_path: Path) -> None:
    model = mixed()
    native = read_back(model, target, tmp_path)
    read = native.getLp()
    assert [readable(name) for name in read.col_names_] == model.column_names()
    assert list(read.col_lower_) == model.lower.tolist()
    assert list(read.col_upper_) == model.upper.tolist()
    assert [kind == highspy.HighsVarType.kInteger for kind in read.integrality_] == model.integer.tolist()
    assert read.offset_ == model.offset
    assert list(read.col_cost_) == model.cost.tolist()
    rows = [readable(name) for name in read.row_names_]
    assert list(dict.fromkeys(rows)) == model.row_names()
    sides: dict[str, tuple[float, float]] = {}
    for name, low, high in zip(rows, read.row_lower_, read.row_upper_, strict=True):
        known = sides.get(name, (-np.inf, np.inf))
        sides[name] = (max(low, known[0]), min(high, known[1]))
    assert [sides[name] for name in model.row_names()] == list(
        zip(model.row_lower.tolist(), model.row_upper.tolist(), strict=True)
    )
    native.run()
    own = highs.solve(model, SolveOptions(), None)
    assert own.objective is not None
    assert native.getInfo().objective_function_value == pytest.approx(own.objective, rel=1e-9)


@pytest.mark.parametrize("target", WRITERS)
@given(knapsack=knapsacks())
@settings(max_examples=examples(40))
def test_the_optimum_survives(
    target: str, knapsack: MultipleChoiceKnapsack, tmp_path_factory: pytest.TempPathFactory
) -> None:
    model = lower(knapsack).model
    native = read_back(model, target, tmp_path_factory.mktemp("export"))
    native.run()
    own = highs.solve(model, SolveOptions(), None)
    if own.objective is None:
        assert native.getModelStatus() == highspy.HighsModelStatus.kInfeasible
    else:
        assert native.getInfo().objective_function_value == pytest.approx(own.objective, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("target", WRITERS)
@pytest.mark.parametrize(
    "model",
    [
        small(), infeasible(), lp(), unbounded(whole=True), hard_knapsack(), without_columns(-1, 1),
        without_columns(1, 2), replace(small(), cost=np.zeros(3)), replace(small(), offset=-0.1),
    ],
)  # fmt: skip
def test_every_text_is_readable(target: str, model: LinearModel, tmp_path: Path) -> None:
    native = read_back(model, target, tmp_path)
    names = [readable(name) for name in native.getLp().col_names_]
    assert names == (model.column_names() or names[:1])


@pytest.mark.parametrize("target", WRITERS)
@pytest.mark.parametrize(("side", "status"), [(1, "kOptimal"), (-1, "kInfeasible")])
def test_rows_without_columns_still_count(target: str, side: float, status: str, tmp_path: Path) -> None:
    native = read_back(without_columns(min(side, 0) - 1, side), target, tmp_path)
    native.run()
    assert native.getModelStatus() == getattr(highspy.HighsModelStatus, status)


@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_names_come_back(name: str) -> None:
    assert readable(legal(name)) == name


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_name_comes_back(name: str) -> None:
    assert readable(legal(name)) == name
    assert readable(f"{legal(name)}%#7") == name


@pytest.mark.parametrize("target", WRITERS)
def test_awkward_names_are_read(target: str, tmp_path: Path) -> None:
    """Keywords, leading digits and equal names used to end a file early or be confused."""
    m = LinearModelBuilder("maximize")
    for index, name in enumerate(AWKWARD):
        x = m.binary(name, ())
        m.at_most(name, x * 2.0, 1.0 + index)
    y = m.binary("y", (2,), (("same", "same"),))
    m.at_most("y", y.sum(), 1.0)
    m.objective(y.sum())
    model = m.build()
    read = read_back(model, target, tmp_path).getLp()
    assert [readable(name) for name in read.col_names_] == model.column_names()
    assert [readable(name) for name in read.row_names_] == model.row_names()
    assert len(set(read.col_names_)) == model.num_columns


def test_the_text_is_the_same_every_time() -> None:
    assert to_lp(mixed()) == to_lp(mixed())
    assert to_mps(mixed()) == to_mps(mixed())
