"""Local search over the lists by which pools are scheduled: jobs change places, or go to another pool.

Each job of a list begins as early as it can behind those before it, on the machines that were free last of
those free then: what was free earlier stays so for the jobs behind it. The list of its jobs in the order of
their starts gives any schedule in which no job can begin earlier by itself.

Worse lists are accepted as in simulated annealing (Kirkpatrick, Gelatt and Vecchi, *Science* 220, 1983), at
temperatures on the scale of a job's part of the load. What is made less is the makespan and a share of the
mean end of the pools and of the mean load of the machines: a makespan alone says nothing of the pools that
end sooner, and an end nothing of jobs that take less of another pool.

The compiled twin `list_search_c` makes the same steps; where it is not built or switched off, the Python
below runs.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from itertools import cycle, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.models.assignment import Assignment, in_turn
from apportion.models.packing import pack
from apportion.solvers.clock import Clock
from apportion.solvers.compiled import Xorshift, load

__all__ = ["ListSearch"]

_LARGEST = 2_000_000
"""Jobs times pools up to which there are lists."""
_FIRST_STEPS, _LONGER, _MOST_STEPS, _MOST_S = 20_000, 3, 200_000, 1.0
"""Steps from warm to cold, by how much more the next time, and at most, in steps and in seconds."""
_TURNS = tuple(product((0.3, 3.0), (1.0, 0.3, 0.1)))
"""The first temperature, and the weight of the mean end and the mean load beside the makespan, turn by turn.

Temperatures are shares of a job's mean part of the load. Each finds what the others do not.
"""
_FRUITLESS = 9
"""How often in a row from warm to cold without a better schedule."""
_COLDER = 0.01
"""What is left of the temperature at the end."""
_SECONDS_PER_JOB = {True: 1e-8, False: 2e-6}
"""A step takes so long for every job, by whether it is compiled; what deterministic mode charges."""
_SLICE = 5e-3
"""Seconds between two looks at the clock, about."""
_STEPS_PER_UNIT = 1_000
"""Steps that count as a unit of work."""
_Lists = tuple[NDArray[np.int32], NDArray[np.int64]]


class ListSearch:
    """One local search from a schedule; the best one met is kept.

    Parameters
    ----------
    model
        A makespan on pools, no capacities, that it `is_for`.
    point
        A choice of all jobs, with turns or without.
    clock, seed
        Of the solve call.

    Attributes
    ----------
    makespan
        Of the best schedule, in seconds.
    """

    def __init__(self, model: Assignment, point: NDArray[np.int64], clock: Clock, seed: int) -> None:
        self._model, self._clock = model, clock
        rows = model.rows()
        self._rows = rows
        times = np.where(rows < 0, np.inf, model.values[rows])
        lists = np.zeros((model.num_machines, model.num_jobs), dtype=np.int32)
        lengths = np.zeros(model.num_machines, dtype=np.int64)
        choice, turns = in_turn(point)
        for pool in range(model.num_machines):
            jobs = np.flatnonzero(model.machine[choice] == pool)
            own = choice[jobs]
            turn = None if turns is None else turns[jobs]
            starts = pack(model.values[own], model.gpus[own], int(model.counts[pool]), turn)[1]
            lists[pool, : jobs.size] = jobs[_by_start(starts, model.values[own])]
            lengths[pool] = jobs.size
        self._given = (times, np.where(rows < 0, 1, model.gpus[rows]), model.counts.astype(np.int64))
        self._best: _Lists = lists, lengths
        self._random = np.array([Xorshift.seeded(seed).word], dtype=np.uint64)
        self._part = float((model.values * model.gpus)[choice].mean()) / float(model.counts.sum())
        self._module = load("makespan.list_search_c")
        self._price = _SECONDS_PER_JOB[self._module is not None] * model.num_jobs
        self.makespan = float(model.objective(point))

    @staticmethod
    def is_for(model: Assignment) -> bool:
        """Return whether the lists of a model are small enough to be held."""
        return model.num_jobs * model.num_machines <= _LARGEST

    def run(self, seconds: float, closes: Callable[[float], bool]) -> None:
        """Search from warm to cold, again and again, until it helps no more or a makespan is good enough.

        Parameters
        ----------
        seconds
            Of the clock, at most; may be infinite.
        closes
            Whether a makespan is good enough; asked of every better one.
        """
        until, length, fruitless = self._clock.elapsed + seconds, _FIRST_STEPS, 0
        if self._part == 0.0:
            return
        for warm, weight in cycle(_TURNS):
            before = self.makespan
            if fruitless == _FRUITLESS or not self._turn(length, until, closes, warm * self._part, weight):
                return
            fruitless = 0 if self.makespan < before else fruitless + 1
            length = max(length, min(_LONGER * length, _MOST_STEPS, int(_MOST_S / self._price)))

    @property
    def point(self) -> NDArray[np.int64]:
        """int64 [2, jobs]: the entries of the best schedule, and the turns in which its jobs are placed.

        On single machines int64 [jobs], the entries: jobs run in any turn.
        """
        lists, lengths = self._best
        times, widths, counts = (array.tolist() for array in self._given)
        pool_of, starts = np.empty(lists.shape[1], dtype=np.int64), np.empty(lists.shape[1])
        for pool, jobs in enumerate(lists):
            own = jobs[: lengths[pool]].tolist()
            pool_of[own] = pool
            starts[own] = _scheduled(own, pool, times, widths, counts[pool])
        choice = self._rows[np.arange(pool_of.size), pool_of]
        if not (self._model.counts > 1).any():
            return choice
        turns = np.empty_like(choice)
        turns[_by_start(starts, self._model.values[choice])] = np.arange(choice.size)
        return np.stack((choice, turns))

    def _turn(
        self, length: int, until: float, closes: Callable[[float], bool], temperature: float, weight: float
    ) -> bool:
        """Make so many steps from warm to cold; return whether there was the time and the need."""
        clock, cooling = self._clock, _COLDER ** (1.0 / length)
        now = self._best[0].copy(), self._best[1].copy()
        run: Any = _steps_in_python if self._module is None else self._module.run
        while length > 0:
            # asked first, so that it hears of every makespan
            if closes(self.makespan) or clock.stopped() is not None or clock.elapsed >= until:
                return False
            steps = min(length, max(1, int(_SLICE / self._price)))
            found: _Lists = np.empty_like(now[0]), np.empty_like(now[1])
            makespan = run(*self._given, *now, *found, self._random, steps, temperature, cooling, weight)
            if makespan < self.makespan:
                self.makespan, self._best = makespan, found
            clock.charge(steps / _STEPS_PER_UNIT, steps * self._price)
            temperature *= cooling**steps
            length -= steps
        return True


def _by_start(starts: NDArray[np.float64], times: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return jobs by their starts; of those that start together what takes no time goes first."""
    return np.lexsort((times > 0, starts))


def _placed(free: list[float], width: int, time: float) -> float:
    """Let a job begin as early as it can, on the machines free last of those free then; return its start."""
    start = free[width - 1]
    beyond = bisect_right(free, start)
    del free[beyond - width : beyond]
    at = bisect_left(free, start + time, beyond - width)
    free[at:at] = [start + time] * width
    return start


def _scheduled(
    jobs: list[int], pool: int, times: list[list[float]], widths: list[list[int]], count: int
) -> list[float]:
    """Return the starts of a pool's jobs, in seconds."""
    free = [0.0] * count
    return [_placed(free, widths[job][pool], times[job][pool]) for job in jobs]


def _steps_in_python(*given: Any) -> float:
    """Make the steps of the compiled twin: the same ones, from the same arrays."""
    *arrays, lists_, lengths_, best_lists, best_lengths, random_, steps, temperature, cooling, weight = given
    times, widths, counts = (array.tolist() for array in arrays)
    lists = [jobs[:length] for jobs, length in zip(lists_.tolist(), lengths_.tolist(), strict=True)]
    random, pools = Xorshift(int(random_[0])), range(len(lists))

    def draw(most: int) -> int:
        return random.draw() % most

    def work(job: int, pool: int) -> float:
        return float(widths[job][pool] * times[job][pool])

    def end(pool: int) -> float:
        starts = _scheduled(lists[pool], pool, times, widths, counts[pool])
        return max(
            (start + times[job][pool] for job, start in zip(lists[pool], starts, strict=True)), default=0.0
        )

    def cost() -> float:
        total = 0.0
        for one in ends:  # `sum` is more exact than the twin, from Python 3.12 on
            total += one
        return float(max(ends) + weight * (total / len(ends) + load / machines))

    def change(exchanges: int, pool: int, at: int, other: int, there: int) -> None:
        if exchanges:
            lists[pool][at], lists[other][there] = lists[other][there], lists[pool][at]
        else:
            lists[other].insert(there, lists[pool].pop(at))

    def keep(into: Any, lengths: Any) -> None:
        for pool, jobs in enumerate(lists):
            into[pool, : len(jobs)] = jobs
            lengths[pool] = len(jobs)

    ends, machines, load = [end(pool) for pool in pools], float(sum(counts)), 0.0
    for pool in pools:
        for job in lists[pool]:
            load += work(job, pool)
    keep(best_lists, best_lengths)
    best = max(ends)
    for _ in range(steps):
        pool = ends.index(max(ends)) if draw(2) else draw(len(ends))
        if lists[pool]:
            at = draw(len(lists[pool]))
            job, exchanges = lists[pool][at], draw(2)
            other = pool if draw(2) else draw(len(ends))
            places = len(lists[other]) + (other != pool and not exchanges)
            if places and times[job][other] < math.inf:
                there = draw(places)
                enough = cost() - temperature * math.log(1.0 - random.share())
                before, load_before, possible = (ends[pool], ends[other]), load, True
                if other != pool:
                    load += work(job, other) - work(job, pool)
                    if exchanges:
                        back = lists[other][there]
                        possible = times[back][pool] < math.inf
                        load += work(back, pool) - work(back, other) if possible else 0.0
                if possible:
                    change(exchanges, pool, at, other, there)
                    ends[pool] = end(pool)
                    ends[other] = end(other) if other != pool else ends[pool]
                    if cost() > enough:
                        change(exchanges, other, there, pool, at)
                        ends[pool], ends[other], load = *before, load_before
                else:
                    load = load_before
        if max(ends) < best:
            best = max(ends)
            keep(best_lists, best_lengths)
        temperature *= cooling
    keep(lists_, lengths_)
    random_[0] = random.word
    return best
