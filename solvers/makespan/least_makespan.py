"""The makespan on unrelated machines (R||Cmax): bound, schedules, then search on the entries still open.

Single machines are searched by the compiled tree; without it, and pools with gangs, by local search and by
branch and bound over what is left.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from apportion.models.assignment import Assignment, in_turn
from apportion.models.assignment_bounds import counting_bound, filtered_work, pooled
from apportion.models.assignment_lowering import LoweredAssignment, lower_assignment
from apportion.options import SolveOptions
from apportion.outcome import Outcome, Termination
from apportion.solvers.assignment.call import AssignmentCall
from apportion.solvers.assignment.lp import Unsolved, relax
from apportion.solvers.assignment.mip import branch_and_bound, trusted
from apportion.solvers.assignment.no_placement import no_placement, small
from apportion.solvers.clock import Clock
from apportion.solvers.general.guard import usable
from apportion.solvers.isolation import isolated
from apportion.solvers.makespan import gangs
from apportion.solvers.makespan.branching import branched
from apportion.solvers.makespan.by_tree import MakespanSearch, first_choice, fits
from apportion.solvers.makespan.first import first_schedules, machine_weights
from apportion.solvers.makespan.local_search import ScheduleSearch
from apportion.solvers.makespan.pools import rearranged
from apportion.solvers.search.slices import Slices

__all__ = ["solve"]

_WIDE = 2_500
"""Entries from which a few machines at a time are searched before the first decision."""
_REARRANGED, _FEW = 3.0, 0.15
"""Most seconds of local search over pools; its share of the time where CP-SAT comes after it."""
_LOADED = 1.0
"""Seconds below which CP-SAT, which takes about one to load, is not asked."""
_NODES = 10_000
"""Nodes of branch and bound where neither time nor work is limited."""
_BRANCHED = 4_000
"""Entries of aggregated pools up to which branch and bound is tried: above, the relaxation is close."""


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
        return _aggregated(call, lowered, found if start is None else [*found, start], prices)
    if start is not None:
        found.append(in_turn(start)[0])  # on single machines turns make no difference
    if fits(model):
        return _by_tree(call, found, weights)
    own = call.best.bound
    choice, ended = _searched(call, lowered, found, prices)
    ended = Termination.OPTIMAL if call.closes(model.objective(choice)) else ended
    return _outcome(call, choice, prices, ended, own=own)


def _by_tree(call: AssignmentCall, found: list[NDArray[np.int64]], weights: NDArray[np.float64]) -> Outcome:
    """Search by the compiled tree, from the best start."""
    model, options, clock = call.model, call.options, call.clock

    def take(choice: NDArray[np.int64], bound: float) -> None:
        call.best.bound = bound
        call.offer(choice)

    slices = Slices(clock.late, clock.work_left)
    if not found:
        none, choice = first_choice(model, slices)
        if choice is None:
            ended = Termination.INTERRUPTED if slices.interrupted else _limit(options)
            return Outcome(
                termination=Termination.INFEASIBLE if none else ended,
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
        return _outcome(call, best, prices, Termination.OPTIMAL)
    tree = MakespanSearch(
        model, best, call.best.bound or 0.0, weights, slices, take, options.gap, options.seed
    )
    if model.num_options > _WIDE:
        turn = _share(clock, 0.4)
        until = math.inf if turn is None else clock.seconds + turn
        tree.rebalance(lambda: clock.seconds >= until)
    call.best.bound, closed = tree.run()
    clock.charge(slices.nodes)
    ended = Termination.INTERRUPTED if slices.interrupted else _limit(options)
    outcome = _outcome(call, tree.choice, prices, Termination.OPTIMAL if closed else ended, slices.nodes)
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


def _limit(options: SolveOptions) -> Termination:
    return Termination.TIME_LIMIT if options.time_limit is not None else Termination.SOLUTION_LIMIT


def _searched(
    call: AssignmentCall,
    lowered: LoweredAssignment,
    found: list[NDArray[np.int64]],
    prices: NDArray[np.float64],
) -> tuple[NDArray[np.int64], Termination]:
    model, options = call.model, call.options
    search = ScheduleSearch(model, options.seed)

    def over() -> bool:
        return call.clock.late() or call.closes(search.makespan())

    best: NDArray[np.int64] | None = None
    for choice in found:
        search.take(choice)
        search.descend(over)
        if best is None or search.makespan() < model.objective(best):
            best = search.choice()
            call.offer(best)
    assert best is not None
    search.take(best)
    search.run(over, rounds=100)
    best = search.choice()
    call.offer(best)
    if over():
        return best, _limit(options)
    best, proven = branched(call, lowered, best, prices)
    return best, Termination.OPTIMAL if proven else _limit(options)


def _aggregated(
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
    best = _rearranged(call, best, _FEW if by_cp_sat else 1.0)
    if call.closes(model.objective(best)):
        return _outcome(call, best, prices, Termination.OPTIMAL)
    if clock.work_left == 0:
        return _outcome(call, best, prices, Termination.NODE_LIMIT)
    if by_cp_sat:
        outcome = _by_cp_sat(call, best, prices)
    elif model.num_options > _BRANCHED:
        outcome = _outcome(call, best, prices, _ended(clock))
    else:
        outcome = _branched(call, lowered, best, prices)
    # on pools the local search and CP-SAT end with a proof or at their share of the clock
    by_clock = left is not None and outcome.termination is Termination.SOLUTION_LIMIT
    return replace(outcome, termination=Termination.TIME_LIMIT) if by_clock else outcome


def _rearranged(call: AssignmentCall, best: NDArray[np.int64], share: float) -> NDArray[np.int64]:
    """Search locally over pools, one unit of work a schedule; without limits its own rounds end it."""
    clock = call.clock
    left = clock.seconds_left
    until = math.inf if left is None else clock.seconds + min(_REARRANGED, share * left)

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
    ended = said.termination if said.termination is Termination.INTERRUPTED else _ended(clock)
    closed = call.closes(call.model.objective(best))
    outcome = _outcome(call, best, prices, Termination.OPTIMAL if closed else ended, own=own)
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
        ended = Termination.NUMERICAL_ERROR if known else _limit(options)
        return Outcome(termination=ended, raw_status=branched.raw, bound=call.best.bound)
    closed = call.closes(model.objective(best))
    limited = branched.termination in (Termination.TIME_LIMIT, Termination.NODE_LIMIT)
    ended = branched.termination if limited else _ended(clock)
    return _outcome(call, best, prices, Termination.OPTIMAL if closed else ended, own=own)


def _ended(clock: Clock) -> Termination:
    """Say why a search that has nothing more to try ended: by the clock only if that was over."""
    return Termination.TIME_LIMIT if clock.late() else Termination.SOLUTION_LIMIT


def _outcome(
    call: AssignmentCall,
    choice: NDArray[np.int64],
    prices: NDArray[np.float64],
    termination: Termination,
    nodes: int | None = None,
    own: float | None = None,
) -> Outcome:
    """Return a choice with the call's bound; if it is not `own` any more, a general solver has raised it."""
    call.offer(choice)
    return Outcome(
        termination=termination,
        raw_status="searched",
        point=choice,
        objective=call.model.objective(choice),
        bound=call.best.bound,
        bound_source="branch_and_bound" if own is None or own == call.best.bound else "solver",
        multipliers=prices,
        seconds={"solve": call.clock.seconds},
        counters={} if nodes is None else {"nodes": float(nodes)},
    )
