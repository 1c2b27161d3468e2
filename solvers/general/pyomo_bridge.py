"""The bridge to every solver Pyomo knows: for cross-checks and for sites with a licence, never a hot path."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.core.errors import BackendUnavailable
from apportion.core.options import SolveOptions
from apportion.core.outcome import Outcome, Termination
from apportion.models.linear import LinearModel
from apportion.solvers.general.guard import check_engines, native_output_to_stderr
from apportion.solvers.general.linear_call import LinearCall
from apportion.solvers.general.points import Observe, answered_at_sight, kept, rounded
from apportion.solvers.general.scaling import power_of_two_scale

__all__ = ["preload", "solve", "to_pyomo"]


def preload() -> None:
    """Import Pyomo ahead of the first solve."""
    import pyomo.environ  # noqa: F401


def solve(
    model: LinearModel,
    options: SolveOptions,
    start: NDArray[np.float64] | None,
    solver_name: str,
    observe: Observe | None = None,
) -> Outcome:
    """Solve a linear model with a solver named as Pyomo names it, for instance ``appsi_highs``.

    See `LinearCall.begun` for the parameters. Of the limits only `time_limit` is passed on, and of the rest
    `gap` where the interface has one; `start` is kept as the incumbent, and as initial values for solvers
    that read them; `observe` is called with the final point alone. `solver_name` is for
    ``pyomo.environ.SolverFactory``.

    Raises
    ------
    BackendUnavailable
        If Pyomo does not know the solver or does not find it.
    """
    if (answer := answered_at_sight(model)) is not None:
        return answer
    asked = LinearCall.begun(model, options, start, observe)
    if "highs" in solver_name:
        check_engines("highspy")
    import pyomo.environ as pyo

    complete = asked.start is not None and asked.start.complete
    with native_output_to_stderr():
        solver = pyo.SolverFactory(solver_name)
        if not solver.available(exception_flag=False):
            raise BackendUnavailable(f"Pyomo does not find the solver {solver_name!r}")
        scale = power_of_two_scale(model.cost)
        native = to_pyomo(model, scale)
        if complete and asked.hint is not None:
            for column, value in enumerate(asked.hint.tolist()):
                native.x[column].value = value
        _configure(solver, options)
        handed_over = asked.clock.seconds
        limit = {} if asked.seconds is None else {"timelimit": asked.seconds}
        results = solver.solve(native, load_solutions=False, **limit)
        point = _point(model, native, results)
        ended = asked.clock.seconds
    point, objective = kept(model, asked.start, point)
    if point is not None and objective is not None:
        asked.observer.incumbent(point, objective, None)
    termination = _termination(results)
    bound = None if termination is Termination.INFEASIBLE else _bound(model, results, scale)
    return asked.outcome(
        termination,
        f"{results.solver.status}, {results.solver.termination_condition}",
        point,
        bound,
        seconds=(handed_over, ended - handed_over),
        counters={},
        start_used=None if asked.start is None else complete,
    )


def to_pyomo(model: LinearModel, scale: float = 1.0) -> Any:
    """Return a Pyomo ``ConcreteModel``: ``x[column]``, ``row[r]``, ``objective`` (multiplied by `scale`)."""
    import pyomo.environ as pyo
    from pyomo.core.expr.numeric_expr import LinearExpression

    native = pyo.ConcreteModel()
    native.x = pyo.Var(range(model.num_columns))
    for column in range(model.num_columns):
        variable = native.x[column]
        variable.domain = pyo.Integers if model.integer[column] else pyo.Reals
        variable.setlb(_finite(model.lower[column]))
        variable.setub(_finite(model.upper[column]))
    native.row = pyo.Constraint(range(model.num_rows))
    for row in range(model.num_rows):
        terms = slice(int(model.indptr[row]), int(model.indptr[row + 1]))
        low, high = _finite(model.row_lower[row]), _finite(model.row_upper[row])
        variables = [native.x[int(column)] for column in model.indices[terms]]
        if not variables:
            if (low or 0.0) > 0.0 or (high or 0.0) < 0.0:
                native.row[row] = pyo.Constraint.Infeasible
            continue
        body = LinearExpression(constant=0.0, linear_coefs=model.data[terms].tolist(), linear_vars=variables)
        if low is not None or high is not None:
            native.row[row] = (low, body, high)
    cost = LinearExpression(
        constant=model.offset * scale,
        linear_coefs=(model.cost * scale).tolist(),
        linear_vars=[native.x[column] for column in range(model.num_columns)],
    )
    native.objective = pyo.Objective(
        expr=cost, sense=pyo.maximize if model.sense == "maximize" else pyo.minimize
    )
    return native


def _finite(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None


def _configure(solver: Any, options: SolveOptions) -> None:
    config = getattr(solver, "config", None)
    if config is not None and hasattr(config, "mip_gap"):
        config.mip_gap = float(options.gap)


def _point(model: LinearModel, native: Any, results: Any) -> NDArray[np.float64] | None:
    if not len(results.solution):
        return None
    native.solutions.load_from(results)
    values = [native.x[column].value for column in range(model.num_columns)]
    # a column that stands in no row and has no cost is not reported: any value in its box will do
    resting = np.clip(0.0, model.lower, model.upper)
    point = np.array([rest if v is None else v for v, rest in zip(values, resting, strict=True)])
    return rounded(model, point) if np.isfinite(point).all() else None


def _bound(model: LinearModel, results: Any, scale: float) -> float | None:
    claimed = results.problem.upper_bound if model.sense == "maximize" else results.problem.lower_bound
    try:
        value = float(claimed) / scale
    except (TypeError, ValueError):
        return None
    return value if np.isfinite(value) else None


def _termination(results: Any) -> Termination:
    from pyomo.opt import TerminationCondition

    condition = TerminationCondition
    return {
        condition.optimal: Termination.OPTIMAL,
        condition.globallyOptimal: Termination.OPTIMAL,
        condition.infeasible: Termination.INFEASIBLE,
        condition.unbounded: Termination.UNBOUNDED,
        condition.infeasibleOrUnbounded: Termination.INFEASIBLE_OR_UNBOUNDED,
        condition.maxTimeLimit: Termination.TIME_LIMIT,
        condition.maxIterations: Termination.NODE_LIMIT,
        condition.maxEvaluations: Termination.NODE_LIMIT,
        condition.userInterrupt: Termination.INTERRUPTED,
    }.get(results.solver.termination_condition, Termination.ERROR)
