"""The makespan where jobs hold several machines of a pool, or machines have capacities and there is no tree.

Pools are packed by list schedules and improved by local search; then CP-SAT has its turn, or HiGHS branches
over all entries.

Pools with gangs: few jobs scheduled by CP-SAT, to the end or to a bound.

First whom each pool gets, and then one pool at a time (`gang_sets`): that finds better schedules where the
proof is hard. What it leaves open is improved by local search, where there is a clock for it, and searched as
a whole (`gang_model`), without linear relaxations and with them.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.core.options import SolveOptions
from apportion.core.outcome import Outcome, Termination
from apportion.models.assignment import Assignment, in_turn
from apportion.models.lowering import LoweredAssignment
from apportion.solvers.assignment.call import AssignmentCall, small
from apportion.solvers.assignment.mip import branch_and_bound, trusted
from apportion.solvers.clock import Clock
from apportion.solvers.general.cp_sat_call import Limits, call, preload
from apportion.solvers.general.guard import usable
from apportion.solvers.general.points import Observe, Observer
from apportion.solvers.isolation import isolated
from apportion.solvers.makespan.by_tree import ended, searched
from apportion.solvers.makespan.gang_sets import PoolsModel, SetSearch
from apportion.solvers.makespan.list_search import LARGEST, ListSearch
from apportion.solvers.search.few_machines import Lattice, on_lattice

__all__ = ["ENTRY", "on_pools", "preload", "small_enough", "solve"]


ENTRY = "apportion.solvers.makespan.by_pools:solve"
"""How a child process calls it."""
_JOBS, _ENTRIES = 1_000, 4_000
_GRAIN = 2**40
"""The longest time in whole units, at most: CP-SAT adds them up with room to spare."""
_WORK = 4.0
"""Deterministic seconds of each of two searches without a clock."""
_SETS = 0.5
"""Share of the time in which pools are looked at one by one."""
_GANGS_REARRANGED, _PART = 3.0, 0.2
"""Most seconds of local search, and its share of what is left of the time then."""
_TURNS = ((0.5, False), (1.0, True))
"""Share of what is left of the time, and whether linear relaxations are solved; each proves some."""


def small_enough(model: Assignment) -> bool:
    """Return whether the search is worth its time: few jobs, some of several GPUs, and no capacities."""
    gangs = bool(((model.gpus > 1) & (model.counts[model.machine] > 1)).any())
    return gangs and model.num_jobs <= _JOBS and model.num_options <= _ENTRIES and not model.limited.any()


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
    ended = search.run()
    observer.finish()
    return Outcome(
        termination=ended,
        raw_status="CP-SAT",
        point=None if search.best is start else search.best,
        objective=None if search.best is start else model.objective(search.best),
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
        self.best, self.bound = start, least

    def run(self) -> Termination:
        """Take the turns until one ends it, and say how the last one ended."""
        ended = Termination.SOLUTION_LIMIT
        if (lattice := on_lattice(self._model.values, _GRAIN)) is None:
            return ended
        ended = self._by_sets(lattice)
        if ended is Termination.SOLUTION_LIMIT:
            ended = self._rearrange()
        for share, relaxes in _TURNS:
            if ended in (Termination.OPTIMAL, Termination.ERROR, Termination.INTERRUPTED):
                break
            ended = self._turn(lattice, share, relaxes)
        return ended

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
        clock, left = self._clock, self._clock.seconds_left
        if left is not None:
            search = ListSearch(self._model, self.best, clock, self._options.seed)
            search.run(min(_GANGS_REARRANGED, _PART * left), lambda makespan: makespan <= self.bound)
            self._take(search.point, self.bound)
        stopped = self._observer.raised is not None
        return Termination.INTERRUPTED if stopped else Termination.SOLUTION_LIMIT

    def _turn(self, lattice: Lattice, share: float, relaxes: bool) -> Termination:
        model, options, observer = self._model, self._options, self._observer
        hint = in_turn(self.best)[0]
        written = PoolsModel(model, lattice.whole, self._low(lattice), self._top(lattice), hint)
        seconds = self._clock.seconds_left

        def listen(value: Any, native_bound: float) -> bool:
            bound = max(self.bound, _proven(model, lattice, native_bound))
            self._take(written.point(value), bound)
            return observer.raised is not None

        said = call(
            written.native,
            Limits(
                seconds=None if seconds is None else share * seconds,
                work=_WORK if seconds is None else None,
                gap=options.gap,
                seed=options.seed,
                threads=options.threads,
                interleaved=options.deterministic and options.threads > 1,
                relaxes=relaxes,
            ),
            listen if observer.active else None,
        )
        if said.bound is not None:
            self.bound = max(self.bound, _proven(model, lattice, said.bound))
            observer.bound(self.bound)
        if said.value is not None:
            self._take(written.point(said.value), self.bound)
        return Termination.INTERRUPTED if said.interrupted else said.termination

    def _low(self, lattice: Lattice) -> int:
        """Return the bound in whole units."""
        slack = self._model.num_jobs * lattice.error
        return math.ceil((Fraction(self.bound) - slack) / lattice.unit)

    def _top(self, lattice: Lattice) -> int:
        """Return the makespan of the best schedule in whole units."""
        return int(replace(self._model, values=lattice.whole.astype(np.float64)).objective(self.best))

    def _take(self, point: NDArray[np.int64], bound: float) -> None:
        objective = self._model.objective(point)
        if objective < self._model.objective(self.best):
            self.best = point
            self._observer.incumbent(point, objective, bound)


def _proven(model: Assignment, lattice: Lattice, claimed: float) -> float:
    """Return a bound in whole units as one on float64 times, each of which is off by at most the error."""
    bound = Fraction(round(claimed)) * lattice.unit - model.num_jobs * lattice.error
    rounded = float(bound)
    return rounded if Fraction(rounded) <= bound else float(np.nextafter(rounded, -np.inf))


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
    by_cp_sat = small_enough(model) and usable("ortools") and (left is None or left > _LOADED)
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
    """Search locally over the lists of pools; without limits its own turns end it."""
    if call.model.num_jobs * call.model.num_machines > LARGEST:
        return best
    left = call.clock.seconds_left
    search = ListSearch(call.model, best, call.clock, call.options.seed)
    search.run(math.inf if left is None else min(seconds, left), call.closes)
    best = min(best, search.point, key=call.model.objective)
    call.offer(best)
    return best


def _by_cp_sat(call: AssignmentCall, best: NDArray[np.int64], prices: NDArray[np.float64]) -> Outcome:
    """Let CP-SAT have what is left of the time, in a process that ends with it."""
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
