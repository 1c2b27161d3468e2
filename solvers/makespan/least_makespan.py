"""The makespan on unrelated machines (R||Cmax): bound, schedules, then search on the entries still open.

Single machines are searched by the compiled tree; without it by local search and by branch and bound over
what is left. Pools with gangs, and capacities that the tree does not take, have their own way (`by_pools`).
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from apportion.models.assignment import Assignment, in_turn
from apportion.models.assignment_bounds import counting_bound, filtered_work, pooled
from apportion.models.assignment_lowering import LoweredAssignment, lower_assignment
from apportion.outcome import Outcome, Termination
from apportion.solvers.assignment.call import AssignmentCall
from apportion.solvers.assignment.lp import Unsolved, relax
from apportion.solvers.assignment.no_placement import no_placement
from apportion.solvers.clock import Clock
from apportion.solvers.makespan.branching import branched
from apportion.solvers.makespan.by_pools import on_pools
from apportion.solvers.makespan.by_tree import MakespanSearch, first_choice, fits
from apportion.solvers.makespan.first import first_schedules, machine_weights
from apportion.solvers.makespan.local_search import ScheduleSearch
from apportion.solvers.makespan.outcome import ended, searched
from apportion.solvers.search.slices import Slices

__all__ = ["solve"]

_WIDE = 2_500
"""Entries from which a few machines at a time are searched before the first decision."""
_ROUNDS = 100
"""Kicks before branch and bound."""


def solve(call: AssignmentCall, start: NDArray[np.int64] | None) -> Outcome:
    """Solve the makespan of a call, from a feasible point or ``None``."""
    model, clock = call.model, call.clock
    lowered = lower_assignment(model)
    relaxation = relax(lowered.model, _share(clock, 0.6))
    solved = None if isinstance(relaxation, Unsolved) else relaxation
    if isinstance(relaxation, Unsolved) and model.limited.any():
        if clock.late():
            return Outcome(termination=Termination.TIME_LIMIT, raw_status=relaxation.raw, point=start)
        if relaxation.said_infeasible and no_placement(model, clock.seconds_left):
            return Outcome(
                termination=Termination.INFEASIBLE,
                raw_status="prices show that the capacities cannot hold the jobs",
                bound_source="multipliers",
            )
    even = np.full(model.num_machines, 1.0 / model.num_machines)
    weights = even if solved is None else machine_weights(model, lowered, solved)
    prices = pooled(model, weights)
    call.best.bound = bound_of(model, prices)
    found = first_schedules(model, lowered, solved)
    if (model.counts > 1).any() or (model.limited.any() and not fits(model)):
        return on_pools(call, lowered, found if start is None else [*found, start], prices)
    if start is not None:
        found.append(in_turn(start)[0])  # on single machines turns make no difference
    if fits(model):
        return _by_tree(call, found, weights)
    own = call.best.bound
    choice, reason = _by_descent(call, lowered, found, prices)
    reason = Termination.OPTIMAL if call.closes(model.objective(choice)) else reason
    return searched(call, choice, prices, reason, own=own)


def _by_tree(call: AssignmentCall, found: list[NDArray[np.int64]], weights: NDArray[np.float64]) -> Outcome:
    """Search by the compiled tree, from the best start."""
    model, options, clock = call.model, call.options, call.clock

    def take(choice: NDArray[np.int64], bound: float) -> None:
        call.best.bound = bound
        call.offer(choice)

    slices = Slices(clock.late, clock.work_left, options.threads)
    if not found:
        none, choice = first_choice(model, slices)
        if choice is None:
            clock.charge(slices.nodes)
            reason = Termination.INTERRUPTED if slices.interrupted else ended(clock)
            return Outcome(
                termination=Termination.INFEASIBLE if none else reason,
                raw_status="the search found no placement",
                bound=None if none else call.best.bound,
                bound_source="branch_and_bound",
                counters={"nodes": float(slices.nodes)},
            )
        found = [choice]
    best = min(found, key=model.objective)
    if not model.limited.any():
        search = ScheduleSearch(model, options.seed)
        for choice in found:
            search.take(choice)
            search.descend(clock.late)
            best = min(best, search.choice(), key=model.objective)
    prices = pooled(model, weights)
    call.offer(best)
    if call.closes(model.objective(best)):
        return searched(call, best, prices, Termination.OPTIMAL)
    tree = MakespanSearch(
        model, best, call.best.bound or 0.0, weights, slices, take, options.gap, options.seed
    )
    if model.num_options > _WIDE:
        turn = _share(clock, 0.4)
        until = math.inf if turn is None else clock.seconds + turn
        tree.rebalance(lambda: clock.seconds >= until)
    call.best.bound, closed = tree.run()
    clock.charge(slices.nodes)
    reason = Termination.INTERRUPTED if slices.interrupted else ended(clock)
    outcome = searched(call, tree.choice, prices, Termination.OPTIMAL if closed else reason, slices.nodes)
    return outcome if tree.shown is None else replace(outcome, row_multipliers=-tree.shown.astype(np.float64))


def bound_of(model: Assignment, prices: NDArray[np.float64]) -> float:
    """Return the best closed-form bound of given prices, rounded up where all times are whole."""
    least = max(filtered_work(model, prices), counting_bound(model))
    if not (model.values == np.rint(model.values)).all() or least >= 2**50:
        return least * (1 - 1e-12)
    return float(math.ceil(least - 1e-7 * max(1.0, least)))


def _share(clock: Clock, part: float) -> float | None:
    left = clock.seconds_left
    return None if left is None else part * left


def _by_descent(
    call: AssignmentCall,
    lowered: LoweredAssignment,
    found: list[NDArray[np.int64]],
    prices: NDArray[np.float64],
) -> tuple[NDArray[np.int64], Termination]:
    model, clock = call.model, call.clock
    search = ScheduleSearch(model, call.options.seed)

    def over() -> bool:
        return clock.late() or call.closes(search.makespan())

    best: NDArray[np.int64] | None = None
    for choice in found:
        search.take(choice)
        search.descend(over)
        if best is None or search.makespan() < model.objective(best):
            best = search.choice()
            call.offer(best)
    assert best is not None
    search.take(best)
    search.run(over, clock.rounds(_ROUNDS))
    best = search.choice()
    call.offer(best)
    if over() or clock.work_left == 0:
        return best, ended(clock)
    return branched(call, lowered, best, prices)
