"""Products of prices and uses in the thread that asks for them.

The BLAS behind numpy divides a product of a vector and a matrix of some ten thousand entries among all cores,
and its threads then wait for the next one in a loop: a fifth of a millisecond of arithmetic costs several
milliseconds of processor time, whatever number of threads a solve was told. Sums of `numpy.einsum` never
leave the thread. How many threads BLAS has is a setting of the whole process, which is not ours to change.

Sums of values that cancel: rounded once, whatever was added up.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["accurate_sum", "exact_sum", "grid", "over_columns", "over_rows", "product"]


_EPS = float(np.finfo(np.float64).eps)
_SEEN = 1e-13
"""Rounding of no more than this part of a sum is left as it is."""
_FEW = int(_SEEN / _EPS)
"""Values up to which a vectorised sum may do: the magnitudes add up to no less than the sum."""
_BLOCK_ROWS = 1 << 14
_HEADROOM = 2.0**15
"""More than the values of a block, so that a sum of that many parts needs no further digit."""
_LEAST, _MOST = 2.0**-800, 2.0**900
"""Magnitudes between which parts neither overflow nor underflow."""
_PARTS = 4


def exact_sum(values: NDArray[np.float64]) -> Fraction:
    """Return the sum of float64 values in fractions: whole numbers of 53 bits, added up by exponent."""
    mantissa, exponent = np.frexp(np.asarray(values, dtype=np.float64))
    whole, total = (mantissa * 2.0**53).astype(np.int64), Fraction(0)
    for power in np.unique(exponent).tolist():
        some = whole[exponent == power]
        high, low = int((some >> 26).sum()), int((some & (2**26 - 1)).sum())  # no overflow below 2**36 values
        total += ((high << 26) + low) * Fraction(2) ** (power - 53)
    return total


def accurate_sum(values: NDArray[np.float64]) -> float:
    """Return the sum of float64 values, off by at most 1e-13 of itself.

    A vectorised sum of n values is off by at most ``n eps sum |v|``; where that is more than 1e-13 of the
    sum, the values are added up exactly and rounded once, as `math.fsum` does.

    >>> accurate_sum(np.array([1e16, 1.0, -1e16])), float(np.array([1e16, 1.0, -1e16]).sum())
    (1.0, 0.0)
    """
    if values.size <= _FEW:
        total = float(values.sum())
        if values.size * _EPS * float(np.abs(values).sum()) <= _SEEN * abs(total):
            return total
        return math.fsum(values.tolist())
    terms: list[float] = []
    for first in range(0, values.size, _BLOCK_ROWS):
        terms += _exact_terms(values[first : first + _BLOCK_ROWS])
    return math.fsum(terms)


def _exact_terms(block: NDArray[np.float64]) -> list[float]:
    """Return a few numbers with exactly the sum of a block of at most 2^14 values.

    With ``s`` a power of two above ``2^15 max |v|``, ``(s + v) - s`` is v rounded to multiples of
    ``2^-53 s``: fewer than 2^15 of them add up without rounding in any order. What is left of v is
    exact, and its turn comes next (Rump, Ogita, Oishi: Accurate floating-point summation, SIAM J. Sci.
    Comput. 31, 2008).
    """
    terms: list[float] = []
    rest = block
    for _ in range(_PARTS):
        top = float(np.abs(rest).max())
        if top == 0.0:
            return terms
        if not _LEAST <= top <= _MOST:
            break
        above = math.ldexp(_HEADROOM, math.frexp(top)[1])
        part = rest + above
        part -= above
        terms.append(float(part.sum()))
        rest = rest - part
    terms.extend(rest.tolist())
    return terms


_ALONE = 9_000
"""Entries below which BLAS does not divide a product of a vector and a matrix (OpenBLAS: 9,216)."""
_BLOCK = 250_000
"""Multiplications up to which it does not divide a product of two matrices (OpenBLAS: 262,144)."""


def over_rows(weights: NDArray[np.float64], matrix: Any) -> NDArray[np.float64]:
    """Return the sum of a matrix's rows, dense or sparse, each times its weight: ``weights @ matrix``.

    >>> over_rows(np.array([2.0, 1.0]), np.array([[1.0, 0.0, 3.0], [0.0, 5.0, 1.0]])).tolist()
    [2.0, 5.0, 7.0]
    """
    if not isinstance(matrix, np.ndarray) or matrix.size < _ALONE:
        return np.asarray(weights @ matrix, dtype=np.float64)
    return np.asarray(np.einsum("k,kn->n", weights, matrix), dtype=np.float64)


def over_columns(matrix: Any, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sum of a matrix's columns, dense or sparse, each times its weight: ``matrix @ weights``.

    >>> over_columns(np.array([[1.0, 0.0], [2.0, 5.0]]), np.array([2.0, 1.0])).tolist()
    [2.0, 9.0]
    """
    if not isinstance(matrix, np.ndarray) or matrix.size < _ALONE:
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


def grid(values: NDArray[np.float64]) -> float:
    """Return a step such that all sums of the values are multiples of it, 0 if none is evident.

    Values with at most three decimals count; whoever can beat an incumbent then does so by one step at least.
    A decimal as float64 is off by ``2**-53`` of itself, its product by as much again: what differs more is no
    such decimal. The differences of all options together stay far below a step. Whole numbers are exact, and
    so are their sums below 2^52.
    """
    whole = np.round(values)
    if bool((whole == values).all()) and float(np.abs(values).sum()) <= 2.0**52:
        return float(np.gcd.reduce(whole.astype(np.int64))) if whole.size else 0.0
    for decimals in range(4):
        scaled = values * 10.0**decimals
        whole = np.round(scaled)
        if np.abs(whole).max(initial=0.0) * values.size > 2.0**43:
            return 0.0
        if (np.abs(scaled - whole) <= 2.0**-51 * np.abs(whole)).all():
            step = int(np.gcd.reduce(whole.astype(np.int64))) if whole.size else 0
            return step / 10.0**decimals
    return 0.0
