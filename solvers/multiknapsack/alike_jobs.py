"""Jobs with the same menus as one job with a count: what is solved in whole numbers has no symmetry then.

In any choice two such jobs can exchange their options, so only how many of them have which option counts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from apportion.models.linear import LinearModel
from apportion.solvers.multiknapsack.linear_dual import written
from apportion.solvers.multiknapsack.option_table import OptionTable

__all__ = ["AlikeJobs", "alike_jobs"]


@dataclass(frozen=True, slots=True, eq=False)
class AlikeJobs:
    """Menus of which every one stands for several jobs.

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

    def written(self) -> LinearModel:
        """Return the menus as a linear model: how many jobs of every class have an option."""
        model, classes = written(self.menus), self.menus.num_jobs
        counts = self.counts.astype(np.float64)
        lower, upper = model.row_lower.copy(), model.row_upper.copy()
        lower[:classes] = upper[:classes] = counts
        return replace(model, upper=counts[self.menus.job], row_lower=lower, row_upper=upper)

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


_MOST_CELLS = 4_000_000
"""Cells of sparse menus up to which jobs are compared."""


def alike_jobs(menus: OptionTable) -> AlikeJobs:
    """Return menus by classes of jobs whose options are the same in the same order."""
    if menus.is_sparse and menus.num_options * menus.num_capacities > _MOST_CELLS:
        kind = np.arange(menus.num_options)  # every job is one of a kind
    else:
        rows = np.vstack((menus.values, menus.uses)).T
        kind = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
    sizes, begins = np.diff(menus.offsets), menus.offsets[:-1]
    whose, first = np.empty(menus.num_jobs, dtype=np.int64), list[NDArray[np.int64]]()
    known = 0
    for size in np.unique(sizes).tolist():
        jobs = np.flatnonzero(sizes == size)
        signs = kind[begins[jobs, None] + np.arange(size)]
        _, firsts, place = np.unique(signs, axis=0, return_index=True, return_inverse=True)
        whose[jobs] = known + place.reshape(-1)
        first.append(jobs[firsts])
        known += firsts.size
    order = np.argsort(np.concatenate(first))  # classes in the order of their first jobs
    rank = np.empty(known, dtype=np.int64)
    rank[order] = np.arange(known)
    whose, chosen = rank[whose], np.concatenate(first)[order]
    counts = np.bincount(whose, minlength=known)
    return AlikeJobs(menus.part(chosen, menus.capacities), counts, whose, menus.offsets)
