"""python-mip with CBC, the open pair that BFTrainer's authors offer beside Gurobi."""

from __future__ import annotations

from typing import Any

import numpy as np

from apportion.core.outcome import Termination
from apportion.models.assignment import Assignment
from benchmarks.peers.task import Answer, Limits, Task, Watch, coupling_rows

__all__ = ["finish", "new_model", "solve"]

_STATUS = {
    "OPTIMAL": Termination.OPTIMAL,
    "FEASIBLE": Termination.TIME_LIMIT,
    "NO_SOLUTION_FOUND": Termination.TIME_LIMIT,
    "INFEASIBLE": Termination.INFEASIBLE,
    "INT_INFEASIBLE": Termination.INFEASIBLE,
    "UNBOUNDED": Termination.UNBOUNDED,
    "ERROR": Termination.ERROR,
}


def solve(task: Task, limits: Limits) -> Answer:
    """Write the model with ``xsum`` and run CBC."""
    import mip

    watch = Watch()
    model = task.model
    divisible = isinstance(model, Assignment) and model.divisible
    makespan = isinstance(model, Assignment) and model.goal == "makespan"
    m = new_model("max" if model.sense == "maximize" else "min")
    kind = mip.CONTINUOUS if divisible else mip.BINARY
    x = [m.add_var(var_type=kind, ub=1.0) for _ in range(model.values.size)]
    offsets = model.offsets.tolist()
    for j, needed in enumerate(model.required.tolist()):
        picked = mip.xsum(x[offsets[j] : offsets[j + 1]])
        m += (picked == 1) if needed else (picked <= 1)
    end = m.add_var() if makespan else None
    for row in coupling_rows(model):
        terms = zip(row.coefficients.tolist(), row.options.tolist(), strict=True)
        left = mip.xsum(c * x[i] for c, i in terms)
        m += left <= row.limit if end is None else left - row.of_makespan * end <= row.limit
    if end is None:
        m.objective = mip.xsum(c * v for c, v in zip(model.values.tolist(), x, strict=True))
    else:
        m.objective = end
    watch.lap("build")
    return finish(m, x, limits, watch, proves=not divisible)


def new_model(sense: str) -> Any:
    """Return an empty, silent CBC model."""
    import mip

    m = mip.Model(sense=mip.MAXIMIZE if sense == "max" else mip.MINIMIZE, solver_name=mip.CBC)
    m.verbose = 0
    return m


def finish(m: Any, x: list[Any], limits: Limits, watch: Watch, proves: bool = True) -> Answer:
    """Run CBC and read the variables back."""
    m.max_mip_gap, m.max_mip_gap_abs = limits.gap, 1e-9
    m.threads, m.seed = limits.threads, limits.seed
    status = m.optimize(max_seconds=watch.left(limits.seconds))
    watch.lap("solve")
    termination = _STATUS.get(status.name, Termination.ERROR)
    point = objective = None
    if m.num_solutions or status.name == "OPTIMAL":
        point = np.array([v.x for v in x], dtype=np.float64)
        objective = float(m.objective_value)
    bound = m.objective_bound
    stated = float(bound) if bound is not None and abs(bound) < 1e19 and point is not None else None
    if not proves:
        stated = objective if termination is Termination.OPTIMAL else None
    watch.lap("read_back")
    watch.saw(objective, stated)
    return Answer(
        termination=termination,
        raw_status=status.name,
        x=point,
        objective=objective,
        bound=stated,
        watch=watch,
    )
