"""Affine expressions over variable blocks, as flat triplets: what a formulation is written with.

An `Affine` is an array of expressions ``constant + sum_t coefficient_t * x[column_t]``. It has a shape,
broadcasts like a numpy array, and never loops in Python over its elements.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Affine"]


class Affine:
    """An array of affine expressions.

    Attributes
    ----------
    shape
        Shape of the array.
    element, column, coefficient
        Term t adds ``coefficient[t] * x[column[t]]`` to flat element ``element[t]``; elements never fall.
    constant
        float64 [size], flat.
    distinct
        Whether no element has two terms in the same column.

    Notes
    -----
    There is no ``==`` or ``<=`` on purpose: constraints are named verbs of the builder, as in
    ``m.at_most("idle_nodes", x.sum(), num_nodes)``.
    """

    __slots__ = ("coefficient", "column", "constant", "distinct", "element", "shape")
    __array_ufunc__ = None  # numpy arrays on the left hand over to our reflected operators

    def __init__(
        self,
        shape: tuple[int, ...],
        element: NDArray[np.int64],
        column: NDArray[np.int64],
        coefficient: NDArray[np.float64],
        constant: NDArray[np.float64],
        distinct: bool,
    ) -> None:
        self.shape = shape
        self.element = element
        self.column = column
        self.coefficient = coefficient
        self.constant = constant
        self.distinct = distinct

    @classmethod
    def variables(cls, start: int, shape: tuple[int, ...]) -> Affine:
        """Return the expressions that are just the variables of a block starting at column `start`."""
        size = int(np.prod(shape, dtype=np.int64))
        element = np.arange(size, dtype=np.int64)
        return cls(shape, element, element + start, np.ones(size), np.zeros(size), distinct=True)

    @classmethod
    def constants(cls, values: ArrayLike) -> Affine:
        """Return expressions without variables."""
        array = np.asarray(values, dtype=np.float64)
        none = np.zeros(0, dtype=np.int64)
        return cls(array.shape, none, none, np.zeros(0), array.ravel().copy(), distinct=True)

    @property
    def size(self) -> int:
        """How many expressions there are."""
        return int(self.constant.size)

    def __add__(self, other: Affine | ArrayLike) -> Affine:
        if not isinstance(other, Affine):
            array = np.asarray(other, dtype=np.float64)
            left = self._broadcast(np.broadcast_shapes(self.shape, array.shape))
            constant = left.constant + np.broadcast_to(array, left.shape).ravel()
            return Affine(left.shape, left.element, left.column, left.coefficient, constant, left.distinct)
        shape = np.broadcast_shapes(self.shape, other.shape)
        left, right = self._broadcast(shape), other._broadcast(shape)
        element = np.concatenate((left.element, right.element))
        order = np.argsort(element, kind="stable")
        return Affine(
            shape,
            element[order],
            np.concatenate((left.column, right.column))[order],
            np.concatenate((left.coefficient, right.coefficient))[order],
            left.constant + right.constant,
            distinct=left.distinct and right.distinct and _columns_apart(left.column, right.column),
        )

    __radd__ = __add__

    def __neg__(self) -> Affine:
        return self * -1.0

    def __sub__(self, other: Affine | ArrayLike) -> Affine:
        return self + (-other if isinstance(other, Affine) else -np.asarray(other, dtype=np.float64))

    def __rsub__(self, other: ArrayLike) -> Affine:
        return (-self) + other

    def __mul__(self, factor: ArrayLike) -> Affine:
        array = np.asarray(factor, dtype=np.float64)
        wide = self._broadcast(np.broadcast_shapes(self.shape, array.shape))
        flat = np.broadcast_to(array, wide.shape).ravel()
        scale = flat[0] if array.ndim == 0 and flat.size else flat[wide.element]
        return Affine(
            wide.shape,
            wide.element,
            wide.column,
            wide.coefficient * scale,
            wide.constant * flat,
            wide.distinct,
        )

    __rmul__ = __mul__

    def __getitem__(self, key: Any) -> Affine:
        positions = np.arange(self.size, dtype=np.int64).reshape(self.shape)[key]
        return self._take(np.asarray(positions))

    def reshape(self, *shape: int) -> Affine:
        """Return the same expressions in another shape."""
        new = np.empty(self.size, dtype=np.bool_).reshape(shape).shape
        return Affine(new, self.element, self.column, self.coefficient, self.constant, self.distinct)

    def sum(self, axis: int | None = None) -> Affine:
        """Return the sum over one axis, or over all elements."""
        positions = np.arange(self.size, dtype=np.int64).reshape(self.shape)
        if axis is None:
            return self._gather(np.zeros(self.size, dtype=np.int64), ())
        kept = tuple(n for i, n in enumerate(self.shape) if i != axis % len(self.shape))
        target = np.arange(int(np.prod(kept, dtype=np.int64)), dtype=np.int64).reshape(kept)
        into = np.broadcast_to(np.expand_dims(target, axis), positions.shape).ravel()
        return self._gather(into, kept)

    def segment_sum(self, offsets: NDArray[np.int64]) -> Affine:
        """Return the sums over the ragged segments ``offsets[j]:offsets[j + 1]`` of a flat expression."""
        count = offsets.size - 1
        return self._gather(np.repeat(np.arange(count, dtype=np.int64), np.diff(offsets)), (count,))

    def __rmatmul__(self, matrix: Any) -> Affine:
        """Return ``matrix @ self`` for a flat expression and a matrix, dense or sparse; zeros are skipped."""
        if isinstance(matrix, np.ndarray):
            row, position = np.nonzero(matrix)
            factors = matrix[row, position]
        else:
            found = matrix.tocsr().tocoo()
            row, position, factors = found.row, found.col, found.data
        picked = self._take(position.astype(np.int64)) * factors
        return picked._gather(row.astype(np.int64), (matrix.shape[0],))

    def _gather(self, into: NDArray[np.int64], shape: tuple[int, ...]) -> Affine:
        size = int(np.prod(shape, dtype=np.int64))
        element, column, coefficient = into[self.element], self.column, self.coefficient
        if element.size and (np.diff(element) < 0).any():
            order = np.argsort(element, kind="stable")
            element, column, coefficient = element[order], column[order], coefficient[order]
        constant = np.bincount(into, weights=self.constant, minlength=size).astype(np.float64, copy=False)
        single_use = self.distinct and _all_distinct(column)
        return Affine(shape, element, column, coefficient, constant, distinct=single_use)

    def _take(self, positions: NDArray[np.int64]) -> Affine:
        flat = positions.ravel()
        count = np.bincount(self.element, minlength=self.size)
        start = np.concatenate(([0], np.cumsum(count)[:-1])) if self.size else count
        terms = count[flat]
        element = np.repeat(np.arange(flat.size, dtype=np.int64), terms)
        first = np.cumsum(terms) - terms
        source = np.arange(element.size) - np.repeat(first - start[flat], terms)
        return Affine(
            positions.shape,
            element,
            self.column[source],
            self.coefficient[source],
            self.constant[flat],
            self.distinct,
        )

    def _broadcast(self, shape: tuple[int, ...]) -> Affine:
        if shape == self.shape:
            return self
        positions = np.arange(self.size, dtype=np.int64).reshape(self.shape)
        return self._take(np.broadcast_to(positions, shape))


def _all_distinct(column: NDArray[np.int64]) -> bool:
    if column.size < 2:
        return True
    steps = np.diff(column)
    if (steps > 0).all():
        return True
    counts = np.bincount(column - column.min())
    return bool(counts.max() <= 1)


def _columns_apart(left: NDArray[np.int64], right: NDArray[np.int64]) -> bool:
    if not left.size or not right.size:
        return True
    return bool(left.max() < right.min() or right.max() < left.min())
