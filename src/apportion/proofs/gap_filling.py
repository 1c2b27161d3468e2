"""The menu of a gap-filling job: every admissible node count, its exact worth rounded up."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise

from apportion.instances import GapFillingJob
from apportion.proofs.whole_menus import scaled

__all__ = ["counted"]


def counted(job: GapFillingJob, horizon: float, idle: int, shift: int) -> list[tuple[int, int]]:
    """Return (count, worth) for every node count the job may get.

    On ``n`` nodes, of which it has ``c`` now, a job is worth ``weight (horizon rate(n) - rate(c) stall)``,
    stall being ``rescale_up_s`` for n > c, ``rescale_down_s`` for n < c, and rate(c) counting as 0 below
    `min_nodes`.
    """
    current = len(job.current_nodes)
    weight = Fraction(job.weight)
    running = Fraction(0)
    for (low, high), (at_low, at_high) in _segments(job):
        if low <= current <= high and current >= job.min_nodes:
            running = at_low + (at_high - at_low) * Fraction(current - low, max(high - low, 1))
    lost = {
        -1: weight * running * Fraction(job.rescale_down_s),
        0: Fraction(0),
        1: weight * running * Fraction(job.rescale_up_s),
    }
    admissible = set(_counts(job, idle))
    found: dict[int, int] = {}
    for (low, high), (at_low, at_high) in _segments(job):
        first = scaled(weight * Fraction(horizon) * at_low, shift)
        slope = scaled(weight * Fraction(horizon) * (at_high - at_low), shift) / max(high - low, 1)
        for side, stall in lost.items():
            base = first - scaled(stall, shift)
            common = math.lcm(base.denominator, slope.denominator)
            start, step = int(base * common), int(slope * common)
            for count in range(low, min(high, idle) + 1):
                if count in admissible and (count > current) - (count < current) == side:
                    found[count] = -(-(start + step * (count - low)) // common)
    return sorted(found.items())


def _segments(job: GapFillingJob) -> Iterator[tuple[tuple[int, int], tuple[Fraction, Fraction]]]:
    """Yield the linear pieces of the throughput curve: their ends and the rates there."""
    curve = list(zip(job.scaling.nodes, map(Fraction, job.scaling.rate), strict=True))
    if len(curve) == 1:
        yield (curve[0][0], curve[0][0]), (curve[0][1], curve[0][1])
    for (low, at_low), (high, at_high) in pairwise(curve):
        yield (low, high), (at_low, at_high)


def _counts(job: GapFillingJob, idle: int) -> Iterator[int]:
    forbidden = set(job.forbidden_counts)
    for count in (0, *range(max(job.min_nodes, 1), min(job.max_nodes, idle) + 1)):
        if count not in forbidden and job.pinned_count in (None, count):
            yield count
