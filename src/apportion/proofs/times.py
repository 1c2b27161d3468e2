"""Times in whole units: rounded down, and the last one before a limit."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from apportion.proofs.whole_menus import Whole, rounded_up, scaled

__all__ = ["last_before", "rounded_down"]


def last_before(limit: Fraction, shift: int) -> int:
    """Return the greatest whole number of units that is below a time."""
    return math.ceil(scaled(limit, shift)) - 1


def rounded_down(times: NDArray[np.float64], shift: int) -> Whole:
    """Return the greatest whole numbers that are not above ``times * 2**shift``."""
    return -rounded_up(-times, shift)
