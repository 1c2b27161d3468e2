"""OR-Tools CP-SAT straight: exactly one, linear rows, a callback for the trace."""

from __future__ import annotations

from typing import Any

import numpy as np

from apportion.core.outcome import Termination
from apportion.models.assignment import Assignment
from benchmarks.peers.task import Answer, CannotTake, Limits, Task, Watch, coupling_rows

__all__ = ["solve"]

_STATUS = {
    "OPTIMAL": Termination.OPTIMAL,
    "FEASIBLE": Termination.TIME_LIMIT,
    "UNKNOWN": Termination.TIME_LIMIT,
    "INFEASIBLE": Termination.INFEASIBLE,
    "MODEL_INVALID": Termination.ERROR,
}


def solve(task: Task, limits: Limits) -> Answer:
    """Write the model in CP-SAT's own terms and solve it."""
    from ortools.sat.python import cp_model

    watch = Watch()
    model = task.model
    if isinstance(model, Assignment) and model.divisible:
        raise CannotTake("CP-SAT has no continuous variables")
    m = cp_model.CpModel()
    x = [m.new_bool_var("") for _ in range(model.values.size)]
    offsets = model.offsets.tolist()
    for j, needed in enumerate(model.required.tolist()):
        menu = x[offsets[j] : offsets[j + 1]]
        (m.add_exactly_one if needed else m.add_at_most_one)(menu)
    weighted = cp_model.LinearExpr.weighted_sum
    end: Any = None
    if isinstance(model, Assignment) and model.goal == "makespan":
        if (model.values != np.rint(model.values)).any() or (model.counts > 1).any():
            raise CannotTake("written for whole times on single machines")
        end = m.new_int_var(0, int(np.maximum.reduceat(model.values, model.offsets[:-1]).sum()), "makespan")
    for row in coupling_rows(model):
        left = weighted([x[i] for i in row.options.tolist()], row.coefficients.astype(np.int64).tolist())
        m.add(left <= (int(row.limit) if end is None else int(row.of_makespan) * end))
    worth = end if end is not None else weighted(x, model.values.tolist())
    (m.maximize if model.sense == "maximize" else m.minimize)(worth)
    watch.lap("build")
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = limits.threads
    solver.parameters.random_seed = limits.seed
    solver.parameters.relative_gap_limit = limits.gap
    solver.parameters.absolute_gap_limit = 0.0
    solver.parameters.max_time_in_seconds = watch.left(limits.seconds)

    class Listener(cp_model.CpSolverSolutionCallback):
        def on_solution_callback(self) -> None:
            watch.saw(self.objective_value, self.best_objective_bound)

    status = solver.status_name(solver.solve(m, Listener()))
    watch.lap("solve")
    found = status in ("OPTIMAL", "FEASIBLE")
    point = np.array([solver.value(v) for v in x], dtype=np.float64) if found else None
    objective = float(solver.objective_value) if found else None
    bound = float(solver.best_objective_bound) if found else None
    watch.lap("read_back")
    watch.saw(objective, bound)
    return Answer(
        termination=_STATUS.get(status, Termination.ERROR),
        raw_status=status,
        x=point,
        objective=objective,
        bound=bound,
        watch=watch,
    )
