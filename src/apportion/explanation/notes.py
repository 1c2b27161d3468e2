"""The notes that every explanation of a plan may begin with."""

from __future__ import annotations

from apportion.outcome import Termination
from apportion.solution import Solution

__all__ = ["MOST_JOBS", "unlisted", "unproven"]

MOST_JOBS = 1000
"""Jobs that are listed unless one is asked for."""


def unproven(solution: Solution) -> list[str]:
    """Return a note that worths are bounds, unless the plan is proven optimal."""
    if solution.termination is Termination.OPTIMAL:
        return []
    return [f"the plan is not proven optimal ({solution.termination.value}): worths are given as bounds"]


def unlisted(num_jobs: int) -> list[str]:
    """Return a note that not all jobs are listed, where there are too many of them."""
    if num_jobs <= MOST_JOBS:
        return []
    return [f"{num_jobs - MOST_JOBS} of {num_jobs} jobs are not listed; ask for one by its name"]
