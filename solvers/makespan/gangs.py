"""Pools with gangs as cumulative resources: few jobs scheduled by CP-SAT, to the end or to a bound.

An optional interval for every entry, one per job, pools as cumulative constraints (Baptiste, Le Pape, Nuijten
2001). Beside a job that takes a pool alone nothing runs, so these may be moved behind all others: they form a
chain, and what is left of the time is all that the others have. The rest is implied, and found by no
propagation: widths rounded by a dual feasible function fill a pool too (Fekete and Schepers 2004), and jobs
that each last longer than half the time all run at once.
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
from apportion.solvers.general.cp_sat_call import Limits, call, new_model, preload, weighted_sum
from apportion.solvers.general.observer import Observe, Observer
from apportion.solvers.search.lattice import Lattice, on_lattice

__all__ = ["ENTRY", "preload", "small_enough", "solve"]

ENTRY = "apportion.solvers.makespan.gangs:solve"
"""How a child process calls it."""
_JOBS, _ENTRIES = 40, 200
_GRAIN = 2**40
"""The longest time in whole units, at most: CP-SAT adds them up with room to spare."""
_WORK = 4.0
"""Deterministic seconds of each of two searches without a clock."""
_TURNS = ((0.5, False), (1.0, True))
"""Share of what is left of the time, and whether linear relaxations are solved; each proves some."""
_PARTS = (1, 2, 3)
"""Of the dual feasible functions of widths: into how many parts a pool is cut, less one."""


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
        for share, relaxes in _TURNS:
            ended = self._turn(lattice, share, relaxes)
            if ended in (Termination.OPTIMAL, Termination.ERROR, Termination.INTERRUPTED):
                break
        return ended

    def _turn(self, lattice: Lattice, share: float, relaxes: bool) -> Termination:
        model, options, observer = self._model, self._options, self._observer
        written = _Written(model, lattice, self.best, self.bound)
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


class _Written:
    """The model as CP-SAT's, and the way back."""

    def __init__(
        self, model: Assignment, lattice: Lattice, incumbent: NDArray[np.int64], least: float
    ) -> None:
        self.native = native = new_model()
        self._model, self._time = model, lattice.whole
        self._top = int(replace(model, values=lattice.whole.astype(np.float64)).objective(incumbent))
        low = math.ceil((Fraction(least) - model.num_jobs * lattice.error) / lattice.unit)
        self._end = native.new_int_var(min(max(low, 0), self._top), self._top, "")
        self._taken = [native.new_bool_var("") for _ in range(model.num_options)]
        self._start: dict[int, Any] = {}
        for first, last in zip(model.offsets[:-1].tolist(), model.offsets[1:].tolist(), strict=True):
            native.add_exactly_one(self._taken[first:last])
        for pool in range(model.num_machines):
            self._pool(np.flatnonzero(model.machine == pool), int(model.counts[pool]))
        # where the jobs run, not when: starts given as well were followed too far to find better ones
        chosen = in_turn(incumbent)[0][model.job_of_option()]
        for row, taken in enumerate(self._taken):
            native.add_hint(taken, bool(chosen[row] == row))
        native.minimize(self._end)

    def point(self, value: Any) -> NDArray[np.int64]:
        """Return the choice of a solution, and the turns of its starts."""
        model = self._model
        rows = np.flatnonzero([bool(value(taken)) for taken in self._taken])
        choice = np.full(model.num_jobs, -1, dtype=np.int64)
        choice[model.job_of_option()[rows]] = rows
        # what takes no time goes first, what takes the pool alone last
        key = [value(self._start[row]) if row in self._start else self._top for row in choice.tolist()]
        turns = np.empty_like(choice)
        turns[np.lexsort((np.array(key), self._time[choice] > 0))] = np.arange(choice.size)
        return np.stack((choice, turns))

    def _pool(self, rows: NDArray[np.int64], count: int) -> None:
        """Write one pool: the chain of those that take it alone, and what runs in the rest of the time."""
        native, gpus = self.native, self._model.gpus
        for row in rows[self._time[rows] > self._top].tolist():
            native.add(self._taken[row] == 0)
        rows = rows[self._time[rows] <= self._top]
        if not rows.size:
            return
        alone = _alone(gpus[rows], count)
        chain, rest = rows[alone], rows[~alone]
        left = self._end
        if rest.size:
            left = native.new_int_var(0, self._top, "")
        native.add(self._sum(chain, self._time[chain]) + (left if rest.size else 0) <= self._end)
        if not rest.size:
            return
        spans = [self._span(row, left) for row in rest.tolist()]
        native.add_cumulative(spans, gpus[rest].tolist(), count)
        for widths, whole in _rounded(gpus[rest], count):
            native.add(self._sum(rest, self._time[rest] * widths) <= whole * left)
        long = rows[2 * self._time[rows] > self._top]
        if long.size > 1:
            native.add(self._sum(long, gpus[long]) <= count)

    def _sum(self, rows: NDArray[np.int64], weights: NDArray[np.int64]) -> Any:
        return weighted_sum([self._taken[row] for row in rows.tolist()], weights.tolist())

    def _span(self, row: int, left: Any) -> Any:
        native, time = self.native, int(self._time[row])
        start = native.new_int_var(0, self._top - time, "")
        native.add(start + time <= left).only_enforce_if(self._taken[row])
        self._start[row] = start
        return native.new_optional_fixed_size_interval_var(start, time, self._taken[row], "")


def _alone(gpus: NDArray[np.int64], count: int) -> NDArray[np.bool_]:
    """Return bool [entries]: beside which of a pool's entries no other job fits."""
    return np.asarray(gpus + gpus.min() > count, dtype=np.bool_)


def _rounded(gpus: NDArray[np.int64], count: int) -> list[tuple[NDArray[np.int64], int]]:
    """Return whole widths whose sum at any time is at most the number beside them.

    With parts k: a width x of 1 is ``floor((k + 1) x) / k``, or x itself where ``(k + 1) x`` is whole.
    """
    found = [(gpus, count)]
    for k in _PARTS:
        cut = (k + 1) * gpus
        widths = np.where(cut % count == 0, k * gpus, cut // count * count)
        if (widths > k * gpus).any():
            found.append((widths.astype(np.int64), k * count))
    return found
