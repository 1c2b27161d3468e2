"""Re-optimise the jobs of a few machines exactly: a small makespan problem around the busiest machine."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from apportion.models.assignment import Assignment
from apportion.models.assignment_lowering import lower_assignment
from apportion.options import SolveOptions
from apportion.solvers.assignment.mip import branch_and_bound
from apportion.solvers.makespan.local_search import ScheduleSearch

__all__ = ["rebalanced"]


def rebalanced(
    search: ScheduleSearch,
    machines: NDArray[np.int64],
    model: Assignment,
    allowed: NDArray[np.bool_],
    seconds: float,
    options: SolveOptions,
    whole: bool,
) -> NDArray[np.int64] | None:
    """Return the machine of every job after the given machines end before the present makespan.

    Parameters
    ----------
    search
        The present schedule.
    machines
        int64: machines whose jobs may move among them.
    model
        The whole assignment.
    allowed
        bool [entries] still open.
    seconds
        Time for it.
    options
        The options of the call.
    whole
        Whether all times are whole numbers.

    Returns
    -------
    ndarray or None
        ``None`` if no better schedule was found.
    """
    top = search.makespan()
    jobs = np.flatnonzero(np.isin(search.placed, machines))
    rows = search.rows[np.ix_(jobs, machines)]
    usable = (rows >= 0) & allowed[np.maximum(rows, 0)]
    if not usable.any(axis=1).all():
        return None
    times = np.where(usable, search.time[np.ix_(jobs, machines)], np.nan)
    small = Assignment.from_matrix("makespan", times)
    lowered = lower_assignment(small)
    target = top - 1 if whole else top * (1 - 1e-9)
    branched = branch_and_bound(
        lowered.model,
        None if options.time_limit is None else seconds,
        None,
        None,
        1e-4,
        options.seed,
        500 if options.time_limit is None else None,
        ceiling=target,
    )
    if branched.point is None:
        return None
    choice = lowered.choice(branched.point)
    if (choice < 0).any():
        return None
    placed = search.placed.copy()
    placed[jobs] = machines[small.machine[choice]]
    return placed
