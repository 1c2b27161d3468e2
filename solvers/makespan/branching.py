"""Branch and bound by HiGHS over the entries a better schedule may use: the road without the compiled tree.

An entry whose weighted time exceeds its job's least by more than the gap between incumbent and bound cannot
be in a better schedule.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from apportion.models.assignment import Assignment
from apportion.models.assignment_lowering import LoweredAssignment
from apportion.outcome import Termination
from apportion.solvers.assignment.call import AssignmentCall
from apportion.solvers.assignment.mip import branch_and_bound, trusted
from apportion.solvers.makespan.outcome import ended

__all__ = ["branched", "open_entries"]

_OPEN = 20_000
"""Open entries up to which HiGHS keeps to its time limit well enough."""
_NODES, _BACKSTOP = 2_000, 30.0
"""Nodes of a search without a clock, and seconds after which it ends even so: HiGHS may go on for ever."""


def open_entries(model: Assignment, prices: NDArray[np.float64], incumbent: float) -> NDArray[np.bool_]:
    """Return bool [entries]: those that a schedule ending before the incumbent may use.

    Parameters
    ----------
    model
        A makespan on single machines.
    prices
        Weights of the pools.
    incumbent
        A makespan.
    """
    share = (prices / np.bincount(model.pool, minlength=len(model.pool_names)))[model.pool]
    weighted = (share / share.sum())[model.machine] * model.values
    least = np.minimum.reduceat(weighted, model.offsets[:-1])
    whole = bool((model.values == np.rint(model.values)).all())
    target = (incumbent - 1 if whole else incumbent) + 1e-9 * max(1.0, incumbent)
    extra = weighted - least[model.job_of_option()]
    return np.asarray((extra <= target - float(least.sum())) & (model.values <= target), dtype=np.bool_)


def branched(
    call: AssignmentCall, lowered: LoweredAssignment, best: NDArray[np.int64], prices: NDArray[np.float64]
) -> tuple[NDArray[np.int64], Termination]:
    """Return the best schedule found from `best` on, and why the search ended; the call takes the bound."""
    model, options, clock = call.model, call.options, call.clock
    left, nodes = clock.seconds_left, clock.work_left
    top = model.objective(best)
    allowed = open_entries(model, prices, top)
    if int(allowed.sum()) > _OPEN:
        return best, ended(clock)
    begin = lowered.point(best)
    found = branch_and_bound(
        lowered.model,
        _BACKSTOP if left is None else left,
        begin,
        np.append(allowed, True) | (begin > 0),
        options.gap,
        options.seed,
        _NODES if left is None and nodes is None else nodes,
        ceiling=top,
    )
    if found.bound is not None:
        whole = bool((model.values == np.rint(model.values)).all())
        call.best.tighten(trusted(min(found.bound, top), model.sense, whole=whole))
    if found.point is not None:
        choice = lowered.choice(found.point)
        if model.check(choice).feasible and model.objective(choice) < top:
            best = choice
            call.offer(best)
    clock.charge(found.nodes)
    proven = found.termination is Termination.OPTIMAL and options.gap == 0
    return best, Termination.OPTIMAL if proven else ended(clock)
