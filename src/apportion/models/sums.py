"""Sums of values that cancel: rounded once, whatever was added up."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["accurate_sum"]

_EPS = float(np.finfo(np.float64).eps)
_SEEN = 1e-13
"""Rounding of no more than this part of a sum is left as it is."""


def accurate_sum(values: NDArray[np.float64]) -> float:
    """Return the sum of float64 values, off by at most 1e-13 of itself.

    A vectorised sum of n values is off by at most ``n eps sum |v|``; where that is more than 1e-13 of the
    sum, `math.fsum` adds them up exactly and rounds once.

    >>> accurate_sum(np.array([1e16, 1.0, -1e16])), float(np.array([1e16, 1.0, -1e16]).sum())
    (1.0, 0.0)
    """
    total = float(values.sum())
    if values.size * _EPS * float(np.abs(values).sum()) <= _SEEN * abs(total):
        return total
    return math.fsum(values.tolist())
