"""The Lagrangian dual of the one-capacity knapsack: the multiplier of least bound.

``L(lambda) = lambda * C + sum_j max_i (v_ji - lambda * u_ji)`` is convex and piecewise linear. A first
bracket around its minimum comes from a hint, or from a sample of the jobs; `bracket` closes it.
"""

from __future__ import annotations

import numpy as np

from apportion.models import MultipleChoiceKnapsack
from apportion.options import SolveOptions
from apportion.solvers.clock import Clock
from apportion.solvers.knapsack.bracket import DualPoint, narrowed
from apportion.solvers.knapsack.menu_blocks import Block, Columns, MenuBlocks, build

__all__ = ["DualPoint", "bound_at", "multiplier", "solve_dual"]

_SAMPLE_FROM = 1 << 18
"""Options from which on the bracket is first sought on a sample."""
_SAMPLE_OPTIONS = 1 << 15
_NOISE = 2.0**-51


def multiplier(model: MultipleChoiceKnapsack) -> tuple[float, float]:
    """Return the multiplier of least Lagrangian bound, and that bound in the model's own sense.

    Every option counts, also one that fits into no feasible choice. The bound is rounded outward, so that it
    holds for the exact sums too.

    Raises
    ------
    ValueError
        If nothing is feasible, or the model has not exactly one capacity.
    """
    if model.num_capacities != 1:
        raise ValueError(f"the model has {model.num_capacities} capacities, not one")
    menus = build(model, prune=False)
    if menus is None:
        raise ValueError("no choice is feasible: the least uses of the required jobs exceed the capacity")
    point = solve_dual(menus, Clock(SolveOptions()))
    bound = bound_at(menus, point.multiplier)
    return point.multiplier, bound if model.sense == "maximize" else -bound


def bound_at(menus: MenuBlocks, multiplier: float) -> float:
    """Return ``L(lambda)`` of a maximising knapsack, rounded upwards past any error of float64 arithmetic."""
    total, size, terms = multiplier * menus.capacity, multiplier * menus.capacity, 1
    for block in menus.blocks:
        best = np.empty(block.size)
        for start, stop, score in block.scores(multiplier):
            score = np.maximum(
                score * (1.0 + _NOISE), score * (1.0 - _NOISE)
            )  # the product and the difference
            score += block.use[start:stop] * (2.0 * _NOISE * multiplier)
            score.max(axis=1, out=best[start:stop])
        total += float(best.sum())
        size += float(np.abs(best).sum())
        terms += block.size
    return total + 2.0**-52 * (8.0 + float(np.log2(terms))) * size


_HINTED = 0.02
"""Half width of the first bracket around a hinted multiplier, relative."""

_GREATEST_HINT = 2.0**1000
"""A greater hint is none: twice it, eight times over, must still be a double."""


def solve_dual(menus: MenuBlocks, clock: Clock, hint: float | None = None) -> DualPoint:
    """Solve the dual, or stop at the limits of `clock` with the multiplier reached.

    A `hint`, such as the multiplier of a similar model, narrows the first bracket; a bad one costs sweeps.
    """
    around: tuple[float, float] = (0.0, 0.0)
    if hint is not None and 0.0 < hint <= _GREATEST_HINT:
        around = ((1.0 - _HINTED) * hint, (1.0 + _HINTED) * hint)
    elif sum(block.value.size for block in menus.blocks) >= _SAMPLE_FROM:
        around = _sampled_bracket(menus)
        if clock.stopped() is not None:  # one sweep for a bound and, most likely, a choice that fits
            columns = _best(menus.blocks, around[1])
            return DualPoint(around[1], columns, columns, 1, False)
    sweeps = 1
    guess = around[0]
    columns = _best(menus.blocks, guess)
    used = menus.used(columns)
    high: Columns | None = None
    high_at: float | None = None
    while used <= menus.capacity and guess > 0.0:  # the sample missed: look below
        high, high_at = columns, guess
        guess = 0.25 * guess if guess > 1e-3 * around[0] else 0.0
        columns = _best(menus.blocks, guess)
        used = menus.used(columns)
        sweeps += 1
    if guess == 0.0:
        if used > menus.capacity:
            columns = [b.thriftiest(c) for b, c in zip(menus.blocks, columns, strict=True)]
            used = menus.used(columns)
        if used <= menus.capacity:
            return DualPoint(0.0, columns, columns, sweeps, True)
    low, low_at, low_used = columns, guess, used
    if high is None and around[1] > 0.0:
        guess = around[1]
        for _ in range(8):
            columns = _best(menus.blocks, guess)
            sweeps += 1
            used = menus.used(columns)
            if used <= menus.capacity:
                high, high_at = columns, guess
                break
            low, low_at, low_used = columns, guess, used
            guess *= 2.0
            if clock.stopped():
                return DualPoint(low_at, low, low, sweeps, False)
    found = menus.least if high is None else high
    return narrowed(menus, low, low_at, low_used, found, high_at, sweeps, clock)


def _best(blocks: list[Block], guess: float) -> Columns:
    return [block.best(guess) for block in blocks]


def _sampled_bracket(menus: MenuBlocks) -> tuple[float, float]:
    """Return two multipliers that probably lie around the best one, from every n-th job."""
    options = sum(block.value.size for block in menus.blocks)
    stride = max(2, options // _SAMPLE_OPTIONS)
    parts = [block.subset(np.arange(0, block.size, stride)) for block in menus.blocks]
    least = [column[::stride] for column in menus.least]
    least_use = sum(int(part.use_at(column).sum()) for part, column in zip(parts, least, strict=True))
    spare = max(menus.capacity - menus.least_use, 0) / stride
    jobs = max(sum(part.size for part in parts), 1)
    margin = min(0.5, 2.0 / jobs**0.5)
    found = []
    for factor in (1.0 + margin, 1.0 - margin):
        sample = MenuBlocks(
            parts, least_use + int(factor * spare), jobs, least, least_use, menus.largest_use, False
        )
        low = _best(parts, 0.0)
        used = sample.used(low)
        if used <= sample.capacity:
            found.append(0.0)
            continue
        found.append(narrowed(sample, low, 0.0, used, least, None, 0, Clock(SolveOptions())).multiplier)
    return min(found), max(found)
