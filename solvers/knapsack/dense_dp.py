"""Plain dynamic programming over one whole capacity: slow, simple, and the reference for everything faster.

``best[c]`` is the greatest value of the jobs so far within capacity c; every job tries every option at every
c. Time and memory grow with jobs x options x capacity and jobs x capacity.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from apportion.core.errors import BackendUnavailable
from apportion.core.options import Incumbent, SolveOptions, Start
from apportion.core.outcome import Outcome, Termination
from apportion.models import MultipleChoiceKnapsack
from apportion.solvers.clock import Clock

__all__ = ["solve"]

_TABLE_BYTES = 2**30


def solve(model: MultipleChoiceKnapsack, options: SolveOptions, start: Start | None = None) -> Outcome:
    """Solve a knapsack with one capacity by tabulating every capacity from 0 up.

    Parameters
    ----------
    model
        The model; either sense. Its capacity is cut to the sum of the jobs' greatest uses.
    options
        `time_limit` and `work_limit` (one unit per job, option and capacity) stop it without a choice.
    start
        Not used.

    Returns
    -------
    Outcome
        `MEMORY_LIMIT` without a choice if the table of decisions would exceed 1 GiB.

    Raises
    ------
    BackendUnavailable
        If the model has not exactly one capacity.
    """
    if model.num_capacities != 1:
        raise BackendUnavailable(f"dense-dp takes one capacity, the model has {model.num_capacities}")
    clock = Clock(options)
    sizes = np.diff(model.offsets)
    greatest = np.zeros(model.num_jobs, dtype=np.int64)
    if model.num_options:
        greatest[sizes > 0] = np.maximum.reduceat(model.uses[:, 0], model.offsets[:-1][sizes > 0])
    capacity = min(int(model.capacities[0]), int(greatest.sum()))
    decision = np.dtype(np.int16 if sizes.max(initial=0) < 2**15 else np.int32)
    cells = model.num_jobs * (capacity + 1)
    if cells * decision.itemsize + 32 * (capacity + 1) > _TABLE_BYTES:
        return Outcome(
            termination=Termination.MEMORY_LIMIT,
            raw_status=f"a table of {cells} cells exceeds {_TABLE_BYTES} bytes",
        )
    taken = np.full((model.num_jobs, capacity + 1), -1, dtype=decision)
    best = np.zeros(capacity + 1)
    for job in range(model.num_jobs):
        if (stopped := clock.stopped()) is not None:
            return Outcome(termination=stopped, raw_status=f"stopped after {job} jobs")
        best = _decided(model, job, best, taken[job])
        clock.charge(int(sizes[job]) * (capacity + 1))
    if best.max() == -np.inf:
        return Outcome(termination=Termination.INFEASIBLE, raw_status="no choice fits the capacity")
    choice = _traced(model, taken, int(best.argmax()))
    objective = model.objective(choice)
    seconds = clock.seconds
    if options.on_incumbent is not None:
        options.on_incumbent(Incumbent(objective, objective, seconds))
    return Outcome(
        termination=Termination.OPTIMAL,
        raw_status="the table is complete",
        point=choice,
        objective=objective,
        bound=objective,
        bound_source="dynamic_programming",
        seconds={"solve": seconds},
        counters={"cells": float(cells), "work": clock.work},
    )


def _decided(
    model: MultipleChoiceKnapsack, job: int, best: NDArray[np.float64], taken: NDArray[np.integer]
) -> NDArray[np.float64]:
    """Return the greatest values with one job more; write its option at every capacity into `taken`."""
    sign = 1.0 if model.sense == "maximize" else -1.0
    new = np.full(best.size, -np.inf) if model.required[job] else best.copy()
    for number, row in enumerate(range(int(model.offsets[job]), int(model.offsets[job + 1]))):
        use = int(model.uses[row, 0])
        if use >= best.size:
            continue
        value = best[: best.size - use] + sign * model.values[row]
        better = value > new[use:]
        new[use:][better] = value[better]
        taken[use:][better] = number
    return new


def _traced(model: MultipleChoiceKnapsack, taken: NDArray[np.integer], at: int) -> NDArray[np.int64]:
    """Return the choice that the decisions lead back to from a capacity."""
    choice = np.full(model.num_jobs, -1, dtype=np.int64)
    for job in range(model.num_jobs - 1, -1, -1):
        number = int(taken[job, at])
        if number >= 0:
            choice[job] = model.offsets[job] + number
            at -= int(model.uses[choice[job], 0])
    return choice
