"""The job profiling advisor: scaling curves of jobs nobody knows, from what they were seen to do.

After the idea of MalleTrain's advisor (Ma et al., ICPE 2024, arXiv:2404.15668); the estimator is our own.
With n nodes a job makes ``n exp(level - slope log2(n) + d(n))`` samples per second: `level` and `slope` are
those of the population of jobs seen so far, ``d`` is the job's own deviation, interpolated in log2(n)
between the counts at which it was measured and constant beyond them. The standard error of a predicted
logarithm grows with the square root of the distance, in doublings, to the nearest measured count (a random
walk in log2(n)); its size is estimated from how far predictions were off.

Figures without their last bits, which logarithms and exponentials have otherwise on every processor.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["ProfilingAdvisor", "without_last_bits"]


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


_FIRST_SLOPE = 0.05
"""Loss of efficiency per doubling that is assumed before any job was measured twice."""
_FIRST_STEP = 0.1
_UNKNOWN = 1.0
"""Standard error of the logarithm for a job that was never measured."""


class ProfilingAdvisor:
    """Measured points, fitted curves, and whether to measure more.

    Parameters
    ----------
    tolerance
        Relative standard error at which a curve is known well enough.
    disagreement
        Relative difference of two measurements at one count from which the older points are taken to be
        stale.

    Attributes
    ----------
    reprofiled
        How often a job's points were thrown away because observations disagreed.
    """

    def __init__(self, tolerance: float = 0.1, disagreement: float = 0.15) -> None:
        self.tolerance, self.disagreement = tolerance, disagreement
        self.reprofiled = 0
        self._points: dict[int, dict[int, float]] = {}
        self._curves: dict[int, NDArray[np.float64]] = {}
        self._slope, self._slopes = _FIRST_SLOPE, 1.0
        self._level, self._levels = 0.0, 0.0
        self._step, self._steps = _FIRST_STEP**2, 3.0

    def observe(self, job: int, count: int, rate: float) -> None:
        """Book a measurement: samples per second of a job on `count` nodes."""
        if count < 1 or not rate > 0:
            return
        points = self._points.setdefault(job, {})
        known = points.get(count)
        if known is not None and abs(rate / known - 1.0) < 1e-3:
            return
        if known is not None and abs(rate / known - 1.0) > self.disagreement:
            points.clear()
            self.reprofiled += 1
        elif points and known is None:
            self._learn(job, points, count, rate)
        if not points:
            level = np.log(rate / count) + self._slope * np.log2(count)
            self._levels += 1.0
            self._level += (level - self._level) / self._levels
        points[count] = rate
        self._curves.pop(job, None)

    def _learn(self, job: int, points: dict[int, float], count: int, rate: float) -> None:
        """Let a job's second and further points teach the population's slope and step."""
        nearest = min(points, key=lambda other: abs(np.log2(count / other)))
        doublings = float(np.log2(count / nearest))
        missed = np.log(rate / self.predict(job, count)[count])
        self._step += (float(missed**2) / abs(doublings) - self._step) / (self._steps + 1.0)
        self._steps += 1.0
        weight = abs(doublings)
        slope = -float(np.log(rate / count) - np.log(points[nearest] / nearest)) / doublings
        self._slopes += weight
        self._slope += weight / self._slopes * (slope - self._slope)

    def measured(self, job: int) -> dict[int, float]:
        """Return the measured points of a job: count to samples per second."""
        return dict(self._points.get(job, {}))

    def predict(self, job: int, reach: int) -> NDArray[np.float64]:
        """Return float64 [reach + 1]: the fitted rate on 0 to `reach` nodes."""
        known = self._curves.get(job)
        if known is not None and known.size > reach:
            return known[: reach + 1]
        counts = np.arange(1, reach + 1, dtype=np.float64)
        doublings = np.log2(counts)
        curve = np.zeros(reach + 1)
        base = self._level - self._slope * doublings
        points = self._points.get(job)
        if points:
            at = np.array(sorted(points))
            seen = np.log2(at)
            own = np.log([points[count] / count for count in at.tolist()]) - self._level + self._slope * seen
            base = base + np.interp(doublings, seen, own)
        curve[1:] = without_last_bits(counts * np.exp(base))
        if points:
            self._curves[job] = curve
        return curve

    def error(self, job: int, reach: int) -> NDArray[np.float64]:
        """Return float64 [reach]: the relative standard error of the rate on 1 to `reach` nodes."""
        points = self._points.get(job)
        if not points:
            return np.full(reach, _UNKNOWN)
        doublings = np.log2(np.arange(1, reach + 1))
        away = np.abs(doublings[:, None] - np.log2(np.array(sorted(points)))).min(axis=1)
        error: NDArray[np.float64] = np.sqrt(self._step * away)
        return error

    def next_count(self, job: int, affordable: int) -> int | None:
        """Return the count to profile next, ``None`` when the curve is known well enough.

        Counts are profiled from the largest affordable downwards (shrinking costs less than growing), each
        half of the one before, as long as the error below it exceeds the tolerance.
        """
        if affordable < 1:
            return None
        points = self._points.get(job)
        if not points:
            return affordable
        error = self.error(job, affordable)
        below = np.arange(1, affordable + 1) < min(points)
        if not (below & (error > self.tolerance)).any():
            return None
        return max(min(points) // 2, 1)

    def forget(self, kept: NDArray[np.int64]) -> None:
        """Drop the points of jobs that are no longer there; what they taught stays."""
        alive = set(kept.tolist())
        for job in [job for job in self._points if job not in alive]:
            del self._points[job]
            self._curves.pop(job, None)

    def state(self) -> dict[str, Any]:
        """Return the state as JSON-ready numbers, which `restore` takes back."""
        numbers = [self._slope, self._slopes, self._level, self._levels, self._step, self._steps]
        points = [[job, list(points.items())] for job, points in self._points.items()]
        return {"numbers": numbers, "points": points, "reprofiled": self.reprofiled}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from an earlier state."""
        self._slope, self._slopes, self._level, self._levels, self._step, self._steps = state["numbers"]
        self._points = {job: {int(count): rate for count, rate in points} for job, points in state["points"]}
        self._curves, self.reprofiled = {}, state["reprofiled"]
