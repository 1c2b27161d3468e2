"""``scipy.optimize.linear_sum_assignment``: shortest augmenting paths for one job per machine."""

from __future__ import annotations

import numpy as np

from apportion.core.outcome import Termination
from benchmarks.peers.task import Answer, CannotTake, Limits, Task, Watch

__all__ = ["solve"]


def solve(task: Task, limits: Limits) -> Answer:
    """Fill the matrix and match; it knows no limit."""
    from scipy.optimize import linear_sum_assignment

    watch = Watch()
    model = task.assignment
    if model is None or model.goal == "makespan" or not model.limited.all() or (model.capacities != 1).any():
        raise CannotTake("takes one job per machine only")
    if (model.uses != 1).any() or not model.required.all():
        raise CannotTake("takes required jobs of use 1 only")
    worst = np.inf if model.goal == "cost" else -np.inf
    matrix = model.matrix()
    matrix[np.isnan(matrix)] = worst
    entry = model.rows()
    watch.lap("build")
    jobs, machines = linear_sum_assignment(matrix, maximize=model.goal == "value")
    watch.lap("solve")
    x = np.zeros(model.num_options)
    x[entry[jobs, machines]] = 1.0
    objective = float(matrix[jobs, machines].sum())
    watch.saw(objective, objective)
    return Answer(
        termination=Termination.OPTIMAL,
        raw_status="matched",
        x=x,
        objective=objective,
        bound=objective,
        watch=watch,
    )
