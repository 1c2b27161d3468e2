"""OR-Tools CP-SAT through its own model: pure integer, bounded models only, scaled by us."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.models.linear import LinearModel
from apportion.options import SolveOptions
from apportion.outcome import Outcome, Termination
from apportion.solvers.general.guard import check_engines
from apportion.solvers.general.integers import IntegerModel, integers_of, refusal
from apportion.solvers.general.interrupting import interruptibly
from apportion.solvers.general.observer import Observe, Observer
from apportion.solvers.general.points import (
    Start,
    answered_at_sight,
    judged_start,
    kept,
    seconds_left,
    settled,
)
from apportion.solvers.general.quiet import native_output_to_stderr

__all__ = ["preload", "refuses", "solve"]


def preload() -> None:
    """Import the solver ahead of the first solve."""
    check_engines("ortools")
    from ortools.sat.python import cp_model  # noqa: F401


def refuses(model: LinearModel) -> str | None:
    """Return why CP-SAT cannot take a model exactly, or ``None``."""
    reason = refusal(model)
    return None if reason is None else f"CP-SAT takes bounded integer models only, and {reason}"


def solve(
    model: LinearModel,
    options: SolveOptions,
    start: NDArray[np.float64] | None = None,
    observe: Observe | None = None,
) -> Outcome:
    """Solve a pure integer, bounded model with CP-SAT.

    Parameters
    ----------
    model
        The model; a float objective is scaled by a power of two, and the bound widened by the rounding.
    options
        Limits; `work_limit` counts CP-SAT's deterministic seconds.
    start
        float64 [columns]; NaN where there is no hint.
    observe
        Called with every incumbent's point.

    Returns
    -------
    Outcome
        ``error`` with the reason if the model cannot be written in integers exactly.
    """
    began = time.perf_counter()
    if (answer := answered_at_sight(model)) is not None:
        return answer
    if (reason := refuses(model)) is not None:
        return Outcome(termination=Termination.ERROR, raw_status=reason)
    check_engines("ortools")
    whole = integers_of(model)
    given = judged_start(model, start)
    observer = Observer(model.sense == "maximize", options, observe)
    with native_output_to_stderr():
        native, columns = _written(model, whole)
        if given is not None and given.point is not None:
            for column in np.flatnonzero(~np.isnan(given.point)):
                native.add_hint(columns[column], round(float(given.point[column])))
        solver = _configured(options, seconds_left(options, began))
        handed_over = time.perf_counter()
        listener = _listener(model, whole, columns, observer)
        status, interrupted = interruptibly(lambda: solver.solve(native, listener), solver.stop_search)
        ended = time.perf_counter()
    observer.finish()
    seconds = (handed_over - began, ended - handed_over)
    outcome = _outcome(model, whole, solver, status, columns, given, options, seconds)
    open_still = outcome.raw_status in ("FEASIBLE", "UNKNOWN")
    return replace(outcome, termination=Termination.INTERRUPTED) if interrupted and open_still else outcome


def _written(model: LinearModel, whole: IntegerModel) -> tuple[Any, list[Any]]:
    from ortools.sat.python import cp_model

    native = cp_model.CpModel()
    bounds = zip(whole.lower.tolist(), whole.upper.tolist(), strict=True)
    columns = [native.new_int_var(low, high, "") for low, high in bounds]
    for row in range(model.num_rows):
        terms = slice(int(model.indptr[row]), int(model.indptr[row + 1]))
        expression = cp_model.LinearExpr.weighted_sum(
            [columns[index] for index in model.indices[terms]], whole.data[terms].tolist()
        )
        low, high = int(whole.row_lower[row]), int(whole.row_upper[row])
        if low > high:
            native.add_bool_or([])
        else:
            native.add_linear_constraint(expression, low, high)
    used = np.flatnonzero(whole.cost)
    objective = cp_model.LinearExpr.weighted_sum(
        [columns[index] for index in used], whole.cost[used].tolist()
    )
    # with the offset, so that CP-SAT's relative gap is the caller's
    objective += int(_offset(model, whole))
    if model.sense == "maximize":
        native.maximize(objective)
    else:
        native.minimize(objective)
    return native, columns


def _configured(options: SolveOptions, time_limit: float | None) -> Any:
    from ortools.sat.python import cp_model

    solver = cp_model.CpSolver()
    parameters = solver.parameters
    parameters.num_workers = options.threads
    parameters.random_seed = options.seed
    parameters.relative_gap_limit = float(options.gap)
    parameters.absolute_gap_limit = 0.0
    parameters.catch_sigint_signal = False  # it would leave SIGINT at its default action
    if options.deterministic and options.threads > 1:
        parameters.interleave_search = True
    if time_limit is not None:
        parameters.max_time_in_seconds = time_limit
    if options.work_limit is not None:
        parameters.max_deterministic_time = float(options.work_limit)
    return solver


def _listener(model: LinearModel, whole: IntegerModel, columns: list[Any], observer: Observer) -> Any:
    from ortools.sat.python import cp_model

    if not observer.active:
        return None

    class Listener(cp_model.CpSolverSolutionCallback):
        def on_solution_callback(self) -> None:
            point = np.array([self.value(column) for column in columns], dtype=np.float64)
            bound = _outward(model, whole, self.best_objective_bound)
            observer.incumbent(point, model.objective(point), bound)
            if observer.raised is not None:
                self.stop_search()

    return Listener()


def _outcome(
    model: LinearModel,
    whole: IntegerModel,
    solver: Any,
    status: Any,
    columns: list[Any],
    given: Start | None,
    options: SolveOptions,
    seconds: tuple[float, float],
) -> Outcome:
    from ortools.sat.python import cp_model

    known = {
        cp_model.OPTIMAL: Termination.OPTIMAL,
        cp_model.INFEASIBLE: Termination.INFEASIBLE,
        cp_model.MODEL_INVALID: Termination.ERROR,
        cp_model.FEASIBLE: _limit(solver.parameters.max_time_in_seconds, seconds[1]),
        cp_model.UNKNOWN: _limit(solver.parameters.max_time_in_seconds, seconds[1]),
    }
    termination = known.get(status, Termination.ERROR)
    point, bound = None, None
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        point = np.array([solver.value(column) for column in columns], dtype=np.float64)
        bound = _outward(model, whole, solver.best_objective_bound)
    point, objective = kept(model, given, point)
    return Outcome(
        termination=settled(termination, objective, bound, options.gap),
        raw_status=solver.status_name(status),
        point=point,
        objective=objective,
        bound=bound,
        bound_source=None if bound is None else "solver",
        seconds={"hand_over": seconds[0], "solve": seconds[1]},
        counters={"branches": float(solver.num_branches), "conflicts": float(solver.num_conflicts)},
        start_used=None if given is None else given.point is not None,
    )


def _limit(time_limit: float | None, solved: float) -> Termination:
    """Say which limit ended a search that CP-SAT calls feasible or unknown."""
    if time_limit is not None and solved >= 0.9 * time_limit - 0.05:
        return Termination.TIME_LIMIT
    # its own limit or the caller's; whoever interrupts it is heard elsewhere
    return Termination.NODE_LIMIT


def _outward(model: LinearModel, whole: IntegerModel, native_bound: float) -> float | None:
    bound = (native_bound - _offset(model, whole)) / whole.scale + model.offset
    if not np.isfinite(bound):
        return None
    return bound + whole.error if model.sense == "maximize" else bound - whole.error


def _offset(model: LinearModel, whole: IntegerModel) -> float:
    """Return the offset as CP-SAT is told it: in its own unit, whole, and within its range."""
    return float(np.round(np.clip(model.offset * whole.scale, -(2.0**52), 2.0**52)))
