"""OR-Tools MathOpt straight, with SCIP: objects and expressions."""

from __future__ import annotations

import datetime

import numpy as np

from apportion.core.outcome import Termination
from apportion.models.assignment import Assignment
from benchmarks.peers.task import Answer, Limits, Task, Watch, coupling_rows

__all__ = ["solve"]

_REASON = {
    "OPTIMAL": Termination.OPTIMAL,
    "INFEASIBLE": Termination.INFEASIBLE,
    "UNBOUNDED": Termination.UNBOUNDED,
    "INFEASIBLE_OR_UNBOUNDED": Termination.INFEASIBLE_OR_UNBOUNDED,
    "IMPRECISE": Termination.NUMERICAL_ERROR,
    "FEASIBLE": Termination.TIME_LIMIT,
    "NO_SOLUTION_FOUND": Termination.TIME_LIMIT,
    "NUMERICAL_ERROR": Termination.NUMERICAL_ERROR,
    "OTHER_ERROR": Termination.ERROR,
}


def solve(task: Task, limits: Limits) -> Answer:
    """Write the model with MathOpt's expressions and solve it with SCIP."""
    from ortools.math_opt.python import mathopt

    watch = Watch()
    model = task.model
    m = mathopt.Model()
    divisible = isinstance(model, Assignment) and model.divisible
    x = [m.add_variable(lb=0.0, ub=1.0, is_integer=not divisible) for _ in range(model.values.size)]
    offsets = model.offsets.tolist()
    for j, needed in enumerate(model.required.tolist()):
        picked = mathopt.fast_sum(x[offsets[j] : offsets[j + 1]])
        m.add_linear_constraint(lb=1.0 if needed else 0.0, ub=1.0, expr=picked)
    makespan = isinstance(model, Assignment) and model.goal == "makespan"
    end = m.add_variable(lb=0.0) if makespan else None
    for row in coupling_rows(model):
        terms = zip(row.coefficients.tolist(), row.options.tolist(), strict=True)
        left = mathopt.fast_sum(c * x[i] for c, i in terms)
        m.add_linear_constraint(left - row.of_makespan * end <= 0.0 if end is not None else left <= row.limit)
    if end is not None:
        m.minimize(end)
    else:
        worth = mathopt.fast_sum(c * v for c, v in zip(model.values.tolist(), x, strict=True))
        (m.maximize if model.sense == "maximize" else m.minimize)(worth)
    watch.lap("build")
    parameters = mathopt.SolveParameters(
        time_limit=datetime.timedelta(seconds=watch.left(limits.seconds)),
        relative_gap_tolerance=limits.gap,
        absolute_gap_tolerance=0.0,
        threads=limits.threads,
        random_seed=limits.seed,
    )

    def listen(data: mathopt.CallbackData) -> mathopt.CallbackResult:
        if data.solution is not None:
            shown = (
                model.values @ np.array([data.solution[v] for v in x]) if end is None else data.solution[end]
            )
            watch.saw(float(shown), None)
        return mathopt.CallbackResult()

    registered = mathopt.CallbackRegistration(events={mathopt.Event.MIP_SOLUTION})
    try:
        result = mathopt.solve(
            m, mathopt.SolverType.GSCIP, params=parameters, callback_reg=registered, cb=listen
        )
    except AttributeError as error:  # how MathOpt's Python reports an error of the solver in 9.15
        raise RuntimeError(str(error.__context__ or error)) from None
    watch.lap("solve")
    reason = result.termination.reason.name
    found = result.has_primal_feasible_solution()
    point = np.array(result.variable_values(x), dtype=np.float64) if found else None
    objective = float(result.objective_value()) if found else None
    bound = float(result.termination.objective_bounds.dual_bound)
    watch.lap("read_back")
    watch.saw(objective, bound)
    return Answer(
        termination=_REASON.get(reason, Termination.ERROR),
        raw_status=f"{reason} {result.termination.detail}".strip(),
        x=point,
        objective=objective,
        bound=bound if np.isfinite(bound) else None,
        watch=watch,
    )
