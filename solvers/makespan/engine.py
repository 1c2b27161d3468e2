"""The makespan on unrelated machines (R||Cmax): bound, schedules, then search on the entries still open.

Single machines are searched by the compiled tree; without it, and pools with gangs, by local search and by
branch and bound over what is left.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from apportion.models.assignment import Assignment
from apportion.models.assignment_bounds import counting_bound, filtered_work, pooled
from apportion.models.assignment_lowering import LoweredAssignment, lower_assignment
from apportion.options import SolveOptions
from apportion.outcome import Outcome, Termination
from apportion.solvers.assignment.clock import Clock
from apportion.solvers.assignment.lp import Unsolved, relax
from apportion.solvers.assignment.mip import branch_and_bound
from apportion.solvers.assignment.no_placement import no_placement, small
from apportion.solvers.general.guard import usable
from apportion.solvers.makespan import gangs
from apportion.solvers.makespan.branching import branched
from apportion.solvers.makespan.by_tree import MakespanSearch, fits
from apportion.solvers.makespan.first import first_schedules, machine_weights
from apportion.solvers.makespan.local_search import ScheduleSearch
from apportion.solvers.makespan.pools import rearranged
from apportion.solvers.search.slices import Slices

__all__ = ["solve"]

_WIDE, _TRIES = 2_500, 20
"""Entries from which a few machines at a time are searched first, and in vain how often until that ends."""
_REARRANGED = 3.0
"""Most seconds of local search over pools."""
_LOADED = 2.0
"""Seconds below which CP-SAT, which takes one to load, is not asked."""
_BRANCHED = 4_000
"""Entries of aggregated pools up to which branch and bound is tried: above, the relaxation is close."""


def solve(model: Assignment, options: SolveOptions, start: NDArray[np.int64] | None, clock: Clock) -> Outcome:
    """Solve a makespan.

    Parameters
    ----------
    model
        The assignment, the makespan as goal.
    options
        Limits; deterministic calls count rounds and nodes, not seconds.
    start
        A feasible choice, or ``None``.
    clock
        The clock of the call.
    """
    lowered = lower_assignment(model)
    relaxation = relax(lowered.model, None if clock.left is None else 0.6 * clock.left)
    solved = None if isinstance(relaxation, Unsolved) else relaxation
    if isinstance(relaxation, Unsolved) and model.limited.any():
        if clock.over:
            return Outcome(termination=Termination.TIME_LIMIT, raw_status=relaxation.raw, point=start)
        if relaxation.said_infeasible and no_placement(model, clock.left):
            return Outcome(
                termination=Termination.INFEASIBLE,
                raw_status="prices show that the capacities cannot hold the jobs",
                bound_source="multipliers",
            )
    weights = (
        np.full(model.num_machines, 1.0 / model.num_machines)
        if solved is None
        else machine_weights(model, lowered, solved)
    )
    prices = pooled(model, weights)
    clock.bound = bound_of(model, prices)
    found = first_schedules(model, lowered, solved)
    if start is not None:
        found.append(start)
    if found and fits(model):
        return _by_tree(model, options, clock, found, weights)
    if model.limited.any() or (model.counts > 1).any():
        return _aggregated(model, lowered, options, clock, found, prices)
    choice, ended = _searched(model, lowered, options, clock, found, prices)
    ended = Termination.OPTIMAL if clock.closed(model.objective(choice)) else ended
    return _told(model, choice, clock, prices, ended)


def _by_tree(
    model: Assignment,
    options: SolveOptions,
    clock: Clock,
    found: list[NDArray[np.int64]],
    weights: NDArray[np.float64],
) -> Outcome:
    """Search by the compiled tree, from the best start."""

    def told(choice: NDArray[np.int64], bound: float) -> None:
        clock.bound = bound
        clock.tell(model.objective(choice))

    best = min(found, key=model.objective)
    if not model.limited.any():
        search = ScheduleSearch(model, options.seed)
        for choice in found:
            search.take(choice)
            search.descend(lambda: clock.over)
            best = min(best, search.choice(), key=model.objective)
    prices = pooled(model, weights)
    clock.tell(model.objective(best))
    if clock.closed(model.objective(best)):
        return _told(model, best, clock, prices, Termination.OPTIMAL)
    slices = Slices(
        lambda: clock.over, None if options.work_limit is None else max(int(options.work_limit), 1)
    )
    tree = MakespanSearch(model, best, clock.bound or 0.0, weights, slices, told, options.gap)
    if model.num_options > _WIDE:
        until = clock.elapsed + 0.4 * (clock.left or 0.0)
        tree.rebalance(_TRIES, options.seed, lambda: clock.left is not None and clock.elapsed >= until)
    clock.bound, closed = tree.run()
    ended = Termination.INTERRUPTED if slices.interrupted else _limit(options)
    return _told(model, tree.choice, clock, prices, Termination.OPTIMAL if closed else ended, slices.nodes)


def bound_of(model: Assignment, prices: NDArray[np.float64]) -> float:
    """Return the best closed-form bound of given prices, rounded up where all times are whole."""
    least = max(filtered_work(model, prices), counting_bound(model))
    if not (model.values == np.rint(model.values)).all() or least >= 2**50:
        return least * (1 - 1e-12)
    return float(math.ceil(least - 1e-7 * max(1.0, least)))


def _limit(options: SolveOptions) -> Termination:
    return Termination.TIME_LIMIT if options.time_limit is not None else Termination.SOLUTION_LIMIT


def _searched(
    model: Assignment,
    lowered: LoweredAssignment,
    options: SolveOptions,
    clock: Clock,
    found: list[NDArray[np.int64]],
    prices: NDArray[np.float64],
) -> tuple[NDArray[np.int64], Termination]:
    search = ScheduleSearch(model, options.seed)

    def over() -> bool:
        return clock.over or clock.closed(search.makespan())

    best: NDArray[np.int64] | None = None
    for choice in found:
        search.take(choice)
        search.descend(over)
        if best is None or search.makespan() < model.objective(best):
            best = search.choice()
            clock.tell(model.objective(best), best)
    assert best is not None
    search.take(best)
    search.run(over, rounds=100)
    best = search.choice()
    clock.tell(model.objective(best), best)
    if over():
        return best, _limit(options)
    best, proven = branched(model, lowered, best, options, clock, prices)
    return best, Termination.OPTIMAL if proven else _limit(options)


def _aggregated(
    model: Assignment,
    lowered: LoweredAssignment,
    options: SolveOptions,
    clock: Clock,
    found: list[NDArray[np.int64]],
    prices: NDArray[np.float64],
) -> Outcome:
    """Pools packed by list schedules, or machines with capacities: the best start, then branch and bound."""
    best = min(found, key=model.objective) if found else None
    if best is not None and not model.limited.any():
        clock.tell(model.objective(best), best)
        until = clock.elapsed + clock.share(_REARRANGED)
        timed = options.time_limit is not None

        def over(makespan: float) -> bool:
            return clock.closed(makespan) or (timed and clock.elapsed >= until)

        best = rearranged(model, best, options.seed, over)
    if best is not None and clock.closed(model.objective(best)):
        return _told(model, best, clock, prices, Termination.OPTIMAL)
    if (
        best is not None
        and gangs.small_enough(model)
        and usable("ortools")
        and (clock.left is None or clock.left > _LOADED)
    ):
        seconds = None if clock.left is None else 0.7 * clock.left
        turned = gangs.scheduled(model, best, clock.bound or 0.0, options, seconds)
        clock.bound = turned.bound
        if turned.choice is not None and model.objective(turned.choice) < model.objective(best):
            best = turned.choice
            clock.tell(model.objective(best), best)
        if turned.interrupted:
            return _told(model, best, clock, prices, Termination.INTERRUPTED)
        if clock.closed(model.objective(best)):
            return _told(model, best, clock, prices, Termination.OPTIMAL)
    if best is not None and model.num_options > _BRANCHED:
        return _told(model, best, clock, prices, _ended(clock))
    begin = None if best is None else lowered.point(best)
    nodes = None if options.work_limit is None else max(int(options.work_limit), 1)
    if nodes is None and options.time_limit is None:
        nodes = 10_000
    branched = branch_and_bound(lowered.model, clock.left, begin, None, options.gap, options.seed, nodes)
    if branched.termination is Termination.INFEASIBLE and best is None and small(model):
        return Outcome(
            termination=Termination.INFEASIBLE, raw_status=branched.raw, bound_source="branch_and_bound"
        )
    if branched.point is not None:
        choice = lowered.choice(branched.point)
        if model.check(choice).feasible and (best is None or model.objective(choice) < model.objective(best)):
            best = choice
    if branched.bound is not None:
        clock.bound = max(clock.bound or 0.0, branched.bound)
    if best is None:
        known = branched.termination in (
            Termination.ERROR,
            Termination.NUMERICAL_ERROR,
            Termination.INFEASIBLE,
        )
        ended = Termination.NUMERICAL_ERROR if known else _limit(options)
        return Outcome(termination=ended, raw_status=branched.raw, bound=clock.bound)
    closed = clock.closed(model.objective(best))
    limits = (Termination.TIME_LIMIT, Termination.NODE_LIMIT)
    ended = branched.termination if branched.termination in limits else _ended(clock)
    return _told(model, best, clock, prices, Termination.OPTIMAL if closed else ended)


def _ended(clock: Clock) -> Termination:
    """Say why a search that has nothing more to try ended: by the clock only if that was over."""
    return Termination.TIME_LIMIT if clock.over else Termination.SOLUTION_LIMIT


def _told(
    model: Assignment,
    choice: NDArray[np.int64],
    clock: Clock,
    prices: NDArray[np.float64],
    termination: Termination,
    nodes: int | None = None,
) -> Outcome:
    objective = model.objective(choice)
    bound = clock.bound
    clock.tell(objective, choice)
    return Outcome(
        termination=termination,
        raw_status="searched",
        point=choice,
        objective=objective,
        bound=bound,
        bound_source="branch_and_bound",
        multipliers=prices,
        seconds={"solve": clock.elapsed},
        counters={} if nodes is None else {"nodes": float(nodes)},
    )
