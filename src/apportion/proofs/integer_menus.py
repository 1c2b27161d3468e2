"""Menus in whole numbers: what a walk decides, rounded so that it can only become easier to refute.

A plan of the instance is a choice of these menus that keeps every capacity, and its worth here is at least
its worth there: worths are rounded up, uses down, capacities never down. So where no choice is worth more
than the threshold, no plan is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.proofs.certificate import Claim

__all__ = [
    "LARGEST_TOTAL",
    "IntegerArray",
    "IntegerMenus",
    "as_int64",
    "integer_menus",
    "last_before",
    "rounded_down",
    "rounded_up",
    "scaled",
    "threshold",
]


LARGEST_TOTAL = 2.0**60
"""Totals below this are kept in 64 bits; larger ones in Python integers."""

IntegerArray = NDArray[Any]
"""int64, or Python integers as objects where 64 bits do not hold every total."""


@dataclass(frozen=True, slots=True)
class IntegerMenus:
    """What every job may get.

    Attributes
    ----------
    worths
        whole [options], to be maximised.
    uses
        whole [options, capacities], at least 0.
    offsets
        int64 [jobs + 1]: job j owns the rows ``offsets[j]:offsets[j + 1]`` and gets exactly one of them.
    capacities
        whole [capacities].
    threshold
        The claim: no choice is worth more.
    alike
        Groups of capacities that may be exchanged for each other, for every job at once.
    """

    worths: IntegerArray
    uses: IntegerArray
    offsets: NDArray[np.int64]
    capacities: IntegerArray
    threshold: int
    alike: tuple[tuple[int, ...], ...] = ()

    @property
    def num_jobs(self) -> int:
        """How many jobs there are."""
        return int(self.offsets.size - 1)


def integer_menus(
    worths: IntegerArray,
    uses: IntegerArray,
    sizes: Sequence[int] | NDArray[np.int64],
    capacities: Sequence[int],
    threshold: int,
    left_out: NDArray[np.bool_] | None = None,
    alike: tuple[tuple[int, ...], ...] = (),
) -> IntegerMenus:
    """Return menus of given sizes; a job that may be left out gets one more option, worth 0."""
    offsets = np.concatenate(([0], np.cumsum(np.asarray(sizes, dtype=np.int64)))).astype(np.int64)
    if left_out is not None and left_out.any():
        at = offsets[1:][left_out]
        worths = np.insert(worths, at, 0)
        uses = np.insert(uses, at, 0, axis=0)
        offsets = offsets + np.concatenate(([0], np.cumsum(left_out))).astype(np.int64)
    return IntegerMenus(worths, uses, offsets, as_int64(list(capacities)), threshold, alike)


def as_int64(numbers: Sequence[int]) -> IntegerArray:
    """Return whole numbers as int64 where each is below 2**62, else as objects."""
    if all(-(1 << 62) < number < 1 << 62 for number in numbers):
        return np.array(numbers, dtype=np.int64)
    kept = np.empty(len(numbers), dtype=object)
    kept[:] = numbers
    return kept


def scaled(number: float | Fraction, shift: int) -> Fraction:
    """Return a number times ``2**shift``, exactly."""
    above, below = number.as_integer_ratio()
    return Fraction(above << shift, below) if shift >= 0 else Fraction(above, below << -shift)


def rounded_up(values: NDArray[np.float64], shift: int) -> IntegerArray:
    """Return the least whole numbers that are not below ``values * 2**shift``.

    A double times a power of two is exact unless it leaves the range of doubles, and the ceiling of a double
    is exact; so below 2**62 this is exact in vectors. Anything else goes through fractions.
    """
    if values.size == 0:
        return np.zeros(0, dtype=np.int64)
    large = float(np.abs(values).max())
    small = float(np.abs(values[values != 0]).min()) if values.any() else 1.0
    if large and np.log2(large) + shift < 61 and np.log2(small) + shift > -1000 and shift < 1000:
        return np.ceil(np.ldexp(values, shift)).astype(np.int64)
    return as_int64([-((-scaled(value, shift)) // 1) for value in values.tolist()])


def threshold(claim: Claim, shift: int, maximizes: bool) -> int:
    """Return the greatest whole worth that does not contradict the claim."""
    if claim.bound is None:
        return -1
    return int(scaled(claim.bound if maximizes else -claim.bound, shift) // 1)


def last_before(limit: Fraction, shift: int) -> int:
    """Return the greatest whole number of units that is below a time."""
    return math.ceil(scaled(limit, shift)) - 1


def rounded_down(times: NDArray[np.float64], shift: int) -> IntegerArray:
    """Return the greatest whole numbers that are not above ``times * 2**shift``."""
    return -rounded_up(-times, shift)
