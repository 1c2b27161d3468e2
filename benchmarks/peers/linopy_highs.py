"""linopy with HiGHS: labelled arrays, grouped sums, the direct interface."""

from __future__ import annotations

import numpy as np

from apportion.models.assignment import Assignment
from apportion.outcome import Termination
from benchmarks.peers.task import Answer, Limits, Task, Watch, coupling_rows

__all__ = ["solve"]

_CONDITION = {
    "optimal": Termination.OPTIMAL,
    "time_limit": Termination.TIME_LIMIT,
    "iteration_limit": Termination.NODE_LIMIT,
    "infeasible": Termination.INFEASIBLE,
    "unbounded": Termination.UNBOUNDED,
    "infeasible_or_unbounded": Termination.INFEASIBLE_OR_UNBOUNDED,
}


def solve(task: Task, limits: Limits) -> Answer:
    """Write the model with grouped sums and let linopy call HiGHS."""
    import linopy
    import pandas as pd
    import xarray as xr

    watch = Watch()
    model = task.model
    m = linopy.Model()
    option = pd.RangeIndex(model.values.size, name="option")
    divisible = isinstance(model, Assignment) and model.divisible
    if divisible:
        x = m.add_variables(lower=0, upper=1, coords=[option], name="x")
    else:
        x = m.add_variables(binary=True, coords=[option], name="x")
    job = np.repeat(np.arange(model.num_jobs), np.diff(model.offsets))
    label = xr.DataArray(job, coords=[option], name="job")
    picked = x.groupby(label).sum()
    needed = model.required[np.unique(job)]
    if needed.all():
        m.add_constraints(picked == 1, name="one_option")
    else:
        m.add_constraints(picked <= 1, name="one_option")
        if needed.any():
            m.add_constraints(picked >= needed.astype(float), name="required")
    makespan = None
    if isinstance(model, Assignment) and model.goal == "makespan":
        makespan = m.add_variables(lower=0, name="makespan")
    for row in coupling_rows(model):
        part = x.sel(option=row.options) if row.options.size < model.values.size else x
        left = (part * xr.DataArray(row.coefficients, coords=[part.coords["option"]])).sum()
        if makespan is None:
            m.add_constraints(left <= row.limit, name=row.name)
        else:
            m.add_constraints(left - row.of_makespan * makespan <= row.limit, name=row.name)
    if makespan is None:
        worth = (x * xr.DataArray(model.values, coords=[option])).sum()
        m.add_objective(worth, sense="max" if model.sense == "maximize" else "min")
    else:
        m.add_objective(1 * makespan)
    watch.lap("build")
    status, condition = m.solve(
        solver_name="highs",
        io_api="direct",
        log_to_console=False,
        output_flag=False,
        threads=limits.threads,
        random_seed=limits.seed,
        time_limit=watch.left(limits.seconds),
        mip_rel_gap=limits.gap,
        mip_abs_gap=0.0,
    )
    watch.lap("solve")
    point = np.asarray(x.solution.values, dtype=np.float64) if status == "ok" else None
    if point is not None and not np.isfinite(point).all():
        point = None
    objective = float(m.objective.value) if point is not None and m.objective.value is not None else None
    termination = _CONDITION.get(str(condition), Termination.ERROR)
    watch.saw(objective, None)
    return Answer(
        termination=termination,
        raw_status=f"{status}: {condition}",
        x=point,
        objective=objective,
        bound=_bound(m, divisible, objective, termination),
        watch=watch,
    )


def _bound(m: object, divisible: bool, objective: float | None, termination: Termination) -> float | None:
    """Return HiGHS's dual bound, which linopy itself does not tell."""
    if divisible:
        return objective if termination is Termination.OPTIMAL else None
    solver = getattr(m, "solver_model", None)
    if solver is None:
        return None
    bound = float(solver.getInfo().mip_dual_bound)
    return bound if np.isfinite(bound) else None
