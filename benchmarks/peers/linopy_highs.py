"""linopy with HiGHS: labelled arrays, grouped sums, the direct interface."""

from __future__ import annotations

from typing import Any

import numpy as np

from apportion.core.outcome import Termination
from apportion.models.assignment import Assignment
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
    rows = coupling_rows(model)
    if isinstance(model, Assignment):
        next(rows, None)  # refuses what rows cannot say
        _machines(m, x, model, makespan)
    else:
        for row in rows:
            part = x.sel(option=row.options) if row.options.size < model.values.size else x
            left = (part * xr.DataArray(row.coefficients, coords=[part.coords["option"]])).sum()
            m.add_constraints(left <= row.limit, name=row.name)
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


def _machines(m: Any, x: Any, model: Assignment, makespan: Any) -> None:
    """Write capacities, loads and, of shares, one machine at a time, each as one grouped sum."""
    import xarray as xr

    def total(coefficients: Any, group: Any, name: str, on: Any) -> tuple[Any, Any]:
        part = x.sel(option=on)
        coords = [part.coords["option"]]
        label = xr.DataArray(group[on], coords=coords, name=name)
        summed = (part * xr.DataArray(coefficients[on], coords=coords)).groupby(label).sum()
        return summed, np.unique(group[on])

    on = np.flatnonzero(model.limited[model.machine])
    if on.size:
        used, of = total(model.uses.astype(np.float64), model.machine, "machine", on)
        room = xr.DataArray(model.capacities[of].astype(np.float64), coords={"machine": of})
        m.add_constraints(used <= room, name="capacity")
    if makespan is None:
        return
    every = np.arange(model.num_options)
    busy, of = total(model.values * model.gpus, model.machine, "machine", every)
    counts = xr.DataArray(model.counts[of].astype(np.float64), coords={"machine": of})
    m.add_constraints(busy - counts * makespan <= 0, name="load")
    if model.divisible:
        alone, of = total(model.values, model.job_of_option(), "job", every)
        ones = xr.DataArray(np.ones(of.size), coords={"job": of})
        m.add_constraints(alone - ones * makespan <= 0, name="alone")


def _bound(m: object, divisible: bool, objective: float | None, termination: Termination) -> float | None:
    """Return HiGHS's dual bound, which linopy itself does not tell."""
    if divisible:
        return objective if termination is Termination.OPTIMAL else None
    solver = getattr(m, "solver_model", None)
    if solver is None:
        return None
    bound = float(solver.getInfo().mip_dual_bound)
    return bound if np.isfinite(bound) else None
