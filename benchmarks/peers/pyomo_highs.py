"""Pyomo with HiGHS: a concrete model written with rules, solved through ``appsi_highs``."""

from __future__ import annotations

from typing import Any

import numpy as np

from apportion.core.outcome import Termination
from apportion.models.assignment import Assignment
from benchmarks.peers.task import Answer, Limits, Task, Watch, coupling_rows

__all__ = ["solve"]

_CONDITION = {
    "optimal": Termination.OPTIMAL,
    "maxTimeLimit": Termination.TIME_LIMIT,
    "maxIterations": Termination.NODE_LIMIT,
    "objectiveLimit": Termination.SOLUTION_LIMIT,
    "infeasible": Termination.INFEASIBLE,
    "unbounded": Termination.UNBOUNDED,
    "infeasibleOrUnbounded": Termination.INFEASIBLE_OR_UNBOUNDED,
    "interrupted": Termination.INTERRUPTED,
}


def solve(task: Task, limits: Limits) -> Answer:
    """Write the concrete model and solve it."""
    from pyomo.contrib.appsi.solvers.highs import Highs

    watch = Watch()
    m = _model(task)
    watch.lap("build")
    solver = Highs()
    solver.config.time_limit = watch.left(limits.seconds)
    solver.config.mip_gap = limits.gap
    solver.config.load_solution = False
    solver.highs_options = {"threads": limits.threads, "random_seed": limits.seed}
    results = solver.solve(m)
    watch.lap("solve")
    condition = results.termination_condition.name
    termination = _CONDITION.get(condition, Termination.ERROR)
    point = objective = None
    if results.best_feasible_objective is not None:
        values = solver.get_primals()
        point = np.array([values[m.x[i]] or 0.0 for i in m.I], dtype=np.float64)
        objective = float(results.best_feasible_objective)
    bound = results.best_objective_bound
    stated = None if bound is None or not np.isfinite(bound) else float(bound)
    watch.lap("read_back")
    watch.saw(objective, stated)
    return Answer(
        termination=termination,
        raw_status=condition,
        x=point,
        objective=objective,
        bound=stated,
        watch=watch,
    )


def _model(task: Task) -> Any:
    import pyomo.environ as pyo

    model = task.model
    m = pyo.ConcreteModel()
    m.I, m.J = pyo.RangeSet(0, model.values.size - 1), pyo.RangeSet(0, model.num_jobs - 1)
    divisible = isinstance(model, Assignment) and model.divisible
    m.x = pyo.Var(m.I, domain=pyo.UnitInterval if divisible else pyo.Binary)
    offsets, required, values = model.offsets.tolist(), model.required.tolist(), model.values.tolist()

    def one_option(m: Any, j: int) -> Any:
        picked = sum(m.x[i] for i in range(offsets[j], offsets[j + 1]))
        if offsets[j] == offsets[j + 1]:
            return pyo.Constraint.Infeasible if required[j] else pyo.Constraint.Skip
        return picked == 1 if required[j] else picked <= 1

    m.one_option = pyo.Constraint(m.J, rule=one_option)
    makespan = isinstance(model, Assignment) and model.goal == "makespan"
    if makespan:
        m.makespan = pyo.Var(domain=pyo.NonNegativeReals)
    m.coupling = pyo.ConstraintList()
    for row in coupling_rows(model):
        terms = zip(row.coefficients.tolist(), row.options.tolist(), strict=True)
        left = sum(c * m.x[i] for c, i in terms) - (row.of_makespan * m.makespan if makespan else 0)
        if row.options.size or makespan:
            m.coupling.add(left <= row.limit)
    if makespan:
        m.objective = pyo.Objective(expr=m.makespan, sense=pyo.minimize)
    else:
        sense = pyo.maximize if model.sense == "maximize" else pyo.minimize
        m.objective = pyo.Objective(expr=sum(values[i] * m.x[i] for i in m.I), sense=sense)
    return m
