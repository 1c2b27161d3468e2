"""The Lagrangian dual of the one-capacity knapsack: the multiplier of least bound.

``L(lambda) = lambda * C + sum_j max_i (v_ji - lambda * u_ji)`` is convex and piecewise linear; every choice
is a line under it. The line of a choice that uses too much and the line of one that fits meet at the next
multiplier to try, until no line lies above their meeting point (Dinkelbach's and Kelley's idea). A job whose
best option is the same at both ends of the bracket keeps it in between and is not looked at again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.models import MultipleChoiceKnapsack
from apportion.options import SolveOptions
from apportion.solvers.clock import Clock
from apportion.solvers.knapsack.menu_blocks import Block, Columns, MenuBlocks, build

__all__ = ["DualPoint", "bound_at", "multiplier", "solve_dual"]

_SAMPLE_FROM = 1 << 18
"""Options from which on the bracket is first sought on a sample."""
_SAMPLE_OPTIONS = 1 << 15
_NOISE = 2.0**-51
_FAR = 16.0
"""How many times its value a choice may cost at a multiplier that fills the capacity, to be the last one."""


@dataclass(slots=True, eq=False)
class DualPoint:
    """A multiplier and the choices that attain the bound there.

    Attributes
    ----------
    multiplier
        lambda >= 0.
    low, high
        Columns that are best at `multiplier`; `low` uses at least the capacity and `high` at most, if the
        dual was solved to the end.
    sweeps
        How many multipliers were tried.
    finished
        Whether `multiplier` is optimal (up to rounding).
    """

    multiplier: float
    low: Columns
    high: Columns
    sweeps: int
    finished: bool


@dataclass(slots=True, eq=False)
class _Active:
    """The jobs of one block whose best option still differs between the ends of the bracket."""

    block: Block
    index: NDArray[np.intp] | None
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    low_value: NDArray[np.float64]
    high_value: NDArray[np.float64]
    low_use: NDArray[np.int64]
    high_use: NDArray[np.int64]


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


def solve_dual(menus: MenuBlocks, clock: Clock, hint: float | None = None) -> DualPoint:
    """Solve the dual, or stop at the limits of `clock` with the multiplier reached.

    A `hint`, such as the multiplier of a similar model, narrows the first bracket; a bad one costs sweeps.
    """
    around: tuple[float, float] = (0.0, 0.0)
    if hint is not None and hint > 0.0:
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
    low, low_at = columns, guess
    if high is None and around[1] > 0.0:
        guess = around[1]
        for _ in range(8):
            columns = _best(menus.blocks, guess)
            sweeps += 1
            if menus.used(columns) <= menus.capacity:
                high, high_at = columns, guess
                break
            low, low_at = columns, guess
            guess *= 2.0
            if clock.stopped():
                return DualPoint(low_at, low, low, sweeps, False)
    return _narrow(menus, low, low_at, menus.least if high is None else high, high_at, sweeps, clock)


def _narrow(
    menus: MenuBlocks,
    low: Columns,
    low_at: float,
    high: Columns,
    high_at: float | None,
    sweeps: int,
    clock: Clock,
) -> DualPoint:
    low, high = [c.copy() for c in low], [c.copy() for c in high]
    blocks, numbers = menus.blocks, range(len(menus.blocks))
    active = [_activate(blocks[k], low[k], high[k], None) for k in numbers]
    room = menus.capacity - menus.used(low) + sum(int(a.low_use.sum()) for a in active)
    last_side, same_side = 0, 0
    for _ in range(200):
        use_gap = sum(int(a.low_use.sum()) - int(a.high_use.sum()) for a in active)
        if use_gap <= 0:
            break
        value_gap = sum(float((a.low_value - a.high_value).sum()) for a in active)
        crossing = max(value_gap / use_gap, 0.0)
        if crossing <= low_at or (high_at is not None and crossing >= high_at):  # only rounding is left
            _write_back(active, low, high)
            end = low_at if crossing <= low_at or high_at is None else high_at
            return DualPoint(end, low, high, sweeps, True)
        guess = crossing
        if same_side >= 3 and high_at is not None:  # one end does not move: halve instead
            guess = (low_at * high_at) ** 0.5 if low_at > 0 else 0.5 * high_at
            same_side = 0
        sweeps += 1
        columns = [a.block.best(guess) for a in active]
        values = [a.block.value_at(c) for a, c in zip(active, columns, strict=True)]
        uses = [a.block.use_at(c) for a, c in zip(active, columns, strict=True)]
        used = sum(int(u.sum()) for u in uses)
        if guess == crossing:
            above, scale = 0.0, 0.0
            for a, v, u in zip(active, values, uses, strict=True):
                step = (v - a.low_value) - guess * (u - a.low_use)
                above += float(np.maximum(step, 0.0).sum())
                scale += float((np.abs(v) + guess * u).sum())
            if above <= _NOISE * scale:
                _write_back(active, low, high)
                return DualPoint(guess, low, high, sweeps, True)
        side = 1 if used > room else -1
        same_side = same_side + 1 if side == last_side else 1
        last_side = side
        for a, c, v, u in zip(active, columns, values, uses, strict=True):
            if side > 0:
                a.low, a.low_value, a.low_use = c, v, u
            else:
                a.high, a.high_value, a.high_use = c, v, u
        if side > 0:
            low_at = guess
        else:
            high_at = guess
            # the dual is flat here; at a multiplier far above all values `value - lambda * use` has no digits
            # left, and the choice is best only as far as they show: go on to a smaller one
            size = sum(float(np.abs(v).sum()) for v in values)
            if used == room and guess * float(sum(int(u.sum()) for u in uses)) <= _FAR * size:
                _write_back(active, low, high)
                return DualPoint(guess, high, high, sweeps, True)
        for k in numbers:
            a = active[k]
            differ = a.low != a.high
            count = int(np.count_nonzero(differ))
            if count <= 0.75 * differ.size:
                _write_back([b if b is a else None for b in active], low, high)
                active[k] = _activate(blocks[k], low[k], high[k], (a, np.flatnonzero(differ)))
                room -= int(a.low_use.sum()) - int(active[k].low_use.sum())
        if clock.stopped():
            break
    _write_back(active, low, high)
    if high_at is None:
        return DualPoint(low_at, low, low, sweeps, False)
    return DualPoint(high_at, high, high, sweeps, False)


def _best(blocks: list[Block], guess: float) -> Columns:
    return [block.best(guess) for block in blocks]


def _activate(
    block: Block,
    low: NDArray[np.int64],
    high: NDArray[np.int64],
    within: tuple[_Active, NDArray[np.intp]] | None,
) -> _Active:
    """Return the jobs of a block, or of its part already active, whose two columns differ."""
    if within is None:
        differ = np.flatnonzero(low != high)
        if differ.size > 0.75 * low.size:
            part, index = block, None
            lows, highs = low, high
        else:
            part, index = block.subset(differ), differ
            lows, highs = low[differ], high[differ]
    else:
        outer, keep = within
        index = keep if outer.index is None else outer.index[keep]
        part = outer.block.subset(keep)
        lows, highs = low[index], high[index]
    return _Active(
        part,
        index,
        lows,
        highs,
        part.value_at(lows),
        part.value_at(highs),
        part.use_at(lows),
        part.use_at(highs),
    )


def _write_back(active: list[_Active] | list[_Active | None], low: Columns, high: Columns) -> None:
    for k, a in enumerate(active):
        if a is not None:
            where = slice(None) if a.index is None else a.index
            low[k][where] = a.low
            high[k][where] = a.high


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
        if sample.used(low) <= sample.capacity:
            found.append(0.0)
            continue
        found.append(_narrow(sample, low, 0.0, least, None, 0, Clock(SolveOptions())).multiplier)
    return min(found), max(found)
