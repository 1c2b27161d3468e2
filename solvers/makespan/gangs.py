"""Pools with gangs: few jobs scheduled by CP-SAT, to the end or to a bound.

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

from apportion.models.assignment import Assignment, in_turn
from apportion.options import SolveOptions
from apportion.outcome import Outcome, Termination
from apportion.solvers.clock import Clock
from apportion.solvers.general.cp_sat_call import Limits, call, preload
from apportion.solvers.general.observer import Observe, Observer
from apportion.solvers.makespan.gang_model import PoolsModel
from apportion.solvers.makespan.gang_sets import SetSearch
from apportion.solvers.makespan.pools import rearranged
from apportion.solvers.search.lattice import Lattice, on_lattice

__all__ = ["ENTRY", "preload", "small_enough", "solve"]

ENTRY = "apportion.solvers.makespan.gangs:solve"
"""How a child process calls it."""
_JOBS, _ENTRIES = 40, 200
_GRAIN = 2**40
"""The longest time in whole units, at most: CP-SAT adds them up with room to spare."""
_WORK = 4.0
"""Deterministic seconds of each of two searches without a clock."""
_SETS = 0.5
"""Share of the time in which pools are looked at one by one."""
_REARRANGED, _PART = 3.0, 0.2
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
            until = clock.seconds + min(_REARRANGED, _PART * left)
            begin, seed = in_turn(self.best)[0], self._options.seed
            self._take(rearranged(self._model, begin, seed, lambda _: clock.seconds >= until), self.bound)
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
