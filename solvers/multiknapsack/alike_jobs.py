"""Jobs alike: menus of which every one stands for several jobs, as of an array of tasks.

In any choice two jobs with the same menu can exchange their options, so only how many of them have which
option counts: what is solved in whole numbers has no symmetry then, and a relaxation has a column for the
options of all of them together.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from apportion.models.linear import Block, LinearModel
from apportion.solvers.multiknapsack.option_table import OptionTable

__all__ = ["AlikeJobs", "alike_jobs", "written"]


def written(menus: OptionTable) -> LinearModel:
    """Return the menus as a linear model: a row per job, then a row per capacity."""
    num, jobs, caps = menus.num_options, menus.num_jobs, menus.num_capacities
    rows, columns, uses = menus.entries()
    ends = num + np.cumsum(np.bincount(rows, minlength=caps))
    return LinearModel(
        sense="maximize",
        cost=menus.values,
        offset=0.0,
        lower=np.zeros(num),
        upper=np.ones(num),
        integer=np.ones(num, dtype=np.bool_),
        row_lower=np.concatenate((np.ones(jobs), np.full(caps, -np.inf))),
        row_upper=np.concatenate((np.ones(jobs), menus.capacities)),
        indptr=np.concatenate((menus.offsets, ends)).astype(np.int32),
        indices=np.concatenate((np.arange(num), columns)).astype(np.int32),
        data=np.concatenate((np.ones(num), uses)),
        variables=(Block("x", 0, (num,)),),
        rows=(Block("one_option", 0, (jobs,)), Block("capacity", jobs, (caps,))),
    )


@dataclass(frozen=True, slots=True, eq=False)
class AlikeJobs:
    """Jobs by classes of those that are alike.

    Attributes
    ----------
    menus
        The menu of the first job of every class.
    counts
        int64 [classes]: how many jobs it is the menu of.
    """

    menus: OptionTable
    counts: NDArray[np.int64]
    _class: NDArray[np.int64]
    _offsets: NDArray[np.int64]

    @property
    def are_most(self) -> bool:
        """Whether most jobs are alike: a class of them is worth being taken as one."""
        return self.counts.size <= _MOST_ALIKE * self._class.size

    def written(self) -> LinearModel:
        """Return the menus as a linear model: how many jobs of every class have an option."""
        model, classes = written(self.menus), self.menus.num_jobs
        counts = self.counts.astype(np.float64)
        lower, upper = model.row_lower.copy(), model.row_upper.copy()
        lower[:classes] = upper[:classes] = counts
        return replace(model, upper=counts[self.menus.job], row_lower=lower, row_upper=upper)

    def together(self) -> OptionTable:
        """Return menus of one job a class, which is worth and uses as much as all of its jobs.

        Its relaxation is that of the menus: what a class has of an option is the share of jobs that have it.
        """
        menus, counts = self.menus, self.counts.astype(np.float64)[self.menus.job]
        matrix = menus.matrix
        if isinstance(matrix, np.ndarray):
            return replace(menus, values=menus.values * counts, matrix=matrix * counts)
        scaled = matrix.copy()
        scaled.data = scaled.data * np.repeat(counts, np.diff(matrix.indptr))
        return replace(menus, values=menus.values * counts, matrix=scaled)

    def divided(self, shares: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the choice that is nearest to shares of every class, float64 [options of the classes]."""
        amounts = shares * self.counts[self.menus.job]
        whole = np.floor(amounts + _NEARLY)
        order = np.lexsort((whole - amounts, self.menus.job))
        missing = self.counts - np.bincount(self.menus.job, weights=whole).astype(np.int64)
        rank = np.empty(order.size, dtype=np.int64)
        rank[order] = np.arange(order.size) - self.menus.offsets[:-1][self.menus.job]
        choice = self.outward(whole + (rank < missing[self.menus.job]))
        return self.menus.best_choice(shares)[self._class] if choice is None else choice

    def inward(self, choice: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the point that a choice is, float64 [options of the classes]."""
        place = self.menus.offsets[self._class] + choice - self._offsets[:-1]
        return np.bincount(place, minlength=self.menus.num_options).astype(np.float64)

    def outward(self, point: NDArray[np.float64]) -> NDArray[np.int64] | None:
        """Return a choice that a point of whole numbers is; ``None`` where it gives a job none or several."""
        whole = np.rint(point).astype(np.int64)
        if (whole < 0).any() or not np.array_equal(
            np.bincount(self.menus.job, weights=whole, minlength=self.counts.size), self.counts
        ):
            return None
        place = np.repeat(np.arange(whole.size) - self.menus.offsets[:-1][self.menus.job], whole)
        choice = np.empty(self._class.size, dtype=np.int64)
        choice[np.argsort(self._class, kind="stable")] = place
        return choice + self._offsets[:-1]


_MOST_ALIKE = 0.5
"""Classes to every job up to which most are alike."""
_NEARLY = 1e-6
"""What a share may lack of a whole job to count as one."""


def alike_jobs(menus: OptionTable) -> AlikeJobs:
    """Return menus by classes of jobs whose options are the same in the same order."""
    whose = _classes(menus)
    first = np.unique(whose, return_index=True)[1]
    if first.size == menus.num_jobs:
        some = replace(menus, rows=np.arange(menus.num_options))
    else:
        some = menus.part(first, menus.capacities)
    return AlikeJobs(some, np.bincount(whose), whose, menus.offsets)


def _classes(menus: OptionTable) -> NDArray[np.int64]:
    """Return the class of every job, int64 [jobs], numbered in the order of their first jobs.

    Sums of random words tell jobs apart, and those with the same sums are compared.
    """
    every = np.arange(menus.num_jobs)
    sums = np.add.reduceat(menus.values, menus.offsets[:-1])
    if np.unique(sums).size == menus.num_jobs:
        return every
    _, first, whose = np.unique(_signs(menus), return_index=True, return_inverse=True)
    if first.size == menus.num_jobs or not _are_same(menus, first[whose]):
        return every
    rank = np.empty(first.size, dtype=np.int64)
    rank[np.argsort(first)] = np.arange(first.size)
    return rank[whose]


def _signs(menus: OptionTable) -> NDArray[np.uint64]:
    """Return a number of every job, uint64 [jobs], which jobs alike share."""
    sizes, words = np.diff(menus.offsets), np.random.default_rng(0).integers
    most = np.iinfo(np.uint64).max
    capacity, option, use = menus.entries_by_option()
    mixed = _mixed(use) * words(0, most, menus.num_capacities, np.uint64)[capacity]
    before = np.concatenate((np.zeros(1, dtype=np.uint64), np.cumsum(mixed)))
    ends = np.cumsum(np.bincount(option, minlength=menus.num_options))
    used = np.diff(before[np.concatenate(([0], ends))])
    sign = used + _mixed(menus.values) * words(0, most, 1, np.uint64)
    place = np.arange(menus.num_options) - np.repeat(menus.offsets[:-1], sizes)
    sign ^= sign >> np.uint64(31)
    of_place = words(0, most, int(sizes.max()), np.uint64)[place]
    return np.asarray(np.add.reduceat(sign * of_place, menus.offsets[:-1]) ^ sizes.astype(np.uint64))


def _mixed(numbers: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Return the bits of numbers, uint64, the last ones with those that differ most."""
    bits = (numbers + 0.0).view(np.uint64)  # the same of -0.0 and 0.0
    return bits ^ (bits >> np.uint64(32))


def _are_same(menus: OptionTable, like: NDArray[np.int64]) -> bool:
    """Return whether every job has the options of another one, int64 [jobs]."""
    sizes = np.diff(menus.offsets)
    if not np.array_equal(sizes, sizes[like]):
        return False
    begins = menus.offsets[:-1]
    others = np.arange(menus.num_options) + np.repeat(begins[like] - begins, sizes)
    if not np.array_equal(menus.values, menus.values[others]):
        return False
    ours, theirs = menus.entries_by_option(), menus.entries_by_option(others)
    return all(np.array_equal(one, other) for one, other in zip(ours, theirs, strict=True))
