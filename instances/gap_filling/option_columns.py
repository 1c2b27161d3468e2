"""The options of a gap-filling instance, each exactly, in whole numbers: every admissible node count."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from msgspec import UNSET

from apportion.instances.columns import Columns
from apportion.instances.gap_filling.check import CAPACITY
from apportion.instances.gap_filling.schema import GapFillingInstance, GapFillingJob

__all__ = ["columns", "counted"]


def columns(instance: GapFillingInstance, *, extreme: bool = False) -> Columns:
    """Return every admissible node count of every job, or those only one of which is best at any price.

    Between two breakpoints a worth is linear, so it is most at a breakpoint or beside a jump.
    """
    idle = len(instance.nodes)
    asked = [set(_corners(job, idle) if extreme else _counts(job, idle)) for job in instance.jobs]
    menus = [counted(job, instance.horizon_s, own) for job, own in zip(instance.jobs, asked, strict=True)]
    options = [option for menu in menus for option in menu]
    return Columns(
        "maximize",
        [job.id for job in instance.jobs],
        np.concatenate(([0], np.cumsum([len(menu) for menu in menus]))).astype(np.int64),
        [(above, below) for _, above, below in options],
        np.array([count for count, _, _ in options], dtype=np.int64).reshape(-1, 1),
        [CAPACITY],
        [idle],
    )


def counted(job: GapFillingJob, horizon: float, counts: set[int]) -> list[tuple[int, int, int]]:
    """Return node counts that a job may get, each with its worth as a whole number over another.

    On ``n`` nodes, of which it has ``c`` now, a job is worth ``weight (horizon rate(n) - rate(c) stall)``,
    stall being ``rescale_up_s`` for n > c, ``rescale_down_s`` for n < c, and rate(c) counting as 0 below
    `min_nodes`. Doubles are whole numbers over powers of 2, so all of it is one whole number over a width of
    the curve, one of the piece that holds c, and a power of 2.
    """
    current = len(job.current_nodes)
    rates, rate_bits = _wholes(job.scaling.rate)
    pieces = list(_pieces(job.scaling.nodes, rates))
    running, held = 0, 1
    if current >= job.min_nodes and current > job.scaling.nodes[-1]:
        running = rates[
            -1
        ]  # it has more than it may and than its curve knows: as fast as with the most known
    for (low, high), (at_low, at_high) in pieces:
        if low <= current <= high and current >= job.min_nodes:
            held = max(high - low, 1)
            running = at_low * held + (at_high - at_low) * (current - low)
    (weight,), weight_bits = _wholes([job.weight])
    (span, down, up), second_bits = _wholes([horizon, job.rescale_down_s, job.rescale_up_s])
    bits = rate_bits + weight_bits + second_bits
    rising = sorted(counts)
    found: dict[int, tuple[int, int]] = {}
    for (low, high), (at_low, at_high) in pieces:
        width = max(high - low, 1)
        below = width * held << bits
        step = weight * span * (at_high - at_low) * held
        first = weight * span * at_low * width * held
        lost = {side: weight * running * stall * width for side, stall in ((-1, down), (0, 0), (1, up))}
        for count in rising[bisect_left(rising, low) : bisect_right(rising, high)]:
            side = (count > current) - (count < current)
            found[count] = first + step * (count - low) - lost[side], below
    return [(count, *found[count]) for count in sorted(found)]


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
    forbidden, allowed = set(job.forbidden_counts), _allowed(job)
    for count in (0, *range(max(job.min_nodes, 1), min(job.max_nodes, idle) + 1)):
        listed = allowed is None or count in allowed
        if listed and count not in forbidden and job.pinned_count in (None, count):
            yield count


def _allowed(job: GapFillingJob) -> set[int] | None:
    """Return the node counts that a job may have, 0 among them; ``None`` for all."""
    return None if job.allowed_counts is UNSET else {0, *job.allowed_counts}


def _corners(job: GapFillingJob, idle: int) -> Iterator[int]:
    top, current = min(job.max_nodes, idle), len(job.current_nodes)
    forbidden, allowed = set(job.forbidden_counts), _allowed(job)

    def admissible(count: int) -> bool:
        within = count == 0 or job.min_nodes <= count <= top
        return within and count not in forbidden and (allowed is None or count in allowed)

    if job.pinned_count is not None:
        if admissible(job.pinned_count):
            yield job.pinned_count
        return
    corners = {0, job.min_nodes, top, current - 1, current, current + 1, *job.scaling.nodes}
    corners |= {count + step for count in forbidden for step in (-1, 1)} | (allowed or set())
    yield from (count for count in sorted(corners) if admissible(count))
