"""Whom each pool gets, and whether it can end in time: a master without starts, then one pool at a time.

Logic-based Benders decomposition (Hooker 2007, "Planning and scheduling by logic-based Benders
decomposition"). The master is the relaxation of `gang_model`: who runs where, by how much time and width they
fill. Each pool's jobs are then scheduled by themselves. Where they take longer than the master says, it is
told: a schedule that gives the pool only some of them ends sooner by the times of the others at most, for
these could follow it. Where a pool stays open, its set is left out from then on, and the bound stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from apportion.models.assignment import Assignment
from apportion.models.packing import pack
from apportion.outcome import Termination
from apportion.solvers.general.cp_sat_call import Limits, call
from apportion.solvers.makespan.gang_model import PoolsModel, alone

__all__ = ["SetSearch"]

_LISTS, _SHAKEN = 60, 0.3
"""Lists tried for a pool before CP-SAT is asked, and by how much their keys are disturbed."""
_WORK = 0.2
"""Deterministic seconds of CP-SAT for one pool."""
_MASTER = 2.0
"""The same for one master, which takes hundredths."""
_OPEN = 6
"""Pools left open after which the search ends: what comes later has seldom helped."""


@dataclass(frozen=True, slots=True, eq=False)
class _Packed:
    """What is known of one pool's jobs: a bound on their end, the end of a schedule, and its turns."""

    low: int
    end: int
    turns: NDArray[np.int64]


class SetSearch:
    """The search over the sets of jobs that pools get.

    Parameters
    ----------
    model
        A makespan on pools, no capacities.
    time
        int64 [entries]: times in whole units.
    low, top
        A lower bound on the makespan, and the makespan to beat, in whole units.
    choice
        int64 [jobs]: a choice to begin with.
    seed
        Random seed.
    left
        Returns the seconds that are left, or ``None`` where the work is limited instead.

    Attributes
    ----------
    low
        The bound, raised by every master whose sets are not left out.
    ended
        ``optimal`` where the bound has met the best schedule.
    """

    def __init__(
        self,
        model: Assignment,
        time: NDArray[np.int64],
        low: int,
        top: int,
        choice: NDArray[np.int64],
        seed: int,
        left: Callable[[], float | None],
    ) -> None:
        self.low, self.ended = low, Termination.SOLUTION_LIMIT
        self._model, self._time, self._top, self._seed, self._left = model, time, top, seed, left
        self._whole = replace(model, values=time.astype(np.float64))
        self._master = PoolsModel(model, time, low, top, choice, starts=False)
        self._rng = np.random.default_rng(seed)
        self._known: dict[tuple[int, ...], _Packed] = {}
        self._left_open = 0

    def schedules(self) -> Iterator[NDArray[np.int64]]:
        """Yield every better schedule: int64 [2, jobs], where the jobs run and in which turn."""
        while self.low < self._top and self._left_open < _OPEN and self._seconds() != 0.0:
            said = call(self._master.native, self._limits(_MASTER))
            if said.interrupted:
                self.ended = Termination.INTERRUPTED
                return
            if said.bound is not None and not self._left_open:
                self.low = max(self.low, round(said.bound))
            if said.value is None or said.termination is not Termination.OPTIMAL:
                return
            length = said.value(self._master.end)
            if length >= self._top:
                break
            point = self._scheduled(self._master.choice(said.value), length)
            if (end := int(self._whole.objective(point))) < self._top:
                self._top = end
                yield point
        if self.low >= self._top:
            self.ended = Termination.OPTIMAL

    def _scheduled(self, choice: NDArray[np.int64], length: int) -> NDArray[np.int64]:
        """Schedule the pools, and tell the master of those that do not end by the length."""
        ranks = np.zeros(choice.size, dtype=np.int64)
        pool_of = self._model.machine[choice]
        for pool in range(self._model.num_machines):
            jobs = np.flatnonzero(pool_of == pool)
            if not jobs.size:
                continue
            rows = choice[jobs]
            known = self._packed(rows, int(self._model.counts[pool]), length)
            ranks[jobs] = known.turns
            if known.low > length:
                self._master.at_least(rows, known.low)
            elif known.end > length:
                self._master.forbid(rows)
                self._left_open += 1
        turns = np.empty_like(ranks)
        turns[np.argsort(ranks, kind="stable")] = np.arange(ranks.size)
        return np.stack((choice, turns))

    def _packed(self, rows: NDArray[np.int64], count: int, length: int) -> _Packed:
        """Schedule one pool's jobs by lists, and by CP-SAT where none ends by the length."""
        key = tuple(rows.tolist())
        if key not in self._known:
            self._known[key] = self._asked(rows, count, self._listed(rows, count, length), length)
        return self._known[key]

    def _listed(self, rows: NDArray[np.int64], count: int, length: int) -> _Packed:
        times, gpus = self._time[rows].astype(np.float64), self._model.gpus[rows]
        keys = (times, times * gpus, gpus * (times.max() + 1.0) + times)
        last = alone(gpus, count)
        best: _Packed | None = None
        for turn in range(_LISTS):
            shake = _SHAKEN * self._rng.random(rows.size) if turn >= len(keys) else 0.0
            turns = np.empty(rows.size, dtype=np.int64)
            turns[np.lexsort((-keys[turn % len(keys)] * (1.0 + shake), last))] = np.arange(rows.size)
            end = int(pack(times, gpus, count, turns)[2])
            if best is None or end < best.end:
                best = _Packed(0, end, turns)
            if best.end <= length:
                break
        assert best is not None
        return best

    def _asked(self, rows: NDArray[np.int64], count: int, best: _Packed, length: int) -> _Packed:
        if best.end <= length or rows.size == 1:
            return best
        times, own = self._time[rows], np.arange(rows.size, dtype=np.int64)
        pool = Assignment.from_arrays(
            "makespan",
            times.astype(np.float64),
            np.zeros(rows.size, dtype=np.int64),
            np.arange(rows.size + 1),
            1,
            gpus=self._model.gpus[rows],
            counts=[count],
        )
        written = PoolsModel(pool, times, length, best.end, own)
        said = call(written.native, self._limits(_WORK))
        low = best.low if said.bound is None else round(said.bound)
        if said.value is None:
            return replace(best, low=low)
        turns = written.point(said.value)[1]
        end = int(pool.objective(np.stack((own, turns))))
        return _Packed(low, end, turns) if end <= best.end else replace(best, low=low)

    def _seconds(self) -> float | None:
        seconds = self._left()
        return None if seconds is None else max(seconds, 0.0)

    def _limits(self, work: float) -> Limits:
        return Limits(seconds=self._seconds(), work=work, seed=self._seed)
