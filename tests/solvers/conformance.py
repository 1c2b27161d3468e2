"""The backends under test and the models every one of them must answer alike."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from apportion.models import LinearModel, LinearModelBuilder
from apportion.options import SolveOptions
from apportion.outcome import Outcome, Termination


@dataclass(frozen=True, slots=True)
class Backend:
    """One general backend and what it can be asked for.

    Attributes
    ----------
    name
        As callers name it.
    module
        Where ``solve`` lives.
    extra
        Positional arguments after the start.
    takes_continuous
        Whether it takes continuous or unbounded columns; otherwise it must refuse in words.
    streams
        Whether it reports incumbents on the way, not just the last one.
    takes_starts
        Whether a complete feasible start reaches the solver.
    """

    name: str
    module: str
    extra: tuple[str, ...] = ()
    takes_continuous: bool = True
    streams: bool = True
    takes_starts: bool = True

    def solve(self, model: LinearModel, start: ArrayLike | None = None, **options: Any) -> Outcome:
        """Solve in this process."""
        given = None if start is None else np.asarray(start, dtype=np.float64)
        function = import_module(self.module).solve
        outcome: Outcome = function(model, SolveOptions(**options), given, *self.extra)
        return outcome


BACKENDS = (
    Backend("highs", "apportion.solvers.highs"),
    Backend("cp-sat", "apportion.solvers.cp_sat", takes_continuous=False),
    Backend("scip", "apportion.solvers.scip"),
    Backend(
        "pyomo:appsi_highs",
        "apportion.solvers.pyomo_bridge",
        ("appsi_highs",),
        streams=False,
        takes_starts=False,
    ),
)


def knapsack(factor: float = 1.0, offset: float = 0.0) -> LinearModel:
    """Three items in a sack of 8: the best are the first two, worth ``5 * factor + offset``."""
    m = LinearModelBuilder("maximize")
    x = m.binary("x", (3,))
    m.at_most("weight", (x * [3, 5, 4]).sum(), 8)
    m.objective((x * (np.array([2.0, 3.0, 2.5]) * factor)).sum() + offset)
    return m.build()


def covering() -> LinearModel:
    """Minimise ``4 a + 3 b`` with ``2 a + b >= 5`` in integers up to 9: the optimum is 11 at a=2, b=1."""
    m = LinearModelBuilder("minimize")
    x = m.integer("x", (2,), 0, 9)
    m.at_least("demand", (x * [2, 1]).sum(), 5)
    m.objective((x * [4.0, 3.0]).sum())
    return m.build()


def infeasible() -> LinearModel:
    """Two binaries that must add up to three."""
    m = LinearModelBuilder("maximize")
    x = m.binary("x", (2,))
    m.at_least("too_much", x.sum(), 3)
    m.objective(x.sum())
    return m.build()


def unbounded(*, integer: bool) -> LinearModel:
    """Maximise ``x0 + x1`` with only ``x0 - x1 <= 1`` in the way."""
    m = LinearModelBuilder("maximize")
    x = m.integer("x", (2,)) if integer else m.continuous("x", (2,))
    m.at_most("ahead", x[0] - x[1], 1)
    m.objective(x.sum())
    return m.build()


def linear_program() -> LinearModel:
    """Maximise ``3 x + 2 y`` with ``x + y <= 4``, ``x + 3 y <= 6``: 12 at (4, 0)."""
    m = LinearModelBuilder("maximize")
    x = m.continuous("x", (2,))
    m.at_most("sum", x.sum(), 4)
    m.at_most("mix", (x * [1, 3]).sum(), 6)
    m.objective((x * [3.0, 2.0]).sum())
    return m.build()


def no_columns(upper: float) -> LinearModel:
    """No columns, an offset of 4, and a row ``0 <= upper``."""
    m = LinearModelBuilder("maximize")
    x = m.binary("x", (0,))
    m.at_most("row", x.sum(), upper)
    m.objective(x.sum() + 4.0)
    return m.build()


def no_rows() -> LinearModel:
    """Maximise ``x0 - x1 + 1`` over a box from -3 to 2: 6."""
    m = LinearModelBuilder("maximize")
    x = m.integer("x", (2,), -3, 2)
    m.objective((x * [1.0, -1.0]).sum() + 1.0)
    return m.build()


def duplicates() -> LinearModel:
    """A row and an objective that name the same variable twice: ``x + x + y <= 3``, worth ``x + 2 x + 2 y``."""
    m = LinearModelBuilder("maximize")
    x = m.binary("x", (2,))
    m.at_most("twice", x[0] + x[0] + x[1], 2)
    m.objective(x[0] + x[0] * 2.0 + x[1] * 2.0)
    return m.build()


def ties() -> LinearModel:
    """Choose three of twelve equal items: 220 optima, all worth 3."""
    m = LinearModelBuilder("maximize")
    x = m.binary("x", (12,))
    m.at_most("three", x.sum(), 3)
    m.at_most("three_again", x.sum() * 2.0, 6)
    m.objective(x.sum())
    return m.build()


def hard(num_items: int = 60, num_rows: int = 8, seed: int = 0) -> LinearModel:
    """A multidimensional knapsack with correlated values: minutes to prove, a second to do well."""
    rng = np.random.default_rng(seed)
    uses = rng.integers(1, 1000, (num_rows, num_items)).astype(np.float64)
    m = LinearModelBuilder("maximize")
    x = m.binary("x", (num_items,))
    m.at_most("capacity", uses @ x, np.floor(uses.sum(axis=1) / 2))
    m.objective((x * (uses.mean(axis=0) + rng.integers(0, 100, num_items))).sum())
    return m.build()


def market_split(num_rows: int = 5, num_columns: int = 40, seed: int = 3) -> LinearModel:
    """Subset sums that must all hit half (Cornuejols and Dawande 1998): no solver finds a point soon."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, 100, (num_rows, num_columns)).astype(np.float64)
    m = LinearModelBuilder("minimize")
    x = m.binary("x", (num_columns,))
    m.equal("half", sizes @ x, np.floor(sizes.sum(axis=1) / 2))
    m.objective(x.sum())
    return m.build()


def assert_consistent(model: LinearModel, outcome: Outcome) -> None:
    """What holds for every outcome of an honest backend."""
    assert isinstance(outcome.termination, Termination)
    assert outcome.raw_status
    sign = 1.0 if model.sense == "maximize" else -1.0
    if outcome.point is None:
        assert outcome.objective is None
    else:
        assert outcome.point.dtype == np.float64
        report = model.check(outcome.point)
        assert report.feasible, report.violations
        assert outcome.objective is not None
        assert abs(outcome.objective - model.objective(outcome.point)) <= 1e-9 * max(abs(outcome.objective), 1e-9)
        assert (outcome.point[model.integer] == np.round(outcome.point[model.integer])).all()
    if outcome.bound is not None:
        assert np.isfinite(outcome.bound)
        assert outcome.bound_source is not None
        if outcome.objective is not None:
            slack = 1e-6 * max(abs(outcome.objective), float(np.abs(model.cost).max(initial=0.0)))
            assert sign * outcome.bound >= sign * outcome.objective - slack
    if outcome.termination is Termination.OPTIMAL:
        assert outcome.point is not None
