"""Local search for a makespan on single machines: move or swap a job of the busiest machine, vectorised."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from apportion.models.assignment import Assignment

__all__ = ["ScheduleSearch"]


class ScheduleSearch:
    """Descent with kicks over which machine every job is on.

    Parameters
    ----------
    model
        An assignment with the makespan as goal, single machines, no capacities.
    seed
        Random seed.
    """

    def __init__(self, model: Assignment, seed: int) -> None:
        matrix = model.matrix()
        self.time = np.where(np.isnan(matrix), np.inf, matrix)
        self.rows = model.rows()
        self.jobs = np.arange(model.num_jobs)
        self.rng = np.random.default_rng(seed)
        self.placed = np.zeros(model.num_jobs, dtype=np.int64)
        self.load: NDArray[np.float64] = np.zeros(model.num_machines)

    def take(self, choice: NDArray[np.int64]) -> None:
        """Take a schedule."""
        self.put(np.argmax(self.rows == choice[:, None], axis=1))

    def put(self, placed: NDArray[np.int64]) -> None:
        """Take a schedule as the machine of every job."""
        self.placed = placed.astype(np.int64)
        self._count()

    def _count(self) -> None:
        own = self.time[self.jobs, self.placed]
        self.load = np.bincount(self.placed, weights=own, minlength=self.load.size).astype(np.float64)

    def choice(self) -> NDArray[np.int64]:
        """Return the schedule as entries."""
        return np.asarray(self.rows[self.jobs, self.placed], dtype=np.int64)

    def makespan(self) -> float:
        """Return the end of the busiest machine."""
        return float(self.load.max())

    def descend(self, over: Callable[[], bool]) -> None:
        """Improve the busiest machine until no move or swap does."""
        while not over():
            busiest = int(np.argmax(self.load))
            if not self._improve(busiest):
                break
        self._count()  # running sums drift

    def _improve(self, busiest: int) -> bool:
        top = float(self.load[busiest])
        slack = 1e-9 * max(1.0, top)
        own = np.flatnonzero(self.placed == busiest)
        if not own.size:
            return False
        rest = top - self.time[own, busiest]
        after = np.maximum(self.load[None, :] + self.time[own], rest[:, None])
        after[:, busiest] = np.inf
        move = int(np.argmin(after))
        best_move = float(after.flat[move])
        # swap own job a with job b of machine i: b comes here, a goes there
        there = self.placed
        other = self.load[there][None, :] - self.time[self.jobs, there][None, :] + self.time[own][:, there]
        here = rest[:, None] + self.time[:, busiest][None, :]
        both = np.maximum(other, here)
        both[:, there == busiest] = np.inf
        swap = int(np.argmin(both))
        best_swap = float(both.flat[swap])
        if min(best_move, best_swap) >= top - slack:
            return False
        if best_move <= best_swap:
            position, machine = divmod(move, self.load.size)
            self._move(int(own[position]), machine)
        else:
            position, partner = divmod(swap, self.jobs.size)
            machine = int(there[partner])
            self._move(int(own[position]), machine)
            self._move(partner, busiest)
        return True

    def _move(self, job: int, machine: int) -> None:
        self.load[self.placed[job]] -= self.time[job, self.placed[job]]
        self.load[machine] += self.time[job, machine]
        self.placed[job] = machine

    def run(self, over: Callable[[], bool], rounds: int) -> None:
        """Descend, then so many kicks with a descent each; the best schedule stays."""
        self.descend(over)
        best, at = self.makespan(), self.placed.copy()
        for _ in range(rounds):
            if over():
                break
            self._kick()
            self.descend(over)
            now = self.makespan()
            if now <= best:
                best, at = now, self.placed.copy()
            else:
                self.put(at)
        self.put(at)

    def _kick(self) -> None:
        """Move a few jobs, of the busiest machine among them, to one of the machines they are quick on."""
        busiest = np.flatnonzero(self.placed == int(np.argmax(self.load)))
        anyone = self.rng.choice(self.jobs, size=min(self.jobs.size, 3), replace=False)
        for job in {int(self.rng.choice(busiest)), *map(int, anyone)}:
            quick = np.argsort(self.time[job])[:3]
            quick = quick[np.isfinite(self.time[job, quick])]
            self._move(job, int(self.rng.choice(quick)))
