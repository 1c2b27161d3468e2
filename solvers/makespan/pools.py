"""Local search over pools: move or swap jobs of the pool that ends last, its list schedule made anew."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from apportion.models.assignment import Assignment
from apportion.models.packing import pack, pool_ends

__all__ = ["rearranged"]

_LARGEST = 2_000
"""Jobs up to which schedules are made anew for every move looked at."""
_KICKS = 200


def rearranged(
    model: Assignment,
    choice: NDArray[np.int64],
    seed: int,
    over: Callable[[float], bool],
    kicks: int = _KICKS,
) -> NDArray[np.int64]:
    """Return a choice that ends no later.

    Parameters
    ----------
    model
        A makespan on pools, no capacities.
    choice
        A choice of all jobs.
    seed
        Random seed.
    over
        Whether a makespan is good enough, or a limit reached; asked before every schedule.
    kicks
        How many times to go on from a disturbed choice.
    """
    if model.num_jobs > _LARGEST:
        return choice
    search = _Pools(model, choice, seed)
    best, at = search.top(), choice.copy()
    for _ in range(kicks):
        search.descend(over)
        if search.top() < best:
            best, at = search.top(), search.choice.copy()
        if over(best):
            break
        search.take(at)
        search.kick()
    return at


class _Pools:
    def __init__(self, model: Assignment, choice: NDArray[np.int64], seed: int) -> None:
        self.model = model
        self.rng = np.random.default_rng(seed)
        self.rows = model.rows()
        self.take(choice)

    def take(self, choice: NDArray[np.int64]) -> None:
        self.choice = choice.copy()
        model = self.model
        self.ends = pool_ends(model.values[choice], model.machine[choice], model.gpus[choice], model.counts)

    def top(self) -> float:
        return float(self.ends.max())

    def descend(self, over: Callable[[float], bool]) -> None:
        while not over(self.top()) and (self._move(over) or self._swap(over)):
            pass

    def kick(self) -> None:
        choice = self.choice.copy()
        for job in self.rng.choice(choice.size, size=min(choice.size, 2), replace=False).tolist():
            entries = self.rows[job][self.rows[job] >= 0]
            choice[job] = self.rng.choice(entries)
        self.take(choice)

    def _move(self, over: Callable[[float], bool]) -> bool:
        last = int(np.argmax(self.ends))
        for job in self.rng.permutation(np.flatnonzero(self.model.machine[self.choice] == last)).tolist():
            for pool in np.argsort(self.ends).tolist():
                row = int(self.rows[job, pool])
                if pool == last or row < 0:
                    continue
                if over(self.top()):
                    return False
                if self._try({job: row}, last, pool):
                    return True
        return False

    def _swap(self, over: Callable[[float], bool]) -> bool:
        last = int(np.argmax(self.ends))
        on = self.model.machine[self.choice]
        own, others = np.flatnonzero(on == last), np.flatnonzero(on != last)
        pairs = [(int(a), int(b)) for a in own for b in others]
        for position in self.rng.permutation(len(pairs))[:200].tolist():
            first, second = pairs[position]
            pool = int(on[second])
            there, here = int(self.rows[first, pool]), int(self.rows[second, last])
            if there < 0 or here < 0:
                continue
            if over(self.top()):
                return False
            if self._try({first: there, second: here}, last, pool):
                return True
        return False

    def _try(self, change: dict[int, int], last: int, pool: int) -> bool:
        choice = self.choice.copy()
        for job, row in change.items():
            choice[job] = row
        model, top = self.model, self.top()
        ends = self.ends.copy()
        for changed in (pool, last):
            rows = choice[model.machine[choice] == changed]
            ends[changed] = pack(model.values[rows], model.gpus[rows], int(model.counts[changed]))[2]
            if ends[changed] >= top * (1 - 1e-12):
                return False
        self.choice, self.ends = choice, ends
        return True
