"""``scipy.optimize.milp``: HiGHS as scipy carries it; sparse matrices in, no start, no callback."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from apportion.core.outcome import Termination
from benchmarks.peers.matrices import Matrices, matrices_of
from benchmarks.peers.task import Answer, Limits, Task, Watch

__all__ = ["milp_of", "solve"]

_STATUS = {0: Termination.OPTIMAL, 1: Termination.TIME_LIMIT, 2: Termination.INFEASIBLE}
_STATUS |= {3: Termination.UNBOUNDED, 4: Termination.ERROR}


def solve(task: Task, limits: Limits) -> Answer:
    """Build the constraint matrices and call ``milp``."""
    watch = Watch()
    return milp_of(matrices_of(task.model), limits, watch)


def milp_of(form: Matrices, limits: Limits, watch: Watch, counts: ArrayLike = 1.0) -> Answer:
    """Solve menus or an assignment; `counts` says how many jobs each one stands for, which are alike."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array, hstack

    size, most = form.values.size, np.broadcast_to(counts, form.one_option_lower.shape)
    sign = -1.0 if form.maximizes else 1.0
    cost, integer = sign * form.values, np.full(size, form.integer, dtype=np.int64)
    upper = form.one_option.T @ most
    one_option, coupling = form.one_option, form.coupling
    if form.makespan:
        cost, integer = np.append(np.zeros(size), 1.0), np.append(integer, 0)
        upper = np.append(upper, np.inf)
        one_option = hstack([one_option, csr_array((one_option.shape[0], 1))])
        coupling = hstack([coupling, csr_array(-form.of_makespan.reshape(-1, 1))])
    constraints = [
        LinearConstraint(one_option, form.one_option_lower, most),
        LinearConstraint(coupling, -np.inf, form.limits),
    ]
    watch.lap("build")
    options: Any = {"time_limit": watch.left(limits.seconds), "mip_rel_gap": limits.gap}
    result = milp(
        cost, integrality=integer, bounds=Bounds(0.0, upper), constraints=constraints, options=options
    )
    watch.lap("solve")
    termination = _STATUS.get(result.status, Termination.ERROR)
    bound = getattr(result, "mip_dual_bound", None)
    objective = None if result.x is None else sign * float(result.fun)
    stated = None if bound is None or not np.isfinite(bound) else sign * float(bound)
    if not form.integer and termination is Termination.OPTIMAL:
        stated = objective
    watch.saw(objective, stated)
    return Answer(
        termination=termination,
        raw_status=str(result.message),
        x=None if result.x is None else result.x[:size],
        objective=objective,
        bound=stated,
        watch=watch,
    )
