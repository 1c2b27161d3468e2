"""Solve an assignment by the solver for its structure: transportation, costs or makespan."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.core.options import SolveOptions, Start
from apportion.core.outcome import Outcome, Termination
from apportion.models.assignment import Assignment, in_turn
from apportion.models.assignment_bounds import pooled
from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.solvers.assignment.call import AssignmentCall
from apportion.solvers.assignment.linear_assignment import is_transportation, potentials, solve_slots
from apportion.solvers.general.scaling import extreme_scale, unscaled, with_callback_in_own_unit

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
    if model.goal == "makespan" and not model.required.all():
        return _only_required(model, options, start)
    if model.repeats:
        return _as_menus(model, options, start)
    scale = extreme_scale(model.values)
    if scale != 1.0:
        scaled = replace(model, values=model.values * scale)
        found = unscaled(solve(scaled, with_callback_in_own_unit(options, scale), start), scale)
        # a makespan's prices are weights of machines, whatever the unit of time
        if found.multipliers is None or model.goal != "makespan":
            return found
        return replace(found, multipliers=found.multipliers * scale)
    call = AssignmentCall.begun(model, options)
    try:
        return _solved(call, start)
    except KeyboardInterrupt:
        return call.interrupted()


def _as_menus(model: Assignment, options: SolveOptions, start: Start) -> Outcome:
    """Solve a sum where a job has several entries on one machine: tables of jobs and machines hold one."""
    from apportion.solvers import exact

    found = exact.solve(_menus(model), options, Start(start.point))
    return replace(found, multipliers=None, row_multipliers=None)


def _menus(model: Assignment) -> MultipleChoiceKnapsack:
    """Return an assignment of costs or values as menus, its limited machines as capacities."""
    limited = np.flatnonzero(model.limited)
    uses = np.zeros((model.num_options, limited.size), dtype=np.int64)
    for column, machine in enumerate(limited.tolist()):
        mine = model.machine == machine
        uses[mine, column] = model.uses[mine]
    return MultipleChoiceKnapsack.from_arrays(
        model.values,
        uses,
        model.offsets,
        model.capacities[limited],
        required=model.required,
        sense="minimize" if model.goal == "cost" else "maximize",
    )


def _only_required(model: Assignment, options: SolveOptions, start: Start) -> Outcome:
    """Solve a makespan over the jobs that must run: who takes a job out of a schedule makes none longer."""
    known = None if start.point is None else _without(model, np.asarray(start.point, dtype=np.int64))
    outcome = solve(model.of_jobs(model.required), options, Start(known))
    point = None if outcome.point is None else _among_all(model, np.asarray(outcome.point, dtype=np.int64))
    return replace(outcome, point=point, row_multipliers=None)


def _without(model: Assignment, point: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a point over the jobs that must run, its rows counted among theirs."""
    place = np.cumsum(model.required[model.job_of_option()]) - 1
    choice, turns = in_turn(point)
    own = choice[model.required]
    own = np.where(own >= 0, place[own], -1)
    return own if turns is None else np.stack((own, turns[model.required]))


def _among_all(model: Assignment, point: NDArray[Any]) -> NDArray[np.int64]:
    """Return a point over the jobs that must run as one over all jobs, the others left out."""
    rows = np.flatnonzero(model.required[model.job_of_option()])
    own, turns = in_turn(point)
    choice = np.full(model.num_jobs, -1, dtype=np.int64)
    choice[model.required] = np.where(own >= 0, rows[own] if rows.size else -1, -1)
    if turns is None:
        return choice
    order = np.full(model.num_jobs, int(turns.max(initial=0)) + 1, dtype=np.int64)
    order[model.required] = turns
    return np.stack((choice, order))


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
        from apportion.solvers.makespan import by_fractions

        return by_fractions.solve(call)
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
    if model.repeats:
        from apportion.solvers import exact

        return exact.start(_menus(model))[0], None
    if model.goal == "makespan":
        from apportion.solvers.makespan import by_fractions, least_makespan

        begun = by_fractions.start if model.divisible else least_makespan.start
        if model.required.all():
            return begun(model)
        if not model.required.any():
            return np.full(model.num_jobs, -1, dtype=np.int64), None
        point, prices = begun(model.of_jobs(model.required))
        return (None if point is None else _among_all(model, point)), prices
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
