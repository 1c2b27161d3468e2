"""Values as whole multiples of one unit, with the error of that written down."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

__all__ = ["Lattice", "on_lattice"]

_DENOMINATORS = (1, 2, 4, 8, 10, 16, 20, 100, 1_000, 10_000)
_NEAR = 2.0**-45
"""Values this near to multiples (relative to the largest) are taken for them: decimal fractions are."""


@dataclass(frozen=True, slots=True, eq=False)
class Lattice:
    """Values ``v`` with ``|v - whole x unit| <= error`` for every one.

    Attributes
    ----------
    whole
        int64, of the shape of the values.
    unit
        The unit, exactly.
    error
        The largest difference, rounded up.
    natural
        Whether the values are multiples, but for the rounding of decimal fractions: none lies between.
    """

    whole: NDArray[np.int64]
    unit: Fraction
    error: Fraction
    natural: bool


def on_lattice(values: NDArray[np.float64], largest: int) -> Lattice | None:
    """Return values as multiples of the coarsest unit they lie on, else of the finest that fits.

    Parameters
    ----------
    values
        float64, finite.
    largest
        Bound on the whole numbers.
    """
    top = float(np.abs(values).max(initial=0.0))
    if top == 0.0:
        return Lattice(np.zeros(values.shape, dtype=np.int64), Fraction(1), Fraction(0), True)
    for denominator in _DENOMINATORS:
        if top * denominator > min(largest, 2.0**44):
            break
        scaled = values * denominator
        whole = np.rint(scaled)
        if not (np.abs(scaled - whole) <= _NEAR * top * denominator).all():
            continue
        # the quotient is rounded once, by half a spacing at most; the difference of such near values is exact
        nearest = whole / denominator
        left = np.abs(values - nearest)
        exact = denominator & (denominator - 1) == 0 and bool((left == 0).all())
        error = 0.0 if exact else float((left + np.spacing(np.abs(nearest))).max())
        return Lattice(whole.astype(np.int64), Fraction(1, denominator), Fraction(error), True)
    exponent = int(np.floor(np.log2(largest / top))) - 1
    if abs(exponent) > 900:
        return None
    scaled = np.ldexp(values, exponent)
    if not (np.abs(scaled) <= largest).all():
        return None
    whole = np.rint(scaled)
    unit = Fraction(2) ** -exponent
    return Lattice(whole.astype(np.int64), unit, unit, False)
