"""The menu of a gap-filling job: every admissible node count, its exact worth rounded up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from apportion.instances import GapFillingJob

__all__ = ["counted"]


def counted(job: GapFillingJob, horizon: float, idle: int, shift: int) -> list[tuple[int, int]]:
    """Return (count, worth) for every node count the job may get.

    On ``n`` nodes, of which it has ``c`` now, a job is worth ``weight (horizon rate(n) - rate(c) stall)``,
    stall being ``rescale_up_s`` for n > c, ``rescale_down_s`` for n < c, and rate(c) counting as 0 below
    `min_nodes`. Doubles are whole numbers over powers of 2, so all of it is one whole number over a width of
    the curve, one of the piece that holds c, and a power of 2.
    """
    current = len(job.current_nodes)
    rates, rate_bits = _wholes(job.scaling.rate)
    pieces = list(_pieces(job.scaling.nodes, rates))
    running, held = 0, 1
    for (low, high), (at_low, at_high) in pieces:
        if low <= current <= high and current >= job.min_nodes:
            held = max(high - low, 1)
            running = at_low * held + (at_high - at_low) * (current - low)
    (weight,), weight_bits = _wholes([job.weight])
    (span, down, up), second_bits = _wholes([horizon, job.rescale_down_s, job.rescale_up_s])
    bits = rate_bits + weight_bits + second_bits - shift
    raised, lowered = max(-bits, 0), max(bits, 0)
    admissible = set(_counts(job, idle))
    found: dict[int, int] = {}
    for (low, high), (at_low, at_high) in pieces:
        width = max(high - low, 1)
        below = width * held << lowered
        step = weight * span * (at_high - at_low) * held << raised
        first = weight * span * at_low * width * held << raised
        lost = {
            side: weight * running * stall * width << raised for side, stall in ((-1, down), (0, 0), (1, up))
        }
        for count in range(low, min(high, idle) + 1):
            if count in admissible:
                side = (count > current) - (count < current)
                found[count] = -(-(first + step * (count - low) - lost[side]) // below)
    return sorted(found.items())


def _wholes(numbers: Sequence[float]) -> tuple[list[int], int]:
    """Return whole numbers and the bits b by which the given ones are these over ``2**b``."""
    ratios = [number.as_integer_ratio() for number in numbers]
    bits = max(below.bit_length() for _, below in ratios) - 1
    return [above << bits - below.bit_length() + 1 for above, below in ratios], bits


def _pieces(nodes: Sequence[int], rates: Sequence[int]) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Yield the linear pieces of the throughput curve: their ends and the rates there."""
    curve = list(zip(nodes, rates, strict=True))
    if len(curve) == 1:
        yield (curve[0][0], curve[0][0]), (curve[0][1], curve[0][1])
    for (low, at_low), (high, at_high) in pairwise(curve):
        yield (low, high), (at_low, at_high)


def _counts(job: GapFillingJob, idle: int) -> Iterator[int]:
    forbidden = set(job.forbidden_counts)
    for count in (0, *range(max(job.min_nodes, 1), min(job.max_nodes, idle) + 1)):
        if count not in forbidden and job.pinned_count in (None, count):
            yield count
