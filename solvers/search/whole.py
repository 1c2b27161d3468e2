"""Values as whole numbers: exact where 62 bits hold them, rounded up where they do not."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

__all__ = ["LARGEST_WORTH", "Unit", "unit_of"]

LARGEST_WORTH = 2**60
"""No choice's worth reaches this, whichever option every job takes."""


@dataclass(frozen=True, slots=True)
class Unit:
    """What one unit of worth is in units of value.

    Attributes
    ----------
    size
        Positive.
    exact
        Whether every value is a whole number of units. Otherwise worths are rounded up.
    """

    size: Fraction
    exact: bool

    def worths(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return int64 [options]: every value in units, rounded up unless exact."""
        if self.size.numerator == 1 or self.size.denominator == 1:
            shift = _power(self.size)
            if shift is not None:
                whole = np.ceil(np.ldexp(values, -shift))
                # a value that underflows on the way is still worth more than nothing
                return np.where(values > 0, np.maximum(whole, 1.0), whole).astype(np.int64)
        return np.rint(values / float(self.size)).astype(np.int64)

    def floor(self, values: NDArray[np.float64]) -> int:
        """Return the largest number of units that the sum of some values surely reaches."""
        # what is worth less than all that is searched may be beyond 64 bits
        if self.exact and float(np.abs(values).sum()) < LARGEST_WORTH * float(self.size):
            return int(self.worths(values).sum())
        return math.floor(sum(map(Fraction, values.tolist()), Fraction(0)) / self.size)


def _power(size: Fraction) -> int | None:
    """Return the exponent of a power of two, ``None`` for any other number."""
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    return exponent if Fraction(2) ** exponent == size else None


def unit_of(values: NDArray[np.float64], jobs: int, step: float) -> Unit:
    """Choose the unit in which the values of a knapsack are counted.

    Parameters
    ----------
    values
        float64 [options], finite.
    jobs
        How many values a choice adds up at most.
    step
        All sums of values are multiples of this (they may miss it by rounding, as 0.1 does); 0 if none is
        known.

    Returns
    -------
    Unit
        `step` where it is small enough; else the power of two that divides every value, where sums stay
        below 2**60; else the smallest power of two for which they do, with worths rounded up.
    """
    largest = float(np.abs(values).max(initial=0.0))
    if step > 0 and largest / step * jobs < LARGEST_WORTH / 4:
        decimals = next(d for d in range(4) if round(step * 10**d, 6) == round(step * 10**d))
        return Unit(Fraction(round(step * 10**decimals), 10**decimals), True)
    if largest == 0.0:
        return Unit(Fraction(1), True)
    # A sum of `jobs` values below 2**top is below 2**(top + bits of jobs); keep that below 2**60.
    top = math.frexp(largest)[1]
    least = top + max(1, jobs).bit_length() - 60
    mantissas, exponents = np.frexp(values[values != 0.0])
    whole = np.ldexp(mantissas, 53).astype(np.int64)
    zeros = np.log2((whole & -whole).astype(np.float64)).astype(np.int64)
    finest = int((exponents.astype(np.int64) - 53 + zeros).min())
    return Unit(Fraction(2) ** max(finest, least), finest >= least)
