"""The mixed-integer linear model: one CSR matrix whose columns and rows keep names as blocks.

optimise  cost . x + offset
subject to  row_lower <= A x <= row_upper,  lower <= x <= upper,  x_c integer where `integer`
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from apportion.core.errors import one_of
from apportion.core.outcome import Report, Violation
from apportion.models.affine import Affine
from apportion.models.multiple_choice import Sense

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["Block", "LinearModel", "LinearModelBuilder"]


@dataclass(frozen=True, slots=True)
class Block:
    """A named, contiguous range of columns or rows with a shape.

    Attributes
    ----------
    name
        The block's name, as in the paper: ``x``, ``idle_nodes``.
    start
        Index of its first column or row.
    shape
        Shape of the block; ``()`` for a single one.
    labels
        One sequence of labels per axis, or ``None`` for plain indices.
    """

    name: str
    start: int
    shape: tuple[int, ...]
    labels: tuple[Sequence[str], ...] | None = None

    @property
    def size(self) -> int:
        """How many columns or rows the block holds."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def stop(self) -> int:
        """One past the index of the last column or row."""
        return self.start + self.size

    def element(self, position: int) -> str:
        """Return the name of one element, for instance ``x[j0,n3]``."""
        index = np.unravel_index(position, self.shape)
        parts = (
            [str(i) for i in index]
            if self.labels is None
            else [labels[int(i)] for labels, i in zip(self.labels, index, strict=True)]
        )
        return self._named(parts)

    def elements(self) -> Iterator[str]:
        """Yield the name of every element in order."""
        axes = [map(str, range(n)) for n in self.shape] if self.labels is None else self.labels
        return map(self._named, product(*axes))

    def _named(self, parts: Sequence[str]) -> str:
        return f"{self.name}[{','.join(parts)}]" if parts else self.name


@dataclass(frozen=True, slots=True, eq=False)
class LinearModel:
    """A mixed-integer linear model as arrays; write one with `LinearModelBuilder`.

    Attributes
    ----------
    sense
        ``"maximize"`` or ``"minimize"``.
    cost, offset
        float64 [columns] and a constant: the objective.
    lower, upper
        float64 [columns], infinities allowed.
    integer
        bool [columns].
    row_lower, row_upper
        float64 [rows], infinities allowed.
    indptr, indices, data
        The matrix in CSR form: int32 [rows + 1], int32 [nonzeros], float64 [nonzeros]; no duplicates.
    variables, rows
        The named blocks of columns and rows, in order and without holes.
    """

    sense: Sense
    cost: NDArray[np.float64]
    offset: float
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    integer: NDArray[np.bool_]
    row_lower: NDArray[np.float64]
    row_upper: NDArray[np.float64]
    indptr: NDArray[np.int32]
    indices: NDArray[np.int32]
    data: NDArray[np.float64]
    variables: tuple[Block, ...]
    rows: tuple[Block, ...]

    def __repr__(self) -> str:
        return (
            f"<LinearModel: {self.num_columns} columns ({int(self.integer.sum())} integer), "
            f"{self.num_rows} rows, {self.num_nonzeros} nonzeros, {self.sense}>"
        )

    def __post_init__(self) -> None:
        one_of("sense", self.sense, ("maximize", "minimize"))

    @property
    def num_columns(self) -> int:
        """How many variables there are."""
        return int(self.cost.size)

    @property
    def num_rows(self) -> int:
        """How many constraint rows there are."""
        return int(self.row_lower.size)

    @property
    def num_nonzeros(self) -> int:
        """How many matrix entries there are."""
        return int(self.data.size)

    def variable(self, name: str) -> slice:
        """Return the slice of columns of a block; ``KeyError`` if there is no such block."""
        for block in self.variables:
            if block.name == name:
                return slice(block.start, block.stop)
        raise KeyError(name)

    def column_names(self) -> list[str]:
        """Return the name of every column."""
        return [name for block in self.variables for name in block.elements()]

    def row_names(self) -> list[str]:
        """Return the name of every row."""
        return [name for block in self.rows for name in block.elements()]

    def matrix(self) -> csr_array:
        """Return the matrix as a scipy CSR array [rows, columns]."""
        from scipy.sparse import csr_array

        return csr_array((self.data, self.indices, self.indptr), shape=(self.num_rows, self.num_columns))

    def objective(self, point: NDArray[np.float64]) -> float:
        """Return the objective of a point, in the model's sense."""
        return float(self.cost @ point + self.offset)

    def activity(self, point: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return A x, float64 [rows]."""
        terms = self.data * point[self.indices]
        activity = np.zeros(self.num_rows)
        filled = np.flatnonzero(np.diff(self.indptr))
        if filled.size:
            activity[filled] = np.add.reduceat(terms, self.indptr[filled])
        return activity

    def nameless(self) -> LinearModel:
        """Return the model with plain blocks, so that no names travel."""
        return replace(
            self,
            variables=(Block("column", 0, (self.num_columns,)),),
            rows=(Block("row", 0, (self.num_rows,)),),
        )

    def check(self, point: NDArray[np.float64], tolerance: float = 1e-6) -> Report:
        """Check a point against bounds, integrality and rows; at most twenty violations per rule.

        Parameters
        ----------
        point
            float64 [columns].
        tolerance
            Absolute for bounds and integrality; for rows, relative to the largest term of the row.
        """
        x = np.asarray(point, dtype=np.float64)
        if x.shape != (self.num_columns,):
            message = f"must be float64 [{self.num_columns}], is {list(x.shape)}"
            return Report(None, (Violation("shape", "point", message),))
        if not np.isfinite(x).all():
            where = self._column_name(int(np.argmin(np.isfinite(x))))
            return Report(None, (Violation("finite", where, "is not a finite number"),))
        violations: list[Violation] = []
        outside = (x < self.lower - tolerance) | (x > self.upper + tolerance)
        for column in np.flatnonzero(outside)[:20]:
            message = f"{x[column]:.9g} outside [{self.lower[column]:.9g}, {self.upper[column]:.9g}]"
            violations.append(Violation("bounds", self._column_name(int(column)), message))
        fractional = self.integer & (np.abs(x - np.round(x)) > tolerance)
        for column in np.flatnonzero(fractional)[:20]:
            violations.append(Violation("integer", self._column_name(int(column)), f"{x[column]:.9g}"))
        activity = self.activity(x)
        scale = np.maximum(1.0, self._largest_term(x))
        broken = (activity < self.row_lower - tolerance * scale) | (
            activity > self.row_upper + tolerance * scale
        )
        for row in np.flatnonzero(broken)[:20]:
            message = f"{activity[row]:.9g} outside [{self.row_lower[row]:.9g}, {self.row_upper[row]:.9g}]"
            violations.append(Violation("row", self._row_name(int(row)), message))
        return Report(self.objective(x), tuple(violations))

    def _largest_term(self, point: NDArray[np.float64]) -> NDArray[np.float64]:
        terms = np.abs(self.data * point[self.indices])
        largest = np.zeros(self.num_rows)
        filled = np.flatnonzero(np.diff(self.indptr))
        if filled.size:
            largest[filled] = np.maximum.reduceat(terms, self.indptr[filled])
        return largest

    def _column_name(self, column: int) -> str:
        return _name_in(self.variables, column)

    def _row_name(self, row: int) -> str:
        return _name_in(self.rows, row)


def _name_in(blocks: tuple[Block, ...], position: int) -> str:
    for block in blocks:
        if block.start <= position < block.stop:
            return block.element(position - block.start)
    raise IndexError(position)


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
