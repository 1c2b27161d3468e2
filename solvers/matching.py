"""Solve an assignment by the solver for its structure: transportation, costs or makespan."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.models.assignment import Assignment
from apportion.models.assignment_bounds import pooled
from apportion.options import SolveOptions, Start
from apportion.outcome import Outcome, Termination
from apportion.solvers.assignment.call import AssignmentCall
from apportion.solvers.assignment.linear_assignment import is_transportation, potentials, solve_slots

__all__ = ["solve", "start"]


def solve(model: Assignment, options: SolveOptions, start: Start) -> Outcome:
    """Solve an assignment by structure.

    Parameters
    ----------
    model
        The assignment.
    options
        Limits; `options.time_limit` is what is left for this call.
    start
        A feasible point to begin with; of the rest nothing is used.
    """
    call = AssignmentCall.begun(model, options)
    try:
        return _solved(call, start)
    except KeyboardInterrupt:
        return call.interrupted()


def _solved(call: AssignmentCall, start: Start) -> Outcome:
    model = call.model
    stuck = model.required & (np.diff(model.offsets) == 0)
    if stuck.any():
        return Outcome(
            termination=Termination.INFEASIBLE,
            raw_status=f"job {int(np.argmax(stuck))} can run nowhere",
            bound_source="enumeration",
        )
    if model.num_options == 0:
        point = np.zeros(0) if model.divisible else np.full(model.num_jobs, -1, dtype=np.int64)
        return Outcome(
            termination=Termination.OPTIMAL,
            raw_status="nothing to place",
            point=point,
            objective=0.0,
            bound=0.0,
            bound_source="enumeration",
            multipliers=np.zeros(model.num_capacities),
        )
    if model.divisible:
        from apportion.solvers.makespan import divisible

        return divisible.solve(call)
    known = None if start.point is None else start.point.astype(np.int64, copy=False)
    if model.goal == "makespan":
        from apportion.solvers.makespan import least_makespan

        return least_makespan.solve(call, known)
    if is_transportation(model):
        return _transported(call)
    from apportion.solvers.generalised_assignment import least_cost

    return least_cost.solve(call, known)


def start(model: Assignment) -> tuple[NDArray[Any] | None, NDArray[np.float64] | None]:
    """Return a feasible point and prices, each ``None`` where there is none: what others begin with."""
    if (model.required & (np.diff(model.offsets) == 0)).any() or model.num_options == 0:
        return None, None
    if model.divisible or model.goal == "makespan":
        from apportion.solvers.makespan import first

        return first.start(model)
    if is_transportation(model):
        choice = solve_slots(model)
        return choice, None if choice is None else pooled(model, potentials(model, choice))
    from apportion.solvers.generalised_assignment import least_cost

    return least_cost.greedy_and_prices(model)


def _transported(call: AssignmentCall) -> Outcome:
    model = call.model
    choice = solve_slots(model)
    if choice is None:
        return Outcome(
            termination=Termination.INFEASIBLE, raw_status="no full matching", bound_source="enumeration"
        )
    objective = model.objective(choice)
    call.best.bound = objective
    call.offer(choice)
    return Outcome(
        termination=Termination.OPTIMAL,
        raw_status="matched",
        point=choice,
        objective=objective,
        bound=objective,
        bound_source="enumeration",
        multipliers=pooled(model, potentials(model, choice)),
    )
