"""Sums of values that cancel: rounded once, whatever was added up."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["accurate_sum"]

_EPS = float(np.finfo(np.float64).eps)
_SEEN = 1e-13
"""Rounding of no more than this part of a sum is left as it is."""
_FEW = int(_SEEN / _EPS)
"""Values up to which a vectorised sum may do: the magnitudes add up to no less than the sum."""
_BLOCK = 1 << 14
_HEADROOM = 2.0**15
"""More than the values of a block, so that a sum of that many parts needs no further digit."""
_LEAST, _MOST = 2.0**-800, 2.0**900
"""Magnitudes between which parts neither overflow nor underflow."""
_PARTS = 4


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
    for first in range(0, values.size, _BLOCK):
        terms += _exact_terms(values[first : first + _BLOCK])
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
