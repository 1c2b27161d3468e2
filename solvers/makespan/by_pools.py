"""The makespan where jobs hold several machines of a pool, or machines have capacities and there is no tree.

Pools are packed by list schedules and improved by local search (`list_search`). With gangs, whom each pool
gets is then decided, and one pool scheduled at a time (`gang_sets`), in a process of its own where there is a
clock; what that leaves open is searched locally to the end. Where there are capacities HiGHS branches over
all entries.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from apportion.core.options import SolveOptions
from apportion.core.outcome import Outcome, Termination, relative_gap
from apportion.models.assignment import Assignment, in_turn
from apportion.models.lowering import lower_assignment
from apportion.solvers.assignment.call import AssignmentCall, small
from apportion.solvers.assignment.mip import branch_and_bound, trusted
from apportion.solvers.clock import Clock
from apportion.solvers.general.cp_sat_call import preload
from apportion.solvers.general.guard import usable
from apportion.solvers.general.highs_call import HIGHS_ERROR
from apportion.solvers.general.points import Observe, Observer
from apportion.solvers.isolation import isolated
from apportion.solvers.makespan.by_tree import ended, searched
from apportion.solvers.makespan.gang_sets import SetSearch
from apportion.solvers.makespan.list_search import ListSearch
from apportion.solvers.search.few_machines import Lattice, on_lattice

__all__ = ["ENTRY", "on_pools", "preload", "small_enough", "solve"]


ENTRY = "apportion.solvers.makespan.by_pools:solve"
"""How a child process calls it."""
_ENTRIES = 4_000
"""Entries up to which pools are looked at one by one."""
_GRAIN = 2**40
"""The longest time in whole units, at most: CP-SAT adds them up with room to spare."""
_SETS = 0.7
"""Share of the time in which pools are looked at one by one; the rest is for local search."""


def small_enough(model: Assignment) -> bool:
    """Return whether the search is worth its time: few entries, some of several GPUs, and no capacities."""
    gangs = bool(((model.gpus > 1) & (model.counts[model.machine] > 1)).any())
    return gangs and model.num_options <= _ENTRIES and not model.limited.any()


def solve(
    model: Assignment,
    options: SolveOptions,
    start: NDArray[np.int64],
    least: float,
    observe: Observe | None = None,
) -> Outcome:
    """Search all schedules that end no later than the start, in a child process or here.

    Parameters
    ----------
    model
        A makespan on pools.
    options
        Limits, seed, gap and threads; without a time limit the work is bounded.
    start
        A choice, with turns or without.
    least
        A known lower bound.
    observe
        Told of every better schedule, int64 [2, jobs]: where the jobs run and in which turn; and of bounds.

    Returns
    -------
    Outcome
        Without a point where nothing was better than the start.
    """
    clock = Clock(options)
    observer = Observer(False, options, observe, clock)
    search = _Search(model, options, clock, observer, start, least)
    over = search.run()
    observer.finish()
    return Outcome(
        termination=over,
        raw_status="CP-SAT",
        point=None if search.best is start else search.best,
        objective=None if search.best is start else search.makespan,
        bound=search.bound,
        bound_source="solver",
    )


class _Search:
    """The turns of one call, the best schedule so far and the bound."""

    def __init__(
        self,
        model: Assignment,
        options: SolveOptions,
        clock: Clock,
        observer: Observer,
        start: NDArray[np.int64],
        least: float,
    ) -> None:
        self._model, self._options, self._clock, self._observer = model, options, clock, observer
        self.best, self.bound, self.makespan = start, least, model.objective(start)

    def run(self) -> Termination:
        """Decide pool by pool, then search locally; say how it ended."""
        lattice = on_lattice(self._model.values, _GRAIN)
        over = Termination.SOLUTION_LIMIT if lattice is None else self._by_sets(lattice)
        return self._rearrange() if over is Termination.SOLUTION_LIMIT else over

    def _by_sets(self, lattice: Lattice) -> Termination:
        """Decide whom each pool gets, and schedule pools one by one."""
        seconds = self._clock.seconds_left
        until = None if seconds is None else self._clock.seconds + _SETS * seconds

        def left() -> float | None:
            return None if until is None else until - self._clock.seconds

        low, top = self._low(lattice), self._top(lattice)
        search = SetSearch(
            self._model, lattice.whole, low, top, in_turn(self.best)[0], self._options.seed, left
        )
        for point in search.schedules():
            self._take(point, max(self.bound, _proven(self._model, lattice, search.low)))
            if self._observer.raised is not None:
                return Termination.INTERRUPTED
        self.bound = max(self.bound, _proven(self._model, lattice, search.low))
        self._observer.bound(self.bound)
        return search.ended

    def _rearrange(self) -> Termination:
        """Search locally from the best schedule; without a clock the caller has done it."""
        observer, gap = self._observer, self._options.gap

        def closes(makespan: float) -> bool:
            if makespan < self.makespan:
                self._take(search.point, self.bound)
            return observer.raised is not None or relative_gap(self.makespan, self.bound) <= gap

        if self._options.time_limit is not None and ListSearch.is_for(self._model):
            search = ListSearch(self._model, self.best, self._clock, self._options.seed)
            search.run(math.inf, closes)
        return Termination.INTERRUPTED if observer.raised is not None else ended(self._clock)

    def _low(self, lattice: Lattice) -> int:
        """Return the bound in whole units."""
        slack = self._model.num_jobs * lattice.error
        return math.ceil((Fraction(self.bound) - slack) / lattice.unit)

    def _top(self, lattice: Lattice) -> int:
        """Return the makespan of the best schedule in whole units."""
        return int(replace(self._model, values=lattice.whole.astype(np.float64)).objective(self.best))

    def _take(self, point: NDArray[np.int64], bound: float) -> None:
        objective = self._model.objective(point)
        if objective < self.makespan:
            self.best, self.makespan = point, objective
            self._observer.incumbent(point, objective, bound)


def _proven(model: Assignment, lattice: Lattice, claimed: float) -> float:
    """Return a bound in whole units as one on float64 times, each of which is off by at most the error."""
    bound = Fraction(round(claimed)) * lattice.unit - model.num_jobs * lattice.error
    rounded = float(bound)
    return rounded if Fraction(rounded) <= bound else float(np.nextafter(rounded, -np.inf))


_REARRANGED, _GLANCE = 3.0, 0.05
"""Most seconds of local search over pools, before branch and bound and before sets of jobs (`gang_sets`)."""
_LAST = 0.9
"""Share of the time that it has at most: the schedule of thousands of jobs must still be put together."""
_LOADED = 1.0
"""Seconds below which CP-SAT, which takes about one to load, is not asked."""
_NODES = 10_000
"""Nodes of branch and bound where neither time nor work is limited."""
_BRANCHED = 4_000
"""Entries of aggregated pools up to which branch and bound is tried: above, the relaxation is close."""


def on_pools(
    call: AssignmentCall,
    found: list[NDArray[np.int64]],
    prices: NDArray[np.float64],
) -> Outcome:
    """Pools packed by list schedules, or machines with capacities: the best start, then what proves most."""
    model, clock = call.model, call.clock
    best = min(found, key=model.objective) if found else None
    if best is None or model.limited.any():
        return _branched(call, best, prices)
    call.offer(best)
    left = clock.seconds_left
    by_sets = small_enough(model) and usable("ortools") and (left is None or left > _LOADED)
    branches = not by_sets and model.num_options <= _BRANCHED
    seconds = _GLANCE if by_sets else _REARRANGED if branches else math.inf
    best = _rearranged(call, best, seconds)
    if call.closes(model.objective(best)):
        return searched(call, best, prices, Termination.OPTIMAL)
    if clock.work_left == 0:
        return searched(call, best, prices, Termination.NODE_LIMIT)
    if by_sets:
        return _by_sets(call, best, prices)
    if branches:
        outcome = _branched(call, best, prices)
        # with more time the local search would have had more, whether or not HiGHS ended before the limit
        is_cut = left is not None and _LAST * left < seconds and ListSearch.is_for(model)
        if is_cut and outcome.termination is Termination.SOLUTION_LIMIT:
            return replace(outcome, termination=Termination.TIME_LIMIT)
        return outcome
    return searched(call, best, prices, ended(clock))


def _rearranged(call: AssignmentCall, best: NDArray[np.int64], seconds: float) -> NDArray[np.int64]:
    """Search locally over the lists of pools; without limits its own turns end it."""
    if not ListSearch.is_for(call.model):
        return best
    left = call.clock.seconds_left
    search = ListSearch(call.model, best, call.clock, call.options.seed)
    search.run(math.inf if left is None else min(seconds, _LAST * left), call.closes)
    best = min(best, search.point, key=call.model.objective)
    call.offer(best)
    return best


def _by_sets(call: AssignmentCall, best: NDArray[np.int64], prices: NDArray[np.float64]) -> Outcome:
    """Search pool by pool in what is left of the time, in a process that ends with it."""
    clock, own = call.clock, call.best.bound
    options = replace(call.options, on_incumbent=lambda found: call.best.report(found.objective, found.bound))
    left = clock.seconds_left
    if left is None:
        said = solve(call.model, options, best, own or 0.0)
    else:
        options = replace(options, time_limit=max(left, 1e-3))
        said = isolated.solve(ENTRY, call.model, options, best, (own or 0.0,))
    if said.bound is not None:
        call.best.tighten(said.bound)
    if isinstance(said.point, np.ndarray):
        best = min(best, said.point.astype(np.int64), key=call.model.objective)
    call.best.keep(best, call.model.objective(best))
    failed = said.termination in (Termination.ERROR, Termination.MEMORY_LIMIT)
    by_limit = said.termination in (Termination.INTERRUPTED, Termination.TIME_LIMIT)
    reason = said.termination if by_limit else ended(clock)
    closed = call.closes(call.model.objective(best))
    outcome = searched(call, best, prices, Termination.OPTIMAL if closed else reason, own=own)
    return replace(outcome, raw_status=f"searched; CP-SAT failed: {said.raw_status}") if failed else outcome


def _branched(call: AssignmentCall, best: NDArray[np.int64] | None, prices: NDArray[np.float64]) -> Outcome:
    """Let HiGHS branch over all entries that end before the best schedule does."""
    model, options, clock, own = call.model, call.options, call.clock, call.best.bound
    lowered = lower_assignment(model)
    begin = None if best is None else lowered.point(best)
    top = None if best is None else model.objective(best)
    # beside entries that take 1e11 times as long its tolerances are all that it sees
    quick = None if top is None else np.append(model.values <= top, True)
    nodes = clock.work_left
    if nodes is None and options.time_limit is None:
        nodes = _NODES
    branched = branch_and_bound(
        lowered.model, clock.seconds_left, begin, quick, options.gap, options.seed, nodes, top
    )
    clock.charge(branched.nodes)
    if branched.termination is Termination.INFEASIBLE and best is None and small(model):
        return Outcome(termination=Termination.INFEASIBLE, raw_status=branched.raw, bound_source="solver")
    if branched.point is not None:
        choice = lowered.choice(branched.point)
        if model.check(choice).feasible and (top is None or model.objective(choice) < top):
            best = choice
    if branched.bound is not None and small(model):
        call.best.tighten(trusted(model, branched.bound, top))
    if best is None:
        failures = Termination.ERROR, Termination.NUMERICAL_ERROR, Termination.INFEASIBLE
        reason = Termination.NUMERICAL_ERROR if branched.termination in failures else ended(clock)
        return Outcome(termination=reason, raw_status=branched.raw, bound=call.best.bound)
    # by as much is HiGHS's bound loosened: the answer says that it is within a gap
    closed = call.best.closes(model.objective(best), HIGHS_ERROR * (1 + 1e-4))
    limited = branched.termination in (Termination.TIME_LIMIT, Termination.NODE_LIMIT)
    reason = branched.termination if limited else ended(clock)
    return searched(call, best, prices, Termination.OPTIMAL if closed else reason, own=own)
