"""The Lagrangian dual of the one-capacity knapsack: the multiplier of least bound.

``L(lambda) = lambda * C + sum_j max_i (v_ji - lambda * u_ji)`` is convex and piecewise linear. A first
bracket around its minimum comes from a hint, or from a sample of the jobs; `bracket` closes it.

Two multipliers of a one-capacity knapsack around the best one, drawn together line by line.

Every choice is a line under the dual. The line of a choice that uses too much and the line of one that fits
meet at the next multiplier to try, until no line lies above their meeting point (Dinkelbach's and Kelley's
idea). A job whose best option is the same at both ends keeps it in between and is not looked at again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from apportion.core.options import SolveOptions
from apportion.models import MultipleChoiceKnapsack
from apportion.solvers.clock import Clock
from apportion.solvers.knapsack.menu_blocks import Block, Columns, MenuBlocks, build

__all__ = ["DualPoint", "bound_at", "multiplier", "narrowed", "solve_dual"]


_MOST_SWEEPS = 200
_BRACKET_NOISE = 2.0**-51
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
    low_used: int
    high_used: int


def narrowed(
    menus: MenuBlocks,
    low: Columns,
    low_at: float,
    low_used: int,
    high: Columns,
    high_at: float | None,
    sweeps: int,
    clock: Clock,
) -> DualPoint:
    """Close a bracket around the best multiplier, or stop at the limits of `clock`.

    Parameters
    ----------
    menus
        The knapsack.
    low, low_at, low_used
        Columns that use too much, the multiplier that they are best at, and what they use.
    high, high_at
        Columns that fit, and the multiplier that they are best at, ``None`` for the columns of least use.
    sweeps
        How many multipliers were tried before.
    clock
        The limits.
    """
    bracket = _Bracket(menus, low, low_at, low_used, high, high_at, sweeps)
    for _ in range(_MOST_SWEEPS):
        crossing = bracket.crossing()
        if crossing is None:
            break
        if (end := bracket.end_reached(crossing)) is not None:  # only rounding is left
            return bracket.closed_at(end)
        trial = bracket.tried(bracket.guess(crossing))
        if trial.at == crossing and bracket.touched_by(trial):
            return bracket.closed_at(trial.at)
        if bracket.moved_to(trial):
            return replace(bracket.closed_at(trial.at), low=bracket.high)
        bracket.shrink()
        if clock.stopped():
            break
    return bracket.left_open()


@dataclass(slots=True, eq=False)
class _Trial:
    """The best columns of the active jobs at a multiplier, what they are worth and what they use."""

    at: float
    columns: Columns
    values: list[NDArray[np.float64]]
    uses: list[NDArray[np.int64]]
    used: list[int]


class _Bracket:
    """Two multipliers around the best one; only jobs whose best option differs between them are looked at.

    Attributes
    ----------
    low, high
        The columns that are best at the ends; those of active jobs are written back when it is closed.
    room
        What the jobs that are not active leave of the capacity.
    """

    def __init__(
        self,
        menus: MenuBlocks,
        low: Columns,
        low_at: float,
        low_used: int,
        high: Columns,
        high_at: float | None,
        sweeps: int,
    ) -> None:
        self.low, self.high = [c.copy() for c in low], [c.copy() for c in high]
        self.low_at, self.high_at, self.sweeps = low_at, high_at, sweeps
        self._blocks = menus.blocks
        self._active = [
            _activate(block, own_low, own_high, None)
            for block, own_low, own_high in zip(menus.blocks, self.low, self.high, strict=True)
        ]
        self.residual = menus.capacity - low_used + sum(a.low_used for a in self._active)
        self._last_side, self._same_side = 0, 0

    def crossing(self) -> float | None:
        """Return where the lines of the two ends meet, ``None`` where their choices use the same."""
        use_gap = sum(a.low_used - a.high_used for a in self._active)
        if use_gap <= 0:
            return None
        value_gap = sum(float((a.low_value - a.high_value).sum()) for a in self._active)
        return max(value_gap / use_gap, 0.0)

    def end_reached(self, crossing: float) -> float | None:
        """Return the end that a crossing does not lie inside of, ``None`` if it lies within the bracket."""
        if crossing <= self.low_at:
            return self.low_at
        return self.high_at if self.high_at is not None and crossing >= self.high_at else None

    def guess(self, crossing: float) -> float:
        """Return the multiplier to try: the crossing, or the middle where one end does not move."""
        if self._same_side < 3 or self.high_at is None:
            return crossing
        self._same_side = 0
        return (self.low_at * self.high_at) ** 0.5 if self.low_at > 0 else 0.5 * self.high_at

    def tried(self, guess: float) -> _Trial:
        """Return the best columns at a multiplier."""
        self.sweeps += 1
        columns = [a.block.best(guess) for a in self._active]
        values = [a.block.value_at(c) for a, c in zip(self._active, columns, strict=True)]
        uses = [a.block.use_at(c) for a, c in zip(self._active, columns, strict=True)]
        return _Trial(guess, columns, values, uses, [int(u.sum()) for u in uses])

    def touched_by(self, trial: _Trial) -> bool:
        """Return whether no line lies above the crossing: the trial is worth there what the ends are."""
        above, scale = 0.0, 0.0
        for a, v, u in zip(self._active, trial.values, trial.uses, strict=True):
            step = (v - a.low_value) - trial.at * (u - a.low_use)
            above += float(np.maximum(step, 0.0).sum())
        if above == 0.0:
            return True
        for v, u in zip(trial.values, trial.uses, strict=True):
            scale += float((np.abs(v) + trial.at * u).sum())
        return above <= _BRACKET_NOISE * scale

    def moved_to(self, trial: _Trial) -> bool:
        """Make the trial an end; return whether the dual is flat there, so that it is the last one.

        At a multiplier far above all values ``value - lambda * use`` has no digits left, and the choice is
        best only as far as they show: the search goes on to a smaller one.
        """
        used = sum(trial.used)
        side = 1 if used > self.residual else -1
        self._same_side = self._same_side + 1 if side == self._last_side else 1
        self._last_side = side
        found = zip(trial.columns, trial.values, trial.uses, trial.used, strict=True)
        for a, (column, value, use, total) in zip(self._active, found, strict=True):
            if side > 0:
                a.low, a.low_value, a.low_use, a.low_used = column, value, use, total
            else:
                a.high, a.high_value, a.high_use, a.high_used = column, value, use, total
        if side > 0:
            self.low_at = trial.at
            return False
        self.high_at = trial.at
        if used != self.residual:
            return False
        size = sum(float(np.abs(v).sum()) for v in trial.values)
        return trial.at * float(used) <= _FAR * size

    def shrink(self) -> None:
        """Let the jobs go whose best option is the same at both ends, where they are many."""
        for k, a in enumerate(self._active):
            differ = a.low != a.high
            if int(np.count_nonzero(differ)) <= 0.75 * differ.size:
                _write_back(a, self.low[k], self.high[k])
                part = _activate(self._blocks[k], self.low[k], self.high[k], (a, np.flatnonzero(differ)))
                self.residual -= a.low_used - part.low_used
                self._active[k] = part

    def closed_at(self, multiplier: float) -> DualPoint:
        """Return the optimal multiplier with both ends' choices."""
        self._write_all()
        return DualPoint(multiplier, self.low, self.high, self.sweeps, True)

    def left_open(self) -> DualPoint:
        """Return the end that fits, or the one there is; it need not be optimal."""
        self._write_all()
        if self.high_at is None:
            return DualPoint(self.low_at, self.low, self.low, self.sweeps, False)
        return DualPoint(self.high_at, self.high, self.high, self.sweeps, False)

    def _write_all(self) -> None:
        for a, low, high in zip(self._active, self.low, self.high, strict=True):
            _write_back(a, low, high)


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
    low_use, high_use = part.use_at(lows), part.use_at(highs)
    return _Active(
        part,
        index,
        lows,
        highs,
        part.value_at(lows),
        part.value_at(highs),
        low_use,
        high_use,
        int(low_use.sum()),
        int(high_use.sum()),
    )


def _write_back(active: _Active, low: NDArray[np.int64], high: NDArray[np.int64]) -> None:
    where = slice(None) if active.index is None else active.index
    low[where] = active.low
    high[where] = active.high


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
