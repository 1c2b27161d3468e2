"""The mixed-integer linear model: one CSR matrix whose columns and rows keep names as blocks.

optimise  cost . x + offset
subject to  row_lower <= A x <= row_upper,  lower <= x <= upper,  x_c integer where `integer`
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from apportion.choices import one_of
from apportion.models.multiple_choice import Sense
from apportion.report import Report, Violation

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["Block", "LinearModel"]


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
        if self.shape == ():
            return self.name
        index = np.unravel_index(position, self.shape)
        parts = (
            [str(i) for i in index]
            if self.labels is None
            else [labels[int(i)] for labels, i in zip(self.labels, index, strict=True)]
        )
        return f"{self.name}[{','.join(parts)}]"

    def elements(self) -> Iterator[str]:
        """Yield the name of every element in order."""
        return (self.element(position) for position in range(self.size))


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
