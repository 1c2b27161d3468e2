"""Gavel's minimum makespan as published: a bisection over feasibility programs, on HiGHS.

``min_total_duration.py`` (Narayanan et al., OSDI 2020): T from 100 to 10^6 seconds, until 1.05 lo >= hi.
"""

from __future__ import annotations

import numpy as np

from apportion.core.outcome import Termination
from apportion.models.lowering import lower_assignment
from apportion.solvers.assignment.relaxation import Unsolved, relax
from benchmarks.peers.task import Answer, CannotTake, Limits, Task, Watch

__all__ = ["solve"]


def solve(task: Task, limits: Limits) -> Answer:
    """Bisect, and answer with the shares of the last program that was feasible."""
    if task.assignment is None or not task.assignment.divisible:
        raise CannotTake("bisects over shares of time")
    watch = Watch()
    lowered = lower_assignment(task.assignment).model
    watch.lap("build")
    low, high, x = 100.0, 1e6, None
    while 1.05 * low < high and watch.left(limits.seconds) > 0.01:
        middle = (low + high) / 2
        lowered.upper[-1] = middle
        found = relax(lowered)
        if isinstance(found, Unsolved):
            low = middle
        else:
            high, x = middle, np.asarray(found.point[:-1])
    watch.lap("solve")
    watch.saw(high, None)
    return Answer(
        termination=Termination.SOLUTION_LIMIT,
        raw_status=f"between {low:g} and {high:g}",
        x=x,
        objective=high,
        bound=None,
        watch=watch,
    )
