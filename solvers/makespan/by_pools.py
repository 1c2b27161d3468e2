"""The makespan where jobs hold several machines of a pool, or machines have capacities and there is no tree.

Pools are packed by list schedules and improved by local search; then CP-SAT has its turn, or HiGHS branches
over all entries.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from apportion.models.assignment import in_turn
from apportion.models.assignment_lowering import LoweredAssignment
from apportion.outcome import Outcome, Termination
from apportion.solvers.assignment.call import AssignmentCall
from apportion.solvers.assignment.mip import branch_and_bound, trusted
from apportion.solvers.assignment.no_placement import small
from apportion.solvers.general.guard import usable
from apportion.solvers.isolation import isolated
from apportion.solvers.makespan import gangs
from apportion.solvers.makespan.outcome import ended, searched
from apportion.solvers.makespan.pools import rearranged

__all__ = ["on_pools"]

_REARRANGED, _GLANCE = 3.0, 0.05
"""Most seconds of local search over pools, alone and before CP-SAT, which goes on with it (`gangs`)."""
_LOADED = 1.0
"""Seconds below which CP-SAT, which takes about one to load, is not asked."""
_NODES = 10_000
"""Nodes of branch and bound where neither time nor work is limited."""
_BRANCHED = 4_000
"""Entries of aggregated pools up to which branch and bound is tried: above, the relaxation is close."""


def on_pools(
    call: AssignmentCall,
    lowered: LoweredAssignment,
    found: list[NDArray[np.int64]],
    prices: NDArray[np.float64],
) -> Outcome:
    """Pools packed by list schedules, or machines with capacities: the best start, then what proves most."""
    model, clock = call.model, call.clock
    best = min(found, key=model.objective) if found else None
    if best is None or model.limited.any():
        return _branched(call, lowered, best, prices)
    call.offer(best)
    left = clock.seconds_left
    by_cp_sat = gangs.small_enough(model) and usable("ortools") and (left is None or left > _LOADED)
    best = _rearranged(call, best, _GLANCE if by_cp_sat else _REARRANGED)
    if call.closes(model.objective(best)):
        return searched(call, best, prices, Termination.OPTIMAL)
    if clock.work_left == 0:
        return searched(call, best, prices, Termination.NODE_LIMIT)
    if by_cp_sat:
        outcome = _by_cp_sat(call, best, prices)
    elif model.num_options > _BRANCHED:
        outcome = searched(call, best, prices, ended(clock))
    else:
        outcome = _branched(call, lowered, best, prices)
    # on pools the local search and CP-SAT end with a proof or at their share of the clock
    by_clock = left is not None and outcome.termination is Termination.SOLUTION_LIMIT
    return replace(outcome, termination=Termination.TIME_LIMIT) if by_clock else outcome


def _rearranged(call: AssignmentCall, best: NDArray[np.int64], seconds: float) -> NDArray[np.int64]:
    """Search locally over pools, one unit of work a schedule; without limits its own rounds end it."""
    clock = call.clock
    left = clock.seconds_left
    until = math.inf if left is None else clock.seconds + min(seconds, left)

    def over(makespan: float) -> bool:
        clock.charge(1.0)
        return call.closes(makespan) or clock.seconds >= until or clock.work_left == 0

    found = rearranged(call.model, in_turn(best)[0], call.options.seed, over)
    return min(best, found, key=call.model.objective)


def _by_cp_sat(call: AssignmentCall, best: NDArray[np.int64], prices: NDArray[np.float64]) -> Outcome:
    """Let CP-SAT have what is left of the time, in a process that ends with it."""
    clock, own = call.clock, call.best.bound
    options = replace(call.options, on_incumbent=lambda found: call.best.report(found.objective, found.bound))
    left = clock.seconds_left
    if left is None:
        said = gangs.solve(call.model, options, best, own or 0.0)
    else:
        options = replace(options, time_limit=max(left, 1e-3))
        said = isolated.solve(gangs.ENTRY, call.model, options, best, (own or 0.0,))
    if said.bound is not None:
        call.best.tighten(said.bound)
    if isinstance(said.point, np.ndarray):
        best = min(best, said.point.astype(np.int64), key=call.model.objective)
    call.best.keep(best, call.model.objective(best))
    failed = said.termination in (Termination.ERROR, Termination.MEMORY_LIMIT)
    reason = said.termination if said.termination is Termination.INTERRUPTED else ended(clock)
    closed = call.closes(call.model.objective(best))
    outcome = searched(call, best, prices, Termination.OPTIMAL if closed else reason, own=own)
    return replace(outcome, raw_status=f"searched; CP-SAT failed: {said.raw_status}") if failed else outcome


def _branched(
    call: AssignmentCall,
    lowered: LoweredAssignment,
    best: NDArray[np.int64] | None,
    prices: NDArray[np.float64],
) -> Outcome:
    """Let HiGHS branch over all entries."""
    model, options, clock, own = call.model, call.options, call.clock, call.best.bound
    begin = None if best is None else lowered.point(best)
    nodes = clock.work_left
    if nodes is None and options.time_limit is None:
        nodes = _NODES
    branched = branch_and_bound(
        lowered.model, clock.seconds_left, begin, None, options.gap, options.seed, nodes
    )
    clock.charge(branched.nodes)
    if branched.termination is Termination.INFEASIBLE and best is None and small(model):
        return Outcome(termination=Termination.INFEASIBLE, raw_status=branched.raw, bound_source="solver")
    if branched.point is not None:
        choice = lowered.choice(branched.point)
        if model.check(choice).feasible and (best is None or model.objective(choice) < model.objective(best)):
            best = choice
    if branched.bound is not None:
        whole = bool((model.values == np.rint(model.values)).all())
        call.best.tighten(trusted(branched.bound, model.sense, whole=whole))
    if best is None:
        known = branched.termination in (
            Termination.ERROR,
            Termination.NUMERICAL_ERROR,
            Termination.INFEASIBLE,
        )
        reason = Termination.NUMERICAL_ERROR if known else ended(clock)
        return Outcome(termination=reason, raw_status=branched.raw, bound=call.best.bound)
    closed = call.closes(model.objective(best))
    limited = branched.termination in (Termination.TIME_LIMIT, Termination.NODE_LIMIT)
    reason = branched.termination if limited else ended(clock)
    return searched(call, best, prices, Termination.OPTIMAL if closed else reason, own=own)
