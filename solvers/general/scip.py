"""SCIP through OR-Tools MathOpt, from a model proto built of arrays."""

from __future__ import annotations

import datetime
import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.core.options import SolveOptions
from apportion.core.outcome import Outcome, Termination
from apportion.models.linear import LinearModel
from apportion.solvers.general.guard import check_engines, interruptibly, native_output_to_stderr
from apportion.solvers.general.linear_call import LinearCall
from apportion.solvers.general.points import Observe, Observer, answered_at_sight, rounded
from apportion.solvers.general.scaling import power_of_two_scale

__all__ = ["preload", "refuses", "solve"]


def preload() -> None:
    """Import the solver ahead of the first solve."""
    check_engines("ortools")
    from ortools.math_opt.python import mathopt  # noqa: F401


def refuses(model: LinearModel) -> str | None:
    """Return ``None``: SCIP takes every linear model."""
    return None


def solve(
    model: LinearModel,
    options: SolveOptions,
    start: NDArray[np.float64] | None = None,
    observe: Observe | None = None,
) -> Outcome:
    """Solve a mixed-integer linear model with SCIP.

    See `LinearCall.begun` for the parameters. `work_limit` counts branch-and-bound nodes; `observe` is called
    with every incumbent's point.

    Returns
    -------
    Outcome
        ``error`` with MathOpt's own words if it refuses the model or a parameter.
    """
    if (answer := answered_at_sight(model)) is not None:
        return answer
    check_engines("ortools")
    from ortools.math_opt.python import mathopt
    from ortools.util.python.solve_interrupter import SolveInterrupter

    asked = LinearCall.begun(model, options, start, observe)
    observer = asked.observer
    interrupter = SolveInterrupter()
    scale = power_of_two_scale(model.cost)
    with native_output_to_stderr():
        native = mathopt.Model.from_model_proto(_proto(model, scale))
        variables = list(native.variables())
        hints = _hints(asked.hint, variables)
        parameters = _parameters(options, asked.seconds)
        listening: dict[str, Any] = {}
        if observer.active and model.integer.any():
            listening = {
                "callback_reg": mathopt.CallbackRegistration(events={mathopt.Event.MIP_SOLUTION}),
                "cb": _listener(model, variables, observer),
            }
        handed_over = asked.clock.seconds
        try:
            result, interrupted = interruptibly(
                lambda: mathopt.solve(
                    native,
                    mathopt.SolverType.GSCIP,
                    params=parameters,
                    model_params=mathopt.ModelSolveParameters(solution_hints=hints),
                    interrupter=interrupter,
                    **listening,
                ),
                interrupter.interrupt,
            )
        except (RuntimeError, ValueError, AttributeError, TypeError) as error:
            observer.finish()
            # MathOpt hides the real text in the context of an AttributeError
            reason = getattr(error.__context__, "message", None) or error.__context__ or error
            return Outcome(termination=Termination.ERROR, raw_status=f"MathOpt: {reason}")
        seconds = (handed_over, asked.clock.seconds - handed_over)
    outcome = _outcome(asked, result, variables, scale, bool(hints), seconds)
    reasons = mathopt.TerminationReason
    open_still = result.termination.reason in (reasons.FEASIBLE, reasons.NO_SOLUTION_FOUND)
    return replace(outcome, termination=Termination.INTERRUPTED) if interrupted and open_still else outcome


def _proto(model: LinearModel, scale: float) -> Any:
    from ortools.math_opt import model_pb2

    columns = np.arange(model.num_columns)
    proto = model_pb2.ModelProto()
    proto.variables.ids.extend(columns.tolist())
    proto.variables.lower_bounds.extend(model.lower.tolist())
    proto.variables.upper_bounds.extend(model.upper.tolist())
    proto.variables.integers.extend(model.integer.tolist())
    proto.linear_constraints.ids.extend(range(model.num_rows))
    proto.linear_constraints.lower_bounds.extend(model.row_lower.tolist())
    proto.linear_constraints.upper_bounds.extend(model.row_upper.tolist())
    proto.objective.maximize = model.sense == "maximize"
    proto.objective.offset = model.offset * scale
    used = np.flatnonzero(model.cost)
    proto.objective.linear_coefficients.ids.extend(used.tolist())
    proto.objective.linear_coefficients.values.extend((model.cost[used] * scale).tolist())
    row = np.repeat(np.arange(model.num_rows), np.diff(model.indptr))
    order = np.lexsort((model.indices, row))
    proto.linear_constraint_matrix.row_ids.extend(row[order].tolist())
    proto.linear_constraint_matrix.column_ids.extend(model.indices[order].tolist())
    proto.linear_constraint_matrix.coefficients.extend(model.data[order].tolist())
    return proto


def _hints(hint: NDArray[np.float64] | None, variables: list[Any]) -> list[Any]:
    from ortools.math_opt.python import mathopt

    if hint is None:
        return []
    known = np.flatnonzero(~np.isnan(hint))
    return [mathopt.SolutionHint(variable_values={variables[i]: float(hint[i]) for i in known})]


def _parameters(options: SolveOptions, time_limit: float | None) -> Any:
    from ortools.math_opt.python import mathopt
    from ortools.math_opt.solvers.gscip import gscip_pb2

    return mathopt.SolveParameters(
        gscip=gscip_pb2.GScipParameters(bool_params={"misc/catchctrlc": False}),
        enable_output=False,
        threads=options.threads,
        random_seed=options.seed,
        relative_gap_tolerance=float(options.gap),
        absolute_gap_tolerance=0.0,
        time_limit=None if time_limit is None else datetime.timedelta(seconds=time_limit),
        node_limit=None if options.work_limit is None else math.ceil(min(options.work_limit, 2**62)),
    )


def _listener(model: LinearModel, variables: list[Any], observer: Observer) -> Any:
    from ortools.math_opt.python import mathopt

    def listen(data: Any) -> Any:
        solution = data.solution
        if solution is not None:
            point = rounded(model, np.array([solution[v] for v in variables], dtype=np.float64))
            observer.incumbent(point, model.objective(point), None)
        return mathopt.CallbackResult(terminate=observer.raised is not None)

    return listen


def _outcome(
    asked: LinearCall,
    result: Any,
    variables: list[Any],
    scale: float,
    hinted: bool,
    seconds: tuple[float, float],
) -> Outcome:
    point = None
    if result.has_primal_feasible_solution():
        values = result.variable_values()
        point = rounded(asked.model, np.array([values[v] for v in variables], dtype=np.float64))
    termination = _termination(result.termination)
    bound = None
    if termination not in (Termination.INFEASIBLE, Termination.UNBOUNDED, Termination.ERROR):
        claimed = float(result.termination.objective_bounds.dual_bound) / scale
        bound = claimed if np.isfinite(claimed) and abs(claimed) < 1e20 / scale else None
    return asked.outcome(
        termination,
        str(result.termination.reason) + f" {result.termination.detail}".rstrip(),
        point,
        bound,
        seconds=seconds,
        counters={"nodes": float(result.solve_stats.node_count)},
        start_used=None if asked.start is None else hinted,
    )


def _termination(native: Any) -> Termination:
    """Map reason and limit; both tables are total over the pinned version, anything else is an error."""
    from ortools.math_opt.python import mathopt

    reason, limit = mathopt.TerminationReason, mathopt.Limit
    limits = {
        limit.UNDETERMINED: Termination.NODE_LIMIT,
        limit.ITERATION: Termination.NODE_LIMIT,
        limit.TIME: Termination.TIME_LIMIT,
        limit.NODE: Termination.NODE_LIMIT,
        limit.SOLUTION: Termination.SOLUTION_LIMIT,
        limit.MEMORY: Termination.MEMORY_LIMIT,
        limit.OBJECTIVE: Termination.SOLUTION_LIMIT,
        limit.NORM: Termination.NUMERICAL_ERROR,
        limit.INTERRUPTED: Termination.INTERRUPTED,
        limit.SLOW_PROGRESS: Termination.NUMERICAL_ERROR,
        limit.OTHER: Termination.ERROR,
    }
    if native.reason in (reason.FEASIBLE, reason.NO_SOLUTION_FOUND):
        return limits.get(native.limit, Termination.ERROR)
    return {
        reason.OPTIMAL: Termination.OPTIMAL,
        reason.INFEASIBLE: Termination.INFEASIBLE,
        reason.UNBOUNDED: Termination.UNBOUNDED,
        reason.INFEASIBLE_OR_UNBOUNDED: Termination.INFEASIBLE_OR_UNBOUNDED,
        reason.IMPRECISE: Termination.NUMERICAL_ERROR,
        reason.NUMERICAL_ERROR: Termination.NUMERICAL_ERROR,
        reason.OTHER_ERROR: Termination.ERROR,
    }.get(native.reason, Termination.ERROR)
