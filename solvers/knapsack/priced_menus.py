"""What choices lose against the Lagrangian bound at a multiplier, and how far float64 may be off there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.solvers.knapsack.menu_blocks import Block, Columns, MenuBlocks

__all__ = ["PricedMenus", "sampled_losses"]

_SAMPLED = 1 << 13
_ROUNDING = 2.0**-49
_UNSEEN = 1e-13
"""Rounding of no more than this part of the objective is stated as it is."""


@dataclass(frozen=True, slots=True, eq=False)
class PricedMenus:
    """Menus at a multiplier.

    Attributes
    ----------
    menus
        The menus.
    multiplier
        What one unit of the capacity costs.
    base
        Columns that are best at the multiplier.
    base_used
        What these use of the capacity.
    """

    menus: MenuBlocks
    multiplier: float
    base: Columns
    base_used: int

    def loss_of(self, columns: Columns) -> float:
        """Return the total loss of a feasible choice."""
        total, used = 0.0, self.base_used
        for block, column, base in zip(self.menus.blocks, columns, self.base, strict=True):
            if column is base:
                continue
            moved = np.flatnonzero(column != base)
            if moved.size:
                at = moved * block.width
                to, origin = at + column[moved], at + base[moved]
                value, use = block.value.ravel(), block.use.ravel()
                gain, more = value.take(to) - value.take(origin), use.take(to) - use.take(origin)
                total += float((self.multiplier * more - gain).sum())
                used += int(more.sum())
        return max(total, 0.0) + self.multiplier * (self.menus.capacity - used)

    def may_hold(self, wanted: Columns, other: Columns, limit: float) -> bool:
        """Return whether a choice that loses at most `limit` may hold a wanted option that `other` does not.

        All options of such a choice lose as little; rounding counts in favour. A column below 0 is no option.
        """
        margin = limit + _ROUNDING * (self.multiplier * self.menus.largest_use + limit)
        for block, column, base, now in zip(self.menus.blocks, wanted, self.base, other, strict=True):
            jobs = np.flatnonzero((column != now) & (column >= 0) & (column < block.width))
            if not jobs.size:
                continue
            at, value, use = jobs * block.width, block.value.ravel(), block.use.ravel()
            to, origin = at + column[jobs], at + base[jobs]
            with np.errstate(over="ignore", invalid="ignore"):  # what is no number counts as within
                score = value.take(to) - self.multiplier * use.take(to)
                best = value.take(origin) - self.multiplier * use.take(origin)
                if not (score < best - margin - _ROUNDING * np.abs(best)).all():
                    return True
        return False

    def rounding(self, choice: Columns) -> float:
        """Return what the float64 errors of the bound stay below."""
        used = float(self.menus.used(choice)) + float(self.base_used)
        size = self._size(choice) + self._size(self.base) + self.multiplier * (used + self.menus.capacity)
        scores = (
            3.0 * self.multiplier * self.menus.largest_use * self.menus.num_jobs
        )  # of options nearly best
        return 2.0**-51 * ((4.0 + float(np.log2(self.menus.num_jobs + 1))) * size + scores)

    def margin(self, choice: Columns) -> float:
        """Return what the rounding of ``L(lambda) - value`` stays below; where that would show, sweep for it.

        The base choice is best at lambda only as far as float64 shows. With an option's gain g and further
        use d over the base, ``g - lambda d`` is off by at most ``2 eps (|g| + lambda |d|)``; what it may be
        above 0, summed over the jobs' worst options, is all that the bound may lie above the losses. Options
        that are far from best do not count, however large their values are.
        """
        rough = self.rounding(choice)
        if rough <= _UNSEEN * abs(self.menus.value(choice)):
            return rough
        total = 0.0
        for block, base in zip(self.menus.blocks, self.base, strict=True):
            gain = block.value - block.value_at(base)[:, None]
            charge = self.multiplier * (block.use - block.use_at(base)[:, None])
            with np.errstate(invalid="ignore"):  # options marked unusable
                above = gain - charge + 2.0**-51 * (np.abs(gain) + np.abs(charge))
            above[gain == -np.inf] = 0.0
            total += float(np.maximum(above.max(axis=1), 0.0).sum())
        moved = sum(
            float(
                (
                    np.abs(b.value_at(c) - b.value_at(o))
                    + self.multiplier * np.abs(b.use_at(c) - b.use_at(o))
                ).sum()
            )
            for b, c, o in zip(self.menus.blocks, choice, self.base, strict=True)
        )
        left = self.multiplier * (self.menus.capacity - self.menus.used(choice))
        return min(rough, total * (1 + 2.0**-40) + 2.0**-50 * (moved + left))

    def _size(self, columns: Columns) -> float:
        blocks = self.menus.blocks
        return float(sum(np.abs(b.value_at(c)).sum() for b, c in zip(blocks, columns, strict=True)))


def sampled_losses(block: Block, multiplier: float, base: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the losses of a sample of a block's options."""
    stride = -(-block.value.size // _SAMPLED)
    columns = base[::stride]
    part = Block(block.value[::stride], block.use[::stride], None, block.first[::stride], None)
    score = part.value - multiplier * part.use
    losses: NDArray[np.float64] = (part.value_at(columns) - multiplier * part.use_at(columns))[
        :, None
    ] - score
    return losses.ravel()
