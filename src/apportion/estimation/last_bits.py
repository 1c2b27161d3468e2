"""Figures without their last bits, which logarithms and exponentials have otherwise on every processor."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["without_last_bits"]


def without_last_bits(values: NDArray[np.float64], digits: int = 9) -> NDArray[np.float64]:
    """Return figures rounded relative to their size.

    numpy computes ``exp`` and ``log`` by the widest instructions that a processor has, and their last bits
    differ. What decides by comparing such figures decides alike everywhere once these bits are gone, save
    where a figure lies at the very edge between two rounded ones.

    Parameters
    ----------
    values
        Of any sign and size.
    digits
        Decimal digits of the mantissa that stay; where instructions differ, they do in the sixteenth.
    """
    share, exponent = np.frexp(values)
    return np.ldexp(np.round(share, digits), exponent)
