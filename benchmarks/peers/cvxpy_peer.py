"""cvxpy with one of its mixed-integer solvers: vectorised constraints, the solver by name."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from apportion.core.outcome import Termination
from benchmarks.peers.matrices import matrices_of
from benchmarks.peers.task import Answer, CannotTake, Limits, Task, Watch

__all__ = ["load", "solve_cbc", "solve_glpk", "solve_highs", "solve_scip"]

_STATUS = {
    "optimal": Termination.OPTIMAL,
    "optimal_inaccurate": Termination.NUMERICAL_ERROR,
    "infeasible": Termination.INFEASIBLE,
    "infeasible_inaccurate": Termination.NUMERICAL_ERROR,
    "unbounded": Termination.UNBOUNDED,
    "unbounded_inaccurate": Termination.NUMERICAL_ERROR,
    "infeasible_or_unbounded": Termination.INFEASIBLE_OR_UNBOUNDED,
    "user_limit": Termination.TIME_LIMIT,
}


def load() -> Any:
    """Import cvxpy without what it prints about solvers it does not know."""
    logging.getLogger("__cvxpy__").setLevel(logging.CRITICAL)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        import cvxpy

        cvxpy.installed_solvers()
    return cvxpy


def solve_highs(task: Task, limits: Limits) -> Answer:
    """Solve with HiGHS."""
    return _solve(task, limits, "HIGHS", _highs)


def solve_scip(task: Task, limits: Limits) -> Answer:
    """Solve with SCIP (pyscipopt)."""
    return _solve(task, limits, "SCIP", _scip)


def solve_glpk(task: Task, limits: Limits) -> Answer:
    """Solve with GLPK (cvxopt)."""
    return _solve(task, limits, "GLPK_MI", _glpk)


def solve_cbc(task: Task, limits: Limits) -> Answer:
    """Solve with CBC (cylp)."""
    return _solve(task, limits, "CBC", _cbc)


def _highs(limits: Limits, left: float) -> dict[str, Any]:
    return {
        "time_limit": left,
        "mip_rel_gap": limits.gap,
        "threads": limits.threads,
        "random_seed": limits.seed,
    }


def _scip(limits: Limits, left: float) -> dict[str, Any]:
    return {"scip_params": {"limits/time": left, "limits/gap": limits.gap}}


def _glpk(limits: Limits, left: float) -> dict[str, Any]:
    return {"tm_lim": max(int(1000 * left), 1), "mip_gap": limits.gap}


def _cbc(limits: Limits, left: float) -> dict[str, Any]:
    return {"maximumSeconds": left, "allowablePercentageGap": 100.0 * limits.gap}


def _solve(task: Task, limits: Limits, solver: str, options: Any) -> Answer:
    cp = load()
    watch = Watch()
    if solver not in cp.installed_solvers():
        raise CannotTake(f"cvxpy finds no {solver} here")
    form = matrices_of(task.model)
    x = cp.Variable(form.values.size, boolean=form.integer, nonneg=not form.integer)
    rows = [form.one_option @ x <= 1]
    required = np.flatnonzero(form.one_option_lower)
    if required.size == form.one_option_lower.size:
        rows = [form.one_option @ x == 1]
    elif required.size:
        rows.append(form.one_option[required] @ x == 1)
    if form.makespan:
        makespan = cp.Variable(nonneg=True)
        rows.append(form.coupling @ x <= form.of_makespan * makespan)
        objective = cp.Minimize(makespan)
    else:
        if form.limits.size:
            rows.append(form.coupling @ x <= form.limits)
        objective = (cp.Maximize if form.maximizes else cp.Minimize)(form.values @ x)
    problem = cp.Problem(objective, rows)
    watch.lap("build")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            problem.solve(solver=solver, verbose=False, **options(limits, watch.left(limits.seconds)))
        except cp.error.SolverError as error:
            watch.lap("solve")
            return Answer(termination=Termination.ERROR, raw_status=f"SolverError: {error}", watch=watch)
    watch.lap("solve")
    status = str(problem.status)
    point = None if x.value is None else np.asarray(x.value, dtype=np.float64)
    found = None if point is None or problem.value is None else float(problem.value)
    termination = _STATUS.get(status, Termination.ERROR)
    inexact = termination is Termination.NUMERICAL_ERROR and status == "optimal_inaccurate"
    if inexact and sum(watch.seconds.values()) >= 0.95 * limits.seconds:
        termination = Termination.TIME_LIMIT  # what cvxpy calls an incumbent of SCIP or CBC at the limit
    bound = _bound(problem, form.integer, form.maximizes, found, termination)
    watch.saw(found, bound)
    return Answer(
        termination=termination, raw_status=status, x=point, objective=found, bound=bound, watch=watch
    )


def _bound(
    problem: Any, integer: bool, maximizes: bool, objective: float | None, termination: Termination
) -> float | None:
    """Return the bound where the interface lets it through: HiGHS and SCIP."""
    if not integer:
        return objective if termination is Termination.OPTIMAL else None
    info = getattr(problem.solver_stats, "extra_stats", None)
    scip = info.get("model") if isinstance(info, Mapping) else None
    claimed = getattr(info, "mip_dual_bound", None) if scip is None else scip.getDualbound()
    if claimed is None or not abs(claimed) < 1e19:
        return None
    return -float(claimed) if maximizes else float(claimed)
