"""Reduced-cost fixing: the few options that a better choice could still hold.

At a multiplier lambda the *loss* of option i of job j is ``L_j - (v_ji - lambda u_ji) >= 0`` with
``L_j = max_i (v_ji - lambda u_ji)``. By weak duality a choice of value V has
``L(lambda) - V = sum of its losses + lambda * unused capacity``: an option whose own loss exceeds the gap
of a known choice is in no better one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.solvers.knapsack.menu_blocks import Columns, MenuBlocks

__all__ = ["Core", "charged", "reduce"]

_ROUNDING = 2.0**-49
_LONG = 16
"""Options a menu from which on the dominated ones among them are worth sorting out."""


@dataclass(slots=True, eq=False)
class Core:
    """What reduction left, group by group (a group is a job with a choice), least second loss first.

    Attributes
    ----------
    start
        int64 [groups + 1]: the entries of group g are ``start[g]:start[g + 1]``, least loss first; entry
        ``start[g]`` is the group's base option with loss 0 and deviation 0.
    block, job, column
        int64 [groups], int64 [groups], int64 [entries]: where an entry stands in the menus.
    loss
        float64 [entries], at least 0.
    deviation
        int64 [entries]: use above the base option's.
    value
        float64 [entries]: value, to be maximised.
    second
        float64 [groups]: the least loss of an option other than the base.
    rise, fall
        float64 [groups + 1]: the least loss per unit of use gained, or given back, by groups g and later.
    base
        Columns of the base choice (loss 0 everywhere).
    room
        Capacity that the base choice leaves; negative if it does not fit.
    multiplier
        The lambda of the losses.
    rounding
        What the float64 errors of all losses together stay below.
    """

    start: NDArray[np.int64]
    block: NDArray[np.int64]
    job: NDArray[np.int64]
    column: NDArray[np.int64]
    loss: NDArray[np.float64]
    deviation: NDArray[np.int64]
    value: NDArray[np.float64]
    second: NDArray[np.float64]
    rise: NDArray[np.float64]
    fall: NDArray[np.float64]
    base: Columns
    residual: int
    multiplier: float
    rounding: float

    @property
    def groups(self) -> int:
        """How many jobs still have a choice."""
        return int(self.start.size - 1)

    def columns(self, entries: NDArray[np.int64]) -> Columns:
        """Return the base choice with the given entry per group put in."""
        columns = [column.copy() for column in self.base]
        for number, column in enumerate(columns):
            here = self.block == number
            column[self.job[here]] = self.column[entries[here]]
        return columns

    def entries(self, columns: Columns) -> NDArray[np.int64] | None:
        """Return the entry per group that a choice takes, ``None`` if it takes something else somewhere."""
        taken = np.concatenate([columns[k][self.job[self.block == k]] for k in range(len(columns))])
        order = np.concatenate([np.flatnonzero(self.block == k) for k in range(len(columns))])
        chosen = np.empty(self.groups, dtype=np.int64)
        chosen[order] = taken
        hits = np.flatnonzero(self.column == np.repeat(chosen, np.diff(self.start)))
        return hits if hits.size == self.groups else None


def reduce(
    menus: MenuBlocks,
    multiplier: float,
    base: Columns,
    limit: float,
    prune_dominated: bool = True,
    most: int | None = None,
) -> Core | None:
    """Return the core: every option with a loss of at most `limit`, of the jobs that have more than one.

    Parameters
    ----------
    menus
        All the menus.
    multiplier
        lambda.
    base
        Columns that are best at lambda (up to rounding; the core's own base is exact).
    limit
        The gap of the best known choice.
    prune_dominated
        Drop an option if another of the same job uses no more and is worth at least as much; where menus are
        short, only if the base is such another.
    most
        Give up, with ``None``, beyond this many options: each takes memory and some two microseconds.
    """
    margin = _ROUNDING * (multiplier * menus.largest_use + limit)
    blocks, jobs, columns = [], [], []
    entries = 0
    for number, (block, chosen) in enumerate(zip(menus.blocks, base, strict=True)):
        width = block.width
        for start, stop, score in block.scores(multiplier):
            best = score.ravel().take(np.arange(0, score.size, width) + chosen[start:stop])
            least = best - (limit + margin) - _ROUNDING * np.abs(best)
            inside = np.flatnonzero(score >= least[:, None])
            if inside.size == stop - start:
                continue
            job = inside // width
            several = np.bincount(job, minlength=stop - start) > 1
            inside = inside[several[job]]
            job = inside // width
            blocks.append(np.full(job.size, number, dtype=np.int64))
            columns.append(inside - job * width)
            jobs.append(job + start)
            entries += job.size
            if most is not None and entries > most:
                return None
    if not jobs:
        return _empty(menus, base, multiplier)
    return _core(
        menus, multiplier, base, limit, prune_dominated,
        np.concatenate(blocks), np.concatenate(jobs), np.concatenate(columns),
    )  # fmt: skip


def _empty(menus: MenuBlocks, base: Columns, multiplier: float) -> Core:
    ints, floats = np.zeros(0, dtype=np.int64), np.zeros(0)
    residual = menus.capacity - menus.used(base)
    ends = np.full(1, np.inf)
    one = np.zeros(1, dtype=np.int64)
    return Core(
        one, ints, ints, ints, floats, ints, floats, floats, ends, ends, base, residual, multiplier, 0.0
    )


def _core(
    menus: MenuBlocks,
    multiplier: float,
    base: Columns,
    limit: float,
    prune_dominated: bool,
    block: NDArray[np.int64],
    job: NDArray[np.int64],
    column: NDArray[np.int64],
) -> Core:
    """Compute exact losses of the entries, each group together, and drop what is too dear or dominated."""
    value, use, chosen = np.empty(block.size), np.empty(block.size, dtype=np.int64), np.empty_like(column)
    for number, (part, pick) in enumerate(zip(menus.blocks, base, strict=True)):
        here = slice(None) if len(menus.blocks) == 1 else np.flatnonzero(block == number)
        at = job[here] * part.width + column[here]
        value[here] = part.value.ravel().take(at)
        use[here] = part.use.ravel().take(at)
        chosen[here] = pick[job[here]]
    start, group = _groups(block, job)
    origin = np.flatnonzero(column == chosen)
    gain, deviation = value - value[origin][group], use - use[origin][group]
    loss = multiplier * deviation - gain
    lowest = np.minimum.reduceat(loss, start)
    wrong = np.flatnonzero(lowest < 0.0)
    if wrong.size:  # the base was best only up to rounding: take the true one
        hits = np.flatnonzero(loss == lowest[group])
        origin = origin.copy()
        origin[group[hits][::-1]] = np.where(lowest[group[hits]] < 0.0, hits, origin[group[hits]])[::-1]
        base = [pick.copy() for pick in base]
        for number, pick in enumerate(base):
            moved = origin[wrong][block[origin[wrong]] == number]
            pick[job[moved]] = column[moved]
        gain, deviation = value - value[origin][group], use - use[origin][group]
        loss = np.maximum(multiplier * deviation - gain, 0.0)
    size = np.abs(gain) + multiplier * np.abs(deviation)
    rounding = 2.0**-50 * float(np.maximum.reduceat(size, start).sum())
    is_base = np.zeros(loss.size, dtype=np.bool_)
    is_base[origin] = True
    keep = (loss <= limit + rounding) | is_base
    if prune_dominated:
        keep &= ~((deviation >= 0) & (gain <= 0.0) & ~is_base)
        if np.count_nonzero(keep) > _LONG * start.size:
            keep = _undominated(group, gain, deviation, keep) | is_base
    several = np.bincount(group[keep], minlength=start.size) > 1
    entries = np.flatnonzero(keep & several[group])
    if not entries.size:
        empty = _empty(menus, base, multiplier)
        empty.rounding = rounding
        return empty
    return _ordered(
        menus, multiplier, base, rounding, block[entries], job[entries], column[entries],
        loss[entries], deviation[entries], value[entries], is_base[entries],
    )  # fmt: skip


def _ordered(
    menus: MenuBlocks,
    multiplier: float,
    base: Columns,
    rounding: float,
    block: NDArray[np.int64],
    job: NDArray[np.int64],
    column: NDArray[np.int64],
    loss: NDArray[np.float64],
    deviation: NDArray[np.int64],
    value: NDArray[np.float64],
    is_base: NDArray[np.bool_],
) -> Core:
    """Order entries by loss within their group, the base first, and groups by their second loss."""
    start, group = _groups(block, job)
    order = np.lexsort((deviation, loss, ~is_base, group))
    second = loss[order][start + 1]
    # Scattered, so that groups of equal second loss do not all pull the same way; equal menus stay together.
    total = np.add.reduceat(0.618 * loss[order] + deviation[order], start)
    signature = np.mod(total * 0.6180339887, 1.0)
    rank = np.lexsort((signature, second))
    lengths = np.empty_like(start)
    lengths[:-1], lengths[-1] = start[1:] - start[:-1], order.size - start[-1]
    counts = lengths[rank]
    starts = np.zeros(counts.size + 1, dtype=np.int64)
    np.cumsum(counts, out=starts[1:])
    order = order[np.repeat(start[rank] - starts[:-1], counts) + np.arange(order.size)]
    loss, deviation = loss[order], deviation[order]
    rise, fall = _slopes(loss, deviation, starts[:-1])
    return Core(
        start=starts, block=block[order][starts[:-1]], job=job[order][starts[:-1]], column=column[order],
        loss=loss, deviation=deviation, value=value[order], second=second[rank], rise=rise, fall=fall,
        base=base, residual=menus.capacity - menus.used(base), multiplier=multiplier, rounding=rounding,
    )  # fmt: skip


def charged(core: Core, menus: MenuBlocks, wanted: Columns, charge: float) -> Core:
    """Return the core with `charge` added to the loss of every option other than the wanted one of its job.

    The base becomes the option of least loss so charged, so that losses stay at least 0 and the base free.
    """
    groups = np.repeat(np.arange(core.groups), np.diff(core.start))
    target = np.empty(core.groups, dtype=np.int64)
    for number, column in enumerate(wanted):
        here = core.block == number
        target[here] = column[core.job[here]]
    loss = core.loss + np.where(core.column == target[groups], 0.0, charge)
    lowest = np.minimum.reduceat(loss, core.start[:-1])
    hits = np.flatnonzero(loss == lowest[groups])
    origin = hits[np.concatenate(([True], groups[hits][1:] != groups[hits][:-1]))]
    is_base = np.zeros(loss.size, dtype=np.bool_)
    is_base[origin] = True
    return _ordered(
        menus, core.multiplier, core.columns(origin), core.rounding, core.block[groups], core.job[groups],
        core.column, loss - lowest[groups], core.deviation - core.deviation[origin][groups],
        core.value, is_base,
    )  # fmt: skip


def _groups(block: NDArray[np.int64], job: NDArray[np.int64]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return where each run of one job starts, and the number of each entry's run."""
    change = np.empty(job.size, dtype=np.bool_)
    change[0] = True
    np.not_equal(job[1:], job[:-1], out=change[1:])
    change[1:] |= block[1:] != block[:-1]
    return np.flatnonzero(change), np.cumsum(change) - 1


def _undominated(
    group: NDArray[np.intp], gain: NDArray[np.float64], deviation: NDArray[np.int64], keep: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Return which entries are worth more than every kept entry of their group that uses no more."""
    entries = np.flatnonzero(keep)
    left = entries[np.lexsort((-gain[entries], deviation[entries], group[entries]))]
    is_open = True
    while is_open:  # an entry goes by the one before it, or, where that goes too, by one that stays
        risen = np.ones(left.size, dtype=np.bool_)
        risen[1:] = (gain[left[1:]] > gain[left[:-1]]) | (group[left[1:]] != group[left[:-1]])
        left, is_open = left[risen], not risen.all()
    result = np.zeros(group.size, dtype=np.bool_)
    result[left] = True
    return result


def _slopes(
    loss: NDArray[np.float64], deviation: NDArray[np.int64], start: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return, per group, the least loss per unit of use that it and later groups gain, and give back."""
    slope = np.full(loss.size, np.inf)
    np.divide(loss, np.abs(deviation), out=slope, where=deviation != 0)
    ends = np.full((2, start.size + 1), np.inf)
    for end, towards in zip(ends, (deviation > 0, deviation < 0), strict=True):
        np.minimum.reduceat(np.where(towards, slope, np.inf), start, out=end[:-1])
        np.minimum.accumulate(end[::-1], out=end[::-1])
    return ends[0], ends[1]
