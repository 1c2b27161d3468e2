"""Covers, and relaxations that know them: what a few jobs cannot use of one capacity together.

Where jobs that use at least t_j of a capacity would need more than there is of it, one of them uses less:

    sum over j of sum over options i of j with u_ijk >= t_j of x_ij  <=  number of these jobs - 1,

and every other job that uses as much as the largest t_j counts as well, since it could stand for any of them.
A relaxation of the capacity alone halves jobs that fill it: a node of 8 GPUs takes a half of a job of 8
beside four whole ones of 1. A point x breaks a cover if what its jobs lack, 1 less what x gives them at t_j
or more, adds up to less than 1; of every capacity the cover whose jobs lack least is found exactly, by a
table over sums (Crowder, Johnson and Padberg, *Solving Large-Scale Zero-One Linear Programming Problems*,
Operations Research 31(5), 1983, where a job has one use).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from apportion.core.outcome import Cover
from apportion.solvers.clock import Clock
from apportion.solvers.multiknapsack.linear_dual import columns_of, programme_of
from apportion.solvers.multiknapsack.option_table import (
    ChoiceIncumbent,
    OptionTable,
    bound_at,
    noise,
    reachable,
)

__all__ = ["CoverRelaxation", "broken_covers"]


_LARGEST = 4096
"""Amount of a capacity up to which sums within it are a table,"""
_CELLS = 4_000_000
"""and cells of all these tables, after which no more capacities are looked at."""
_BROKEN = 0.02
"""By how much a cover must be broken."""
_WHOLE = 1e-6
"""By how much a share of an option is off a whole number that counts as one."""
_IDLE = 30
"""Rounds of covers that do not lower the bound, after which there are no more."""
_DOUBLINGS = 20
"""Steps along a ray, each twice the one before."""
_LOWER = 0.01
"""By what part of the gap it must be lower to count."""
_SECONDS_PER_RELAXATION = 1e-2
"""What deterministic mode charges for a relaxation."""


class CoverRelaxation:
    """The relaxation of menus, under more and more covers.

    Parameters
    ----------
    menus
        At least one option a job.
    prices, bound
        Near-optimal prices and what they show, with its rounding.
    best
        The incumbent; a relaxation that divides no option raises it.

    Attributes
    ----------
    menus
        The options within reach of what is better than the incumbent, under a row for every cover.
    covers
        Behind the capacities.
    prices
        float64 [capacities and covers]: those of the least bound.
    bound
        What these show, with its rounding.
    steps
        Every lower bound on the way, and the prices that show it: options are left out by each.
    """

    def __init__(
        self, menus: OptionTable, prices: NDArray[np.float64], bound: float, best: ChoiceIncumbent
    ) -> None:
        self.menus, self.prices, self.bound, self._best = menus, prices, bound, best
        self.covers: list[Cover] = []
        self.steps: list[tuple[float, NDArray[np.float64]]] = []
        self._capacities = menus.num_capacities
        self._reduce()

    @property
    def is_closed(self) -> bool:
        """Whether nothing is left that is better than the incumbent."""
        floor = self._best.floor
        return (floor is not None and self.bound < floor) or bool((np.diff(self.menus.offsets) == 0).any())

    def run(self, clock: Clock) -> bool:
        """Add covers until none is broken, or they lower the bound no more; true if nothing is left."""
        menus, idle = self.menus, 0
        columns = np.arange(menus.num_options)
        programme = programme_of(menus)
        programme.add(*columns_of(menus, np.ones(columns.size, dtype=np.bool_)))
        while not self.is_closed and idle < _IDLE and not clock.late():
            found = programme.solved(clock.uncounted)
            clock.charge(1, _SECONDS_PER_RELAXATION)
            if found is None:
                self._overdraw(programme.ray())
                break
            point, before = found.point[columns], self.bound
            self._price(np.maximum(found.duals[menus.num_jobs :], 0.0))
            if (np.abs(point - np.rint(point)) <= _WHOLE).all():
                self._best.take(self.menus.rows[self.menus.best_choice(point)])
            floor = -np.inf if self._best.floor is None else self._best.floor
            idle = 0 if before - self.bound > _LOWER * (before - floor) else idle + 1
            broken = broken_covers(self.menus, self._capacities, point)
            if not broken:
                break
            options = [own for _, own in broken]
            most = np.array([float(cover.most) for cover, _ in broken])
            begins = np.concatenate(([0], np.cumsum([own.size for own in options])))
            own = np.concatenate(options)
            programme.add_rows(most, begins, columns[own], np.ones(own.size))
            room = np.append(self.menus.capacities, most)
            self.menus = self.menus.with_rows([(own, np.ones(own.size)) for own in options], room)
            self.prices = np.append(self.prices, np.zeros(most.size))
            self.covers += [cover for cover, _ in broken]
            kept = self._reduce()
            programme.leave_out(columns[~kept])
            columns = columns[kept]
        return self.is_closed

    def _price(self, prices: NDArray[np.float64]) -> None:
        """Keep prices if they show less."""
        shown = bound_at(self.menus, prices) + noise(self.menus, prices)
        if shown < self.bound:
            self.bound, self.prices = shown, prices
            self.steps.append((shown, prices))

    def _overdraw(self, ray: NDArray[np.float64] | None) -> None:
        """Take prices far along a ray that says that the options left cannot keep all rows."""
        if ray is None:
            return
        step = np.abs(ray[self.menus.num_jobs :])
        step *= max(1.0, float(self.prices.max(initial=0.0))) / max(_WHOLE, float(step.max(initial=0.0)))
        for _ in range(_DOUBLINGS):
            self._price(self.prices + step)
            if self.is_closed:
                break
            step *= 2.0

    def _reduce(self) -> NDArray[np.bool_]:
        """Keep the options that are within reach, and return which of those before these are."""
        kept, floor = np.ones(self.menus.num_options, dtype=np.bool_), self._best.floor
        if floor is not None:
            kept = reachable(self.menus, self.prices, self.bound, floor)
            self.menus = self.menus.keep(kept)
        return kept


def broken_covers(
    menus: OptionTable, capacities: int, point: NDArray[np.float64]
) -> list[tuple[Cover, NDArray[np.int64]]]:
    """Return covers that a point breaks, at most one of each capacity, each with the options that count.

    Parameters
    ----------
    menus
        The options; only the first capacities are looked at.
    capacities
        How many these are.
    point
        float64 [options]: how much of each is chosen.
    """
    capacity, option, use = menus.entries()
    ends = np.searchsorted(capacity, np.arange(capacities + 1))
    divided = np.abs(point - np.rint(point)) > _WHOLE
    touched = np.unique(capacity[: ends[-1]][divided[option[: ends[-1]]]])
    found, cells = list[tuple[Cover, NDArray[np.int64]]](), 0
    for k in touched.tolist():
        own, amount = option[ends[k] : ends[k + 1]], use[ends[k] : ends[k + 1]].astype(np.int64)
        unit = int(np.gcd.reduce(amount))
        room, some = int(menus.capacities[k]) // unit, np.flatnonzero(point[own] > _WHOLE)
        cells += some.size * (room + 2)
        if room > _LARGEST:
            continue
        if cells > _CELLS:
            break
        least = _least_lacking(menus.job[own[some]], amount[some] // unit, point[own[some]], room)
        if least is None:
            continue
        others = max(least.values())
        wanted = np.full(menus.num_jobs, others)
        wanted[list(least)] = list(least.values())
        cover = Cover(k, {job: at * unit for job, at in least.items()}, others * unit, len(least) - 1)
        found.append((cover, own[amount >= wanted[menus.job[own]] * unit]))
    return found


def _least_lacking(
    job: NDArray[np.int64], use: NDArray[np.int64], share: NDArray[np.float64], room: int
) -> dict[int, int] | None:
    """Return the cover whose jobs lack least, as what each must use; ``None`` where it is not broken.

    Parameters
    ----------
    job, use, share
        [options]: of one capacity; several options of a job may use as much.
    room
        The capacity.
    """
    order = np.lexsort((-use, job))
    job, use, share = job[order], use[order], share[order]
    begins = np.flatnonzero(np.diff(job, prepend=-1))
    total = np.cumsum(share)
    given = total - np.repeat(total[begins] - share[begins], np.diff(np.append(begins, job.size)))
    last = np.append((np.diff(job) != 0) | (np.diff(use) != 0), True)  # of a job's options that use as much
    lacking = np.maximum(0.0, 1.0 - given)
    near = np.flatnonzero(last & (lacking < 1.0 - _BROKEN))
    groups = np.split(near, np.flatnonzero(np.diff(job[near])) + 1)
    table = np.full(room + 2, np.inf)  # by the sum of what jobs use, all sums beyond the room as one
    table[0] = 0.0
    tables = [table]
    for group in groups:
        table = table.copy()
        for at in group.tolist():
            begin = max(0, room + 1 - int(use[at]))
            before = tables[-1]
            table[use[at] : -1] = np.minimum(table[use[at] : -1], before[:begin] + lacking[at])
            table[-1] = min(table[-1], before[begin:].min() + lacking[at])
        tables.append(table)
    if not table[-1] < 1.0 - _BROKEN:
        return None
    found, here = dict[int, int](), room + 1
    for group, before, after in zip(groups[::-1], tables[-2::-1], tables[:0:-1], strict=True):
        if before[here] == after[here]:
            continue
        for at in group.tolist():
            begin = max(0, here - int(use[at]))
            come = begin + int(before[begin:].argmin()) if here > room else begin
            if come + use[at] >= here and before[come] + lacking[at] == after[here]:
                found[int(job[at])], here = int(use[at]), come
                break
    for one in sorted(found, key=found.__getitem__):
        if sum(found.values()) - found[one] > room:
            del found[one]
    return found
