"""Powers of two that bring a model's numbers to where solvers' absolute tolerances mean little.

An objective of 1e-9 is noise to a solver that prunes at 1e-6, one of 1e15 all resolution. Multiplying by a
power of two rounds nothing, so the scaled model has exactly the optima of the given one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from apportion.core.options import Incumbent, SolveOptions
from apportion.core.outcome import Outcome
from apportion.models.exact_sums import grid
from apportion.models.linear import LinearModel

__all__ = [
    "Scaling",
    "extreme_scale",
    "power_of_two_scale",
    "scaling_of",
    "unscaled",
    "with_callback_in_own_unit",
]

_TARGET = 16
"""Binary exponent of the largest number after scaling: 1e-6 then is 1.5e-11 of it."""
_LARGEST = 2.0**20
"""Whole numbers up to here stay as they are: solvers use it that they are whole."""
_EXTREME = 2.0**400
"""Numbers beyond this, or all below its reciprocal, are scaled even where squares and quotients are not."""
_WHOLE_ROW = 2.0**40
"""Rows of whole numbers up to here stay as they are: one unit too much then is far beyond any tolerance."""


@dataclass(frozen=True, slots=True, eq=False)
class Scaling:
    """What a linear model is multiplied by before a solver sees it.

    Attributes
    ----------
    objective
        Factor of the costs and the offset.
    columns
        float64 [columns]: what one unit of the scaled column is in the model's own; 1 for integer columns.
    rows
        float64 [rows]: factors of the rows.
    step
        The objective less its offset is a multiple of this, in the model's own unit; 0 where none is known.
    """

    objective: float
    columns: NDArray[np.float64]
    rows: NDArray[np.float64]
    step: float

    def cost(self, model: LinearModel) -> NDArray[np.float64]:
        """Return the scaled costs."""
        return np.ascontiguousarray(model.cost * self.columns * self.objective)

    def data(self, model: LinearModel) -> NDArray[np.float64]:
        """Return the scaled matrix."""
        row = np.repeat(np.arange(model.num_rows), np.diff(model.indptr))
        return np.ascontiguousarray(model.data * self.columns[model.indices] * self.rows[row])


def scaling_of(model: LinearModel) -> Scaling:
    """Return powers of two for the rows, then the continuous columns, then the objective of a model.

    A row is scaled by its largest coefficient of an integer column, or of any where there is none; a
    continuous column so that its largest coefficient is about that of its row.
    """
    size = np.abs(model.data)
    row = np.repeat(np.arange(model.num_rows), np.diff(model.indptr))
    whole = model.integer[model.indices]
    largest, any_integer = _largest(size[whole], row[whole], model.num_rows)
    of_all, _ = _largest(size, row, model.num_rows)
    largest = np.where(any_integer, largest, of_all)
    odd = np.zeros(model.num_rows, dtype=np.bool_)
    odd[row[size != np.rint(size)]] = True
    rows = np.where(odd | (largest > _WHOLE_ROW), _towards(largest), 1.0)
    columns = np.ones(model.num_columns)
    moved = ~model.integer
    if moved.any() and (rows != 1.0).any():
        top, found = _largest(size * rows[row], model.indices, model.num_columns)
        home = np.zeros(model.num_columns)
        np.maximum.at(home, model.indices, (largest * rows)[row])
        wanted = np.exp2(np.rint(np.log2(np.where(found, home, 1.0) / np.where(found, top, 1.0))))
        columns = np.where(moved & found, wanted, 1.0)
    stepped = _stepped(model)
    scale = power_of_two_scale(model.cost * columns, stepped)
    return Scaling(scale, columns, rows, grid(model.cost) if stepped else 0.0)


def _stepped(model: LinearModel) -> bool:
    """Return whether only integer columns cost anything: whole costs then make whole steps."""
    return bool((model.integer | (model.cost == 0)).all())


def power_of_two_scale(cost: NDArray[np.float64], stepped: bool = True) -> float:
    """Return a power of two that brings the largest cost to about 2**16.

    1 where all are moderate and whole and, by `stepped`, no continuous column costs anything.
    """
    largest = float(np.abs(cost).max()) if cost.size else 0.0
    if largest == 0.0 or (stepped and largest <= _LARGEST and bool((cost == np.rint(cost)).all())):
        return 1.0
    return float(2.0 ** min(1023, _TARGET - int(np.frexp(largest)[1])))


def _towards(largest: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.exp2(_TARGET - np.frexp(np.where(largest > 0, largest, 1.0))[1].astype(np.float64))


def _largest(
    size: NDArray[np.float64], at: NDArray[np.int64] | NDArray[np.int32], length: int
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the largest of the numbers at each place, and where there is any that is not 0."""
    top = np.zeros(length)
    np.maximum.at(top, at, size)
    return top, top > 0


def extreme_scale(values: NDArray[np.float64]) -> float:
    """Return a power of two that brings values near the ends of the doubles to about 2**16, else 1."""
    largest = float(np.abs(values).max(initial=0.0))
    if largest == 0.0 or 1.0 / _EXTREME <= largest <= _EXTREME:
        return 1.0
    return float(2.0 ** min(1023, _TARGET - int(np.frexp(largest)[1])))


def with_callback_in_own_unit(options: SolveOptions, scale: float) -> SolveOptions:
    """Return options whose callback hears the objectives of a scaled model in the model's own unit."""
    tell = options.on_incumbent
    if tell is None:
        return options

    def report(found: Incumbent) -> None:
        bound = None if found.bound is None else found.bound / scale
        tell(Incumbent(found.objective / scale, bound, found.seconds))

    return replace(options, on_incumbent=report)


def unscaled(outcome: Outcome, scale: float) -> Outcome:
    """Return the outcome of a model whose values were multiplied by a scale, in the model's own unit."""
    tree = outcome.tree
    return replace(
        outcome,
        tree=None if tree is None else replace(tree, unit=tree.unit / Fraction(scale)),
        objective=None if outcome.objective is None else outcome.objective / scale,
        bound=None if outcome.bound is None else outcome.bound / scale,
        multipliers=None if outcome.multipliers is None else outcome.multipliers / scale,
        row_multipliers=None if outcome.row_multipliers is None else outcome.row_multipliers / scale,
    )
