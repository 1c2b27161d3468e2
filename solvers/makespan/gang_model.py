"""Pools with gangs as CP-SAT's model: which job runs where, with its start or without.

An optional interval for every entry, one per job, pools as cumulative constraints (Baptiste, Le Pape, Nuijten
2001). Beside a job that takes a pool alone nothing runs, so these may be moved behind all others: they form a
chain, and what is left of the time is all that the others have. The rest is implied, and found by no
propagation: widths rounded by a dual feasible function fill a pool too (Fekete and Schepers 2004), and jobs
that each last longer than half the time all run at once. Without the starts these rows are a relaxation.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.models.assignment import Assignment
from apportion.solvers.general.cp_sat_call import new_model, weighted_sum

__all__ = ["PoolsModel", "alone"]

_PARTS = (1, 2, 3)
"""Of the dual feasible functions of widths: into how many parts a pool is cut, less one."""


class PoolsModel:
    """A makespan on pools as CP-SAT's model, and the way back.

    Parameters
    ----------
    model
        A makespan on pools.
    time
        int64 [entries]: times in whole units.
    low, top
        Bounds on the makespan, in whole units; it is made least.
    hint
        int64 [jobs]: an entry of every job to begin with.
    starts
        Whether jobs have starts; without them pools need not hold what they are given.

    Attributes
    ----------
    native
        What `cp_sat_call.call` takes.
    end
        Its variable of the makespan.
    """

    def __init__(
        self,
        model: Assignment,
        time: NDArray[np.int64],
        low: int,
        top: int,
        hint: NDArray[np.int64],
        *,
        starts: bool = True,
    ) -> None:
        self.native = native = new_model()
        self._model, self._time, self._top, self._starts = model, time, top, starts
        self.end = native.new_int_var(min(max(low, 0), top), top, "")
        self._taken = [native.new_bool_var("") for _ in range(model.num_options)]
        self._start: dict[int, Any] = {}
        for first, last in zip(model.offsets[:-1].tolist(), model.offsets[1:].tolist(), strict=True):
            native.add_exactly_one(self._taken[first:last])
        for pool in range(model.num_machines):
            self._pool(np.flatnonzero(model.machine == pool), int(model.counts[pool]))
        # where the jobs run, not when: starts given as well were followed too far to find better ones
        chosen = hint[model.job_of_option()]
        for row, taken in enumerate(self._taken):
            native.add_hint(taken, bool(chosen[row] == row))
        native.minimize(self.end)

    def choice(self, value: Any) -> NDArray[np.int64]:
        """Return int64 [jobs]: the entries of a solution."""
        model = self._model
        rows = np.flatnonzero([bool(value(taken)) for taken in self._taken])
        choice = np.full(model.num_jobs, -1, dtype=np.int64)
        choice[model.job_of_option()[rows]] = rows
        return choice

    def point(self, value: Any) -> NDArray[np.int64]:
        """Return the choice of a solution, and the turns of its starts."""
        choice = self.choice(value)
        # what takes no time goes first, what takes the pool alone last
        key = [value(self._start[row]) if row in self._start else self._top for row in choice.tolist()]
        turns = np.empty_like(choice)
        turns[np.lexsort((np.array(key), self._time[choice] > 0))] = np.arange(choice.size)
        return np.stack((choice, turns))

    def at_least(self, rows: NDArray[np.int64], length: int) -> None:
        """Add that these entries of one pool end no sooner; without some, their times are saved at most."""
        spent = int(self._time[rows].sum())
        self.native.add(self.end - self._sum(rows, self._time[rows]) >= length - spent)

    def forbid(self, rows: NDArray[np.int64]) -> None:
        """Add that not all of these entries are taken."""
        self.native.add_bool_or([~self._taken[row] for row in rows.tolist()])

    def _pool(self, rows: NDArray[np.int64], count: int) -> None:
        """Write one pool: the chain of those that take it alone, and what runs in the rest of the time."""
        native, gpus = self.native, self._model.gpus
        for row in rows[self._time[rows] > self._top].tolist():
            native.add(self._taken[row] == 0)
        rows = rows[self._time[rows] <= self._top]
        if not rows.size:
            return
        apart = alone(gpus[rows], count)
        chain, rest = rows[apart], rows[~apart]
        left = self.end
        if rest.size:
            left = native.new_int_var(0, self._top, "")
        native.add(self._sum(chain, self._time[chain]) + (left if rest.size else 0) <= self.end)
        if not rest.size:
            return
        if self._starts:
            spans = [self._span(row, left) for row in rest.tolist()]
            native.add_cumulative(spans, gpus[rest].tolist(), count)
        else:
            for row in rest.tolist():
                native.add(int(self._time[row]) <= left).only_enforce_if(self._taken[row])
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


def alone(gpus: NDArray[np.int64], count: int) -> NDArray[np.bool_]:
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
