"""The general backends under test, and the models the conformance suite asks them about."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from apportion.core.options import SolveOptions
from apportion.core.outcome import Outcome
from apportion.models import LinearModel, LinearModelBuilder, MultipleChoiceKnapsack, Sense
from apportion.models.lowering import lower


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
    work_limit
        A limit in its own units that a hard model does not end within; ``None`` if it takes none.
    continuous
        Whether it takes continuous and unbounded variables; otherwise it must refuse in words.
    partial_starts
        What it says of a partial start: whether it was handed on.
    streams
        Whether incumbents are reported on the way, not only at the end.
    """

    name: str
    module: str
    extra: tuple[str, ...] = ()
    work_limit: float | None = 1.0
    continuous: bool = True
    partial_starts: bool = True
    streams: bool = True

    def solve(self, model: LinearModel, options: SolveOptions, start: Any, observe: Any = None) -> Outcome:
        """Solve in this process."""
        solve = import_module(self.module).solve
        outcome: Outcome = solve(model, options, start, *self.extra, observe=observe)
        return outcome


BACKENDS = (
    Backend("highs", "apportion.solvers.general.highs"),
    Backend("cp-sat", "apportion.solvers.general.cp_sat", work_limit=0.05, continuous=False),
    Backend("scip", "apportion.solvers.general.scip"),
    Backend(
        "pyomo:appsi_highs",
        "apportion.solvers.general.pyomo_bridge",
        ("appsi_highs",),
        work_limit=None,
        partial_starts=False,
        streams=False,
    ),
)


def knapsack_rows(
    values: ArrayLike, uses: ArrayLike, side: float, sense: Sense = "maximize", offset: float = 0.0
) -> LinearModel:
    """Choose items of some value under a capacity, or, minimising, to meet a demand."""
    value, use = np.asarray(values, dtype=np.float64), np.asarray(uses, dtype=np.float64)
    m = LinearModelBuilder(sense)
    x = m.binary("x", (value.size,))
    (m.at_most if sense == "maximize" else m.at_least)("weight", (x * use).sum(), side)
    m.objective((x * value).sum() + offset)
    return m.build()


def small() -> LinearModel:
    """Three items in a sack of 5: the best are the first two, worth 9."""
    return knapsack_rows([5.0, 4.0, 3.0], [2, 3, 1], 5)


def infeasible() -> LinearModel:
    """Two binaries that must add up to three."""
    m = LinearModelBuilder("maximize")
    x = m.binary("x", (2,))
    m.at_least("too_much", x.sum(), 3)
    m.objective(x.sum())
    return m.build()


def unbounded(*, whole: bool) -> LinearModel:
    """Maximise ``x0 + x1`` with only ``x0 - x1 <= 1`` in the way."""
    m = LinearModelBuilder("maximize")
    x = m.integer("x", (2,)) if whole else m.continuous("x", (2,))
    m.at_most("ahead", x[0] - x[1], 1)
    m.objective(x.sum())
    return m.build()


def lp() -> LinearModel:
    """Maximise ``3 x + 2 y`` with ``x + y <= 4`` and ``x <= 3.5``: 11.5 at (3.5, 0.5)."""
    m = LinearModelBuilder("maximize")
    x = m.continuous("x", (2,))
    m.at_most("sum", x.sum(), 4)
    m.at_most("first", x[0], 3.5)
    m.objective((x * [3.0, 2.0]).sum())
    return m.build()


def without_columns(low: float, high: float) -> LinearModel:
    """No columns, an offset of 7.5 and a row ``low <= 0 <= high``."""
    m = LinearModelBuilder("maximize")
    x = m.continuous("x", (0,))
    m.between("row", low, x.sum(), high)
    m.objective(x.sum() + 7.5)
    return m.build()


def hard_knapsack(columns: int = 60, rows: int = 5, seed: int = 0) -> LinearModel:
    """A multidimensional knapsack whose values follow the uses: quick to do well, long to prove."""
    rng = np.random.default_rng(seed)
    uses = rng.integers(1, 1000, (rows, columns)).astype(np.float64)
    m = LinearModelBuilder("maximize")
    x = m.binary("x", (columns,))
    m.at_most("capacity", uses @ x, np.floor(uses.sum(axis=1) / 2))
    m.objective((x * (np.floor(uses.mean(axis=0)) + rng.integers(0, 100, columns))).sum())
    return m.build()


def market_split(rows: int = 5, columns: int = 40, seed: int = 3) -> LinearModel:
    """Subset sums that must all hit half (Cornuejols and Dawande 1998): no solver finds a point soon."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, 100, (rows, columns)).astype(np.float64)
    m = LinearModelBuilder("minimize")
    x = m.binary("x", (columns,))
    m.equal("half", sizes @ x, np.floor(sizes.sum(axis=1) / 2))
    m.objective(x.sum())
    return m.build()


def lowered(knapsack: MultipleChoiceKnapsack) -> LinearModel:
    """The linear model of a multiple-choice knapsack."""
    return lower(knapsack).model


def random_menus(rng: np.random.Generator) -> MultipleChoiceKnapsack:
    """A small random knapsack: either sense, ties, ragged and empty menus, tight and loose capacities."""
    jobs, capacities = int(rng.integers(1, 5)), int(rng.integers(1, 4))
    sizes = rng.integers(0, 5, jobs)
    total = int(sizes.sum())
    values = rng.integers(-20, 60, total) / rng.choice([1, 4, 1000])
    return MultipleChoiceKnapsack.from_arrays(
        values=np.round(values, 3),
        uses=rng.integers(0, 12, (total, capacities)),
        offsets=np.concatenate(([0], np.cumsum(sizes))),
        capacities=rng.integers(0, 10 * jobs, capacities),
        required=(sizes > 0) & (rng.random(jobs) < 0.5),
        sense="maximize" if rng.random() < 0.5 else "minimize",
    )
