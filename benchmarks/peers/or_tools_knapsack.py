"""OR-Tools' own knapsack solver: 0-1 items under one or several capacities, by branch and bound."""

from __future__ import annotations

import numpy as np

from apportion.core.outcome import Termination
from benchmarks.peers.task import Answer, CannotTake, Limits, Task, Watch

__all__ = ["solve"]


def solve(task: Task, limits: Limits) -> Answer:
    """Give it integers; it says no bound and whether it proved its answer."""
    from ortools.algorithms.python import knapsack_solver

    watch = Watch()
    menus = task.menus
    if menus is None or (np.diff(menus.offsets) != 1).any() or menus.required.any():
        raise CannotTake("takes single items, each in or out")
    if menus.sense != "maximize" or (menus.values < 0).any():
        raise CannotTake("maximises values of at least 0")
    scale = next(
        (10**k for k in range(4) if (menus.values * 10**k == np.rint(menus.values * 10**k)).all()), None
    )
    if scale is None:
        raise CannotTake("takes whole values only")
    solver = knapsack_solver.KnapsackSolver(
        knapsack_solver.SolverType.KNAPSACK_MULTIDIMENSION_BRANCH_AND_BOUND_SOLVER, "knapsack"
    )
    values = np.rint(menus.values * scale).astype(np.int64).tolist()
    solver.set_time_limit(watch.left(limits.seconds))
    solver.init(values, menus.uses.T.tolist(), menus.capacities.tolist())
    watch.lap("build")
    objective = solver.solve() / scale
    watch.lap("solve")
    x = np.array([solver.best_solution_contains(i) for i in range(len(values))], dtype=np.float64)
    proven = bool(solver.is_solution_optimal())
    watch.lap("read_back")
    watch.saw(objective, objective if proven else None)
    return Answer(
        termination=Termination.OPTIMAL if proven else Termination.TIME_LIMIT,
        raw_status="proven" if proven else "not proven",
        x=x,
        objective=objective,
        bound=objective if proven else None,
        watch=watch,
    )
