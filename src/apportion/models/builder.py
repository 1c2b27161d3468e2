"""The builder a formulation is written with: named variable blocks and named constraint families."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from apportion.choices import one_of
from apportion.models.affine import Affine
from apportion.models.linear import Block, LinearModel
from apportion.models.multiple_choice import Sense

__all__ = ["LinearModelBuilder"]

Labels = tuple[Sequence[str], ...]


class LinearModelBuilder:
    """Collect variables and constraints, then `build` one `LinearModel`.

    Parameters
    ----------
    sense
        ``"maximize"`` or ``"minimize"``.

    Examples
    --------
    A knapsack with two items:

    >>> m = LinearModelBuilder("maximize")
    >>> x = m.binary("x", (2,))
    >>> m.at_most("weight", (x * [3, 5]).sum(), 6)
    >>> m.objective((x * [2.0, 3.0]).sum())
    >>> model = m.build()
    >>> model.num_columns, model.num_rows, model.row_names()
    (2, 1, ['weight'])
    """

    def __init__(self, sense: Sense) -> None:
        one_of("sense", sense, ("maximize", "minimize"))
        self._sense: Sense = sense
        self._columns = 0
        self._num_rows = 0
        self._variables: list[Block] = []
        self._bounds: list[tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]] = []
        self._rows: list[Block] = []
        self._row_terms: list[Affine] = []
        self._row_bounds: list[tuple[NDArray[np.float64], NDArray[np.float64]]] = []
        self._objective = Affine.constants(0.0)

    def binary(self, name: str, shape: tuple[int, ...], labels: Labels | None = None) -> Affine:
        """Add a block of 0-1 variables."""
        return self._add(name, shape, labels, 0.0, 1.0, integer=True)

    def integer(
        self,
        name: str,
        shape: tuple[int, ...],
        lower: ArrayLike = 0.0,
        upper: ArrayLike = np.inf,
        labels: Labels | None = None,
    ) -> Affine:
        """Add a block of integer variables."""
        return self._add(name, shape, labels, lower, upper, integer=True)

    def continuous(
        self,
        name: str,
        shape: tuple[int, ...],
        lower: ArrayLike = 0.0,
        upper: ArrayLike = np.inf,
        labels: Labels | None = None,
    ) -> Affine:
        """Add a block of continuous variables."""
        return self._add(name, shape, labels, lower, upper, integer=False)

    def at_most(
        self, name: str, left: Affine, right: Affine | ArrayLike, labels: Labels | None = None
    ) -> None:
        """Add the constraint family ``left <= right``, one row per element."""
        self._constrain(name, left - right, -np.inf, 0.0, labels)

    def at_least(
        self, name: str, left: Affine, right: Affine | ArrayLike, labels: Labels | None = None
    ) -> None:
        """Add the constraint family ``left >= right``, one row per element."""
        self._constrain(name, left - right, 0.0, np.inf, labels)

    def equal(self, name: str, left: Affine, right: Affine | ArrayLike, labels: Labels | None = None) -> None:
        """Add the constraint family ``left = right``, one row per element."""
        self._constrain(name, left - right, 0.0, 0.0, labels)

    def between(
        self, name: str, lower: ArrayLike, middle: Affine, upper: ArrayLike, labels: Labels | None = None
    ) -> None:
        """Add the constraint family ``lower <= middle <= upper``, one row per element."""
        self._constrain(name, middle, lower, upper, labels)

    def objective(self, expression: Affine) -> None:
        """Set the objective to a single expression (the sum, if it is an array)."""
        self._objective = expression.sum()

    def build(self) -> LinearModel:
        """Return the model as arrays; terms in the same row and column are added up."""
        cost = np.bincount(
            self._objective.column, weights=self._objective.coefficient, minlength=self._columns
        ).astype(np.float64, copy=False)
        parts = [_row_part(terms, self._columns) for terms in self._row_terms]
        counts = [part[0] for part in parts]
        row_count = np.concatenate(counts) if counts else np.zeros(0, dtype=np.int64)
        indptr = np.zeros(self._num_rows + 1, dtype=np.int32)
        np.cumsum(row_count, out=indptr[1:])
        return LinearModel(
            sense=self._sense,
            cost=cost,
            offset=float(self._objective.constant[0]),
            lower=_joined([bounds[0] for bounds in self._bounds]),
            upper=_joined([bounds[1] for bounds in self._bounds]),
            integer=np.concatenate([bounds[2] for bounds in self._bounds])
            if self._bounds
            else np.zeros(0, dtype=np.bool_),
            row_lower=_joined([bounds[0] for bounds in self._row_bounds]),
            row_upper=_joined([bounds[1] for bounds in self._row_bounds]),
            indptr=indptr,
            indices=np.concatenate([part[1] for part in parts]).astype(np.int32)
            if parts
            else np.zeros(0, dtype=np.int32),
            data=_joined([part[2] for part in parts]),
            variables=tuple(self._variables),
            rows=tuple(self._rows),
        )

    def _add(
        self,
        name: str,
        shape: tuple[int, ...],
        labels: Labels | None,
        lower: ArrayLike,
        upper: ArrayLike,
        *,
        integer: bool,
    ) -> Affine:
        if any(block.name == name for block in self._variables):
            raise ValueError(f"there already is a variable block {name!r}")
        block = Block(name, self._columns, shape, labels)
        self._variables.append(block)
        self._columns += block.size
        self._bounds.append(
            (_spread(lower, shape), _spread(upper, shape), np.full(block.size, integer, dtype=np.bool_))
        )
        return Affine.variables(block.start, shape)

    def _constrain(
        self, name: str, terms: Affine, lower: ArrayLike, upper: ArrayLike, labels: Labels | None
    ) -> None:
        if any(block.name == name for block in self._rows):
            raise ValueError(f"there already is a constraint family {name!r}")
        block = Block(name, self._num_rows, terms.shape, labels)
        self._rows.append(block)
        self._num_rows += block.size
        self._row_terms.append(terms)
        # + 0.0 turns the -0.0 of a negated zero constant into 0.0
        self._row_bounds.append(
            (
                _spread(lower, terms.shape) - terms.constant + 0.0,
                _spread(upper, terms.shape) - terms.constant + 0.0,
            )
        )


def _row_part(
    terms: Affine, num_columns: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    element, column, data = terms.element, terms.column, terms.coefficient
    if not terms.distinct:
        key, inverse = np.unique(element * num_columns + column, return_inverse=True)
        data = np.bincount(inverse.ravel(), weights=data, minlength=key.size).astype(np.float64)
        element, column = np.divmod(key, max(num_columns, 1))
    if data.size and not data.all():
        kept = data != 0.0
        element, column, data = element[kept], column[kept], data[kept]
    return np.bincount(element, minlength=terms.size), column, data


def _spread(value: ArrayLike, shape: tuple[int, ...]) -> NDArray[np.float64]:
    return np.broadcast_to(np.asarray(value, dtype=np.float64), shape).ravel()


def _joined(parts: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    return np.concatenate(parts) if parts else np.zeros(0)
