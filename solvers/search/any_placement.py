"""Any placement of all jobs that keeps the capacities, or that there is none: the tree without costs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from apportion.solvers.search.assignment_tree import LARGEST_SUM, AssignmentTree, Placement
from apportion.solvers.search.slices import Slices
from apportion.solvers.search.status import Status

__all__ = ["any_placement"]

_NODES = 2**40
"""Searched to the end, as far as the limits of the call let it."""


def any_placement(
    use: NDArray[np.int64], capacity: NDArray[np.int64], allowed: NDArray[np.bool_], slices: Slices
) -> tuple[Status, NDArray[np.int32] | None]:
    """Return how the search ended, and int32 [jobs], the machine of every job, where there is a placement.

    Parameters
    ----------
    use
        int64 [machines, jobs], at least 0.
    capacity
        int64 [machines], at least 0.
    allowed
        bool [machines, jobs]: whether the job may go there.
    slices
        Limits of the call.
    """
    jobs = use.shape[1]
    unit = LARGEST_SUM // (64 * jobs * jobs)
    size = use / np.maximum(capacity, 1)[:, None]
    least = np.where(allowed, size, np.inf).min(axis=0)
    most = float(least[np.isfinite(least)].max(initial=0.0))
    prices = np.full(jobs, float(unit)) if most <= 0 else np.rint(unit * least / most)
    whole = np.where(np.isfinite(prices), prices, unit).astype(np.int64)
    nothing = Placement(np.zeros_like(use), use[None], capacity[None], allowed.astype(np.uint8))
    return slices.run(AssignmentTree(nothing, 0, unit, whole, _NODES), _NODES)
