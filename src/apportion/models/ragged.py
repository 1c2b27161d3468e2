"""Menus of unlike lengths in one array: what every model that keeps them so can say of itself."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from apportion.errors import InvalidInstance, Problem

__all__ = ["Ragged", "check_sum_of_values"]

_LARGEST_SUM = 2.0**1020
"""Magnitudes of all values together: sums, differences and their margins then stay finite doubles."""


def check_sum_of_values(values: NDArray[np.float64]) -> None:
    """Refuse finite values whose sums would be no finite double.

    Raises
    ------
    InvalidInstance
        If the magnitudes add up to more than 2^1020.
    """
    with np.errstate(over="ignore"):
        total = float(np.abs(values).sum())
    if not total <= _LARGEST_SUM:
        raise InvalidInstance(
            Problem("$.values", "are so large that their sum is beyond 64-bit floats: use a larger unit")
        )


class Ragged:
    """Rows of jobs behind one another: job ``j`` owns the rows ``offsets[j]:offsets[j + 1]``.

    Attributes
    ----------
    values
        float64 [options].
    offsets
        int64 [jobs + 1], from 0 to the number of options, never falling.
    """

    __slots__ = ()
    values: NDArray[np.float64]
    offsets: NDArray[np.int64]

    @property
    def num_jobs(self) -> int:
        """How many jobs there are."""
        return int(self.offsets.size - 1)

    @property
    def num_options(self) -> int:
        """How many options all jobs have together."""
        return int(self.values.size)

    def job_of_option(self) -> NDArray[np.int64]:
        """Return int64 [options]: the job each option belongs to."""
        return np.repeat(np.arange(self.num_jobs, dtype=np.int64), np.diff(self.offsets))

    def jobs_by_length(self) -> list[NDArray[np.int64]]:
        """Return the jobs in groups, one per power of two of the length: padding never doubles a group."""
        power = np.frexp(np.maximum(np.diff(self.offsets) - 1, 0).astype(np.float64))[1]
        return [np.flatnonzero(power == exponent) for exponent in np.unique(power).tolist()]

    def cells(self, jobs: NDArray[np.int64], columns: int) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Return where the options of some jobs lie in a rectangle, bool [jobs, columns], and their rows."""
        inside = np.arange(columns) < np.diff(self.offsets)[jobs, None]
        return inside, (self.offsets[jobs, None] + np.arange(columns))[inside]
