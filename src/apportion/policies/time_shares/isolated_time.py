"""The time that the steps done so far would have taken in isolation, kept over several calls."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["IsolatedTime"]


class IsolatedTime:
    """Adds, at every call, the steps done since the last one over the isolated throughput of the last one."""

    def __init__(self) -> None:
        self._seconds: dict[int, float] = {}
        self._last: dict[int, tuple[float, float]] = {}

    def upto(
        self, jobs: Sequence[int], steps_left: NDArray[np.float64], isolated: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return float64 [jobs]: isolated seconds of every job's steps until now; others are forgotten.

        Parameters
        ----------
        jobs
            A number that stays the same for every job.
        steps_left
            float64 [jobs].
        isolated
            float64 [jobs]: isolated throughput from now on.
        """
        seconds = {}
        for job, left in zip(jobs, steps_left.tolist(), strict=True):
            before, speed = self._last.get(job, (left, 1.0))
            seconds[job] = self._seconds.get(job, 0.0) + max(0.0, before - left) / speed
        self._seconds = seconds
        self._last = dict(zip(jobs, zip(steps_left.tolist(), isolated.tolist(), strict=True), strict=True))
        return np.array([seconds[job] for job in jobs], dtype=np.float64)
