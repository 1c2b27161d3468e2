"""The menus of a one-capacity knapsack as rectangular blocks that one numpy call can sweep.

Menus of one width are a block as they lie in memory, nothing copied; ragged menus are padded into one block
per power of two of their width, so that padding never doubles the work. A job that is not required gets one
more column, worth 0 and using nothing.

What choices lose against the Lagrangian bound at a multiplier, and how far float64 may be off there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.models import MultipleChoiceKnapsack

__all__ = ["Block", "Columns", "MenuBlocks", "PricedMenus", "build", "sampled_losses"]


_CHUNK = 1 << 16
"""Options swept at a time: values, uses and scores of a chunk stay in a second-level cache."""

_TAME = 2.0**900
"""No 64-bit use times a multiplier up to this overflows."""

Columns = list[NDArray[np.int64]]
"""A choice by blocks: the chosen column of each job of each block."""


@dataclass(slots=True, eq=False)
class Block:
    """Jobs with menus of one width.

    Attributes
    ----------
    value
        float64 [jobs, columns], to be maximised; ``-inf`` marks an option that cannot be used.
    use
        int64 [jobs, columns].
    jobs
        int64 [jobs]: their positions in the model; ``None`` when the block is the whole model.
    first
        int64 [jobs]: the model's row of column 0.
    out
        The column that leaves a job out, or ``None``.
    """

    value: NDArray[np.float64]
    use: NDArray[np.int64]
    jobs: NDArray[np.int64] | None
    first: NDArray[np.int64]
    out: int | None
    use_float: NDArray[np.float64] | None = None

    @property
    def size(self) -> int:
        """How many jobs there are."""
        return int(self.value.shape[0])

    @property
    def width(self) -> int:
        """How many columns there are."""
        return int(self.value.shape[1])

    def subset(self, index: NDArray[np.intp]) -> Block:
        """Return the block of some of its jobs."""
        jobs = index if self.jobs is None else self.jobs[index]
        floats = None if self.use_float is None else self.use_float[index]
        return Block(self.value[index], self.use[index], jobs, self.first[index], self.out, floats)

    def flat(self, columns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the positions of the chosen columns in the ravelled block."""
        return np.arange(0, self.size * self.width, self.width) + columns

    def value_at(self, columns: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return float64 [jobs]: the values of the chosen columns."""
        return self.value.ravel().take(self.flat(columns))

    def use_at(self, columns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return int64 [jobs]: the uses of the chosen columns."""
        return self.use.ravel().take(self.flat(columns))

    def rows_at(self, columns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return int64 [jobs]: the model's rows of the chosen columns, -1 for left out."""
        rows = self.first + columns
        return rows if self.out is None else np.where(columns == self.out, -1, rows)

    def scores(self, multiplier: float) -> Iterator[tuple[int, int, NDArray[np.float64]]]:
        """Yield ``(first job, last job + 1, value - multiplier * use)`` in chunks; the array is reused."""
        size, width = self.value.shape
        step = max(1, _CHUNK // width)
        if self.use_float is None and size <= 4 * step:
            self.use_float = self.use.astype(np.float64)
        scratch = np.empty((min(step, size), width))
        for start in range(0, size, step):
            stop = min(start + step, size)
            score = scratch[: stop - start]
            use = self.use if self.use_float is None else self.use_float
            if multiplier <= _TAME:
                np.multiply(use[start:stop], -multiplier, out=score)
            else:
                with np.errstate(over="ignore"):  # what costs more than a double holds: worth minus infinity
                    np.multiply(use[start:stop], -multiplier, out=score)
            score += self.value[start:stop]
            yield start, stop, score

    def best(self, multiplier: float) -> NDArray[np.int64]:
        """Return int64 [jobs]: the first column of the greatest ``value - multiplier * use``."""
        columns = np.empty(self.size, dtype=np.int64)
        for start, stop, score in self.scores(multiplier):
            score.argmax(axis=1, out=columns[start:stop])
        return columns

    def thriftiest(self, columns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return, per job, the column of least use among those as valuable as the given one."""
        cheapest = columns.copy()
        best = self.value_at(columns)
        tied = np.flatnonzero(np.count_nonzero(self.value == best[:, None], axis=1) > 1)
        if tied.size:
            use = np.where(self.value[tied] == best[tied, None], self.use[tied], np.iinfo(np.int64).max)
            cheapest[tied] = use.argmin(axis=1)
        return cheapest


@dataclass(slots=True, eq=False)
class MenuBlocks:
    """A one-capacity knapsack, to be maximised.

    Attributes
    ----------
    blocks
        The menus; a job without any option it may use and that may be left out is in none.
    capacity
        The capacity.
    num_jobs
        Jobs of the model.
    least
        Columns of least use.
    least_use
        Their sum; above the capacity nothing is feasible.
    largest_use
        The greatest use of an option that may be used.
    pruned
        Whether some option that cannot fit beside the least uses of the other jobs was marked unusable.
    """

    blocks: list[Block]
    capacity: int
    num_jobs: int
    least: Columns
    least_use: int
    largest_use: int
    pruned: bool

    def rows(self, columns: Columns) -> NDArray[np.int64]:
        """Return int64 [jobs]: the model's chosen row per job, -1 for none."""
        if len(self.blocks) == 1 and self.blocks[0].jobs is None:
            return self.blocks[0].rows_at(columns[0])
        rows = np.full(self.num_jobs, -1, dtype=np.int64)
        for block, column in zip(self.blocks, columns, strict=True):
            rows[slice(None) if block.jobs is None else block.jobs] = block.rows_at(column)
        return rows

    def columns(self, rows: NDArray[np.int64]) -> Columns:
        """Return the columns of a choice given as the model's rows."""
        found: Columns = []
        for block in self.blocks:
            chosen = rows if block.jobs is None else rows[block.jobs]
            column = chosen - block.first
            found.append(column if block.out is None else np.where(chosen < 0, block.out, column))
        return found

    def every(self, stride: int, base: Columns) -> MenuBlocks:
        """Return every n-th job of each block, with the room that `base` leaves and `base` for `least`."""
        blocks = (
            [block.subset(np.arange(0, block.size, stride)) for block in self.blocks]
            if stride > 1
            else self.blocks
        )
        part = [column[::stride] for column in base]
        used = sum(int(block.use_at(column).sum()) for block, column in zip(blocks, part, strict=True))
        capacity = used + self.capacity - self.used(base)
        return MenuBlocks(blocks, capacity, self.num_jobs, part, used, self.largest_use, self.pruned)

    def value(self, columns: Columns) -> float:
        """Return the value of a choice, to be maximised."""
        return float(sum(b.value_at(c).sum() for b, c in zip(self.blocks, columns, strict=True)))

    def used(self, columns: Columns) -> int:
        """Return what a choice uses of the capacity."""
        return sum(
            int(block.use_at(column).sum()) for block, column in zip(self.blocks, columns, strict=True)
        )


def build(model: MultipleChoiceKnapsack, prune: bool = True) -> MenuBlocks | None:
    """Lay the menus of a model out as blocks; ``None`` if nothing is feasible.

    Parameters
    ----------
    model
        The model, with one capacity.
    prune
        Mark the options that fit into no feasible choice as unusable.
    """
    counts = np.diff(model.offsets)
    capacity = int(model.capacities[0])
    sign = 1.0 if model.sense == "maximize" else -1.0
    if bool((model.required & (counts == 0)).any()):
        return None
    value = model.values if sign > 0 else -model.values
    use = model.uses[:, 0]
    if counts.size and int(counts.min()) == int(counts.max()) > 0:
        blocks = [_block(model, value, None, int(counts[0]))]
    else:
        alike = (jobs[counts[jobs] > 0] for jobs in model.jobs_by_length())
        blocks = [_block(model, value, jobs, int(counts[jobs].max())) for jobs in alike if jobs.size]
    least = [_least(block) for block in blocks]
    least_uses = [block.use_at(column) for block, column in zip(blocks, least, strict=True)]
    total = sum(int(uses.sum()) for uses in least_uses)
    largest = int(use.max()) if use.size else 0
    menus = MenuBlocks(blocks, capacity, model.num_jobs, least, total, largest, False)
    if total > capacity:
        return None
    if prune and largest > capacity - total:
        menus.largest_use = min(largest, capacity)
        for block, uses in zip(blocks, least_uses, strict=True):
            menus.pruned |= _mark_unusable(block, uses, capacity - total)
    return menus


def _block(
    model: MultipleChoiceKnapsack, value: NDArray[np.float64], jobs: NDArray[np.int64] | None, width: int
) -> Block:
    """Return the block of some jobs, `width` their longest menu, or of all, whose menus are then so long."""
    use, capacity = model.uses[:, 0], int(model.capacities[0])
    everyone = slice(None) if jobs is None else jobs
    first, required = model.offsets[:-1][everyone], model.required[everyone]
    if jobs is None and required.all():
        return Block(value.reshape(-1, width), use.reshape(-1, width), None, first, None)
    columns = width if required.all() else width + 1
    values = np.full((first.size, columns), -np.inf)
    uses = np.full((first.size, columns), capacity + 1, dtype=np.int64)
    if jobs is None:
        values[:, :width] = value.reshape(-1, width)
        uses[:, :width] = use.reshape(-1, width)
    else:
        inside, rows = model.cells(jobs, columns)
        values[inside], uses[inside] = value[rows], use[rows]
    if columns == width:
        return Block(values, uses, jobs, first, None)
    values[~required, width] = 0.0
    uses[~required, width] = 0
    return Block(values, uses, jobs, first, width)


def _least(block: Block) -> NDArray[np.int64]:
    """Return the columns of least use, the first among equals."""
    size, width = block.use.shape
    columns = np.empty(size, dtype=np.int64)
    step = max(1, _CHUNK // width)
    for start in range(0, size, step):
        block.use[start : start + step].argmin(axis=1, out=columns[start : start + step])
    return columns


def _mark_unusable(block: Block, least: NDArray[np.int64], spare: int) -> bool:
    over = block.use > (least + spare)[:, None]
    if not over.any():
        return False
    block.value = np.where(over, -np.inf, block.value)
    return True


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
