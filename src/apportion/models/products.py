"""Products of prices and uses in the thread that asks for them.

The BLAS behind numpy divides a product of a vector and a matrix of some ten thousand entries among all cores,
and its threads then wait for the next one in a loop: a fifth of a millisecond of arithmetic costs several
milliseconds of processor time, whatever number of threads a solve was told. Sums of `numpy.einsum` never
leave the thread. How many threads BLAS has is a setting of the whole process, which is not ours to change.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["over_columns", "over_rows", "product"]

_ALONE = 9_000
"""Entries below which BLAS does not divide a product of a vector and a matrix (OpenBLAS: 9,216)."""
_BLOCK = 250_000
"""Multiplications up to which it does not divide a product of two matrices (OpenBLAS: 262,144)."""


def over_rows(weights: NDArray[np.float64], matrix: NDArray[Any]) -> NDArray[np.float64]:
    """Return the sum of the rows of a matrix, each times its weight: ``weights @ matrix``.

    >>> over_rows(np.array([2.0, 1.0]), np.array([[1.0, 0.0, 3.0], [0.0, 5.0, 1.0]])).tolist()
    [2.0, 5.0, 7.0]
    """
    if matrix.size < _ALONE:
        return np.asarray(weights @ matrix, dtype=np.float64)
    return np.asarray(np.einsum("k,kn->n", weights, matrix), dtype=np.float64)


def over_columns(matrix: NDArray[Any], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sum of the columns of a matrix, each times its weight: ``matrix @ weights``.

    >>> over_columns(np.array([[1.0, 0.0], [2.0, 5.0]]), np.array([2.0, 1.0])).tolist()
    [2.0, 9.0]
    """
    if matrix.size < _ALONE:
        return np.asarray(matrix @ weights, dtype=np.float64)
    if weights.size == 1:
        return np.asarray(matrix[:, 0] * weights[0], dtype=np.float64)
    if weights.size == 2:
        total = np.asarray(matrix[:, 0] * weights[0], dtype=np.float64)
        total += matrix[:, 1] * weights[1]
        return total
    return np.asarray(np.einsum("nk,k->n", matrix, weights), dtype=np.float64)


def product(left: NDArray[Any], right: NDArray[Any]) -> NDArray[np.float64]:
    """Return ``left @ right`` of two matrices, block by block where BLAS would divide it.

    >>> product(np.eye(2), np.array([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    (rows, inner), columns = left.shape, right.shape[1]
    if rows * inner * columns <= _BLOCK:
        return np.asarray(left @ right)
    if inner > rows:
        step = max(1, _BLOCK // (rows * columns))
        found = np.zeros((rows, columns))
        for at in range(0, inner, step):
            found += left[:, at : at + step] @ right[at : at + step]
        return found
    step = max(1, _BLOCK // (inner * columns))
    return np.concatenate([left[at : at + step] @ right for at in range(0, rows, step)])
