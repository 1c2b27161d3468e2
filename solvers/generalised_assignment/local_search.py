"""Local search for generalised assignment: shifts, swaps, and ejection chains of length two.

Costs are minimised; Yagiura, Ibaraki, Glover (2004) is the ejection chain's source, here with every
neighbourhood evaluated as one array.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from apportion.models.assignment import Assignment

__all__ = ["Search"]


class Search:
    """Descent with kicks from one feasible placement of all jobs.

    Parameters
    ----------
    model
        An assignment of costs (or values, then negated), all jobs placed.
    seed
        Random seed.
    """

    def __init__(self, model: Assignment, seed: int) -> None:
        sign = -1.0 if model.goal == "value" else 1.0
        jobs = np.arange(model.num_jobs)
        self.rows = model.rows()
        if not model.required.all():
            out = np.where(model.required, -2, -1)[:, None]
            self.rows = np.concatenate((self.rows, out), axis=1)
            self.rows[:, :-1][self.rows[:, :-1] == -1] = -2
        else:
            self.rows[self.rows == -1] = -2
        at = np.maximum(self.rows, 0)
        real = self.rows >= 0
        self.cost = np.where(real, sign * model.values[at], np.where(self.rows == -1, 0.0, np.inf))
        self.use = np.where(real, model.uses[at], 0).astype(np.int64)
        limit = np.where(model.limited, model.capacities, np.int64(2**61))
        self.limit = limit if model.required.all() else np.append(limit, np.int64(2**61))
        self.jobs = jobs
        self.rng = np.random.default_rng(seed)
        self.placed = np.zeros(model.num_jobs, dtype=np.int64)
        self.room = self.limit.copy()

    def load(self, choice: NDArray[np.int64]) -> None:
        """Take a feasible choice."""
        self._set(np.argmax(self.rows == choice[:, None], axis=1))

    def choice(self) -> NDArray[np.int64]:
        """Return the present choice."""
        return np.asarray(self.rows[self.jobs, self.placed], dtype=np.int64)

    def total(self) -> float:
        """Return the present cost."""
        return float(self.cost[self.jobs, self.placed].sum())

    def run(self, over: Callable[[], bool], rounds: int) -> NDArray[np.int64]:
        """Return the best choice of so many kicks, each followed by a descent."""
        self._descend(over)
        best, at = self.total(), self.placed.copy()
        here = best
        for _ in range(rounds):
            if over():
                break
            saved = self.placed.copy()
            self._kick()
            self._descend(over)
            now = self.total()
            if now <= here * (1 + 1e-3 * float(self.rng.random()) * (here > 0)):
                here = now
            else:
                self._set(saved)
            if now < best - 1e-12 * abs(best):
                best, at = now, self.placed.copy()
        self._set(at)
        return self.choice()

    def _set(self, placed: NDArray[np.int64]) -> None:
        self.placed = placed.astype(np.int64)
        self.room = self.limit.copy()
        np.subtract.at(self.room, self.placed, self.use[self.jobs, self.placed])

    def _move(self, job: int, machine: int) -> None:
        self.room[self.placed[job]] += self.use[job, self.placed[job]]
        self.room[machine] -= self.use[job, machine]
        self.placed[job] = machine

    def _descend(self, over: Callable[[], bool]) -> None:
        while not over():
            if not (self._shift() or self._swap() or self._eject()):
                return

    def _shift(self) -> bool:
        gain = self.cost[self.jobs, self.placed][:, None] - self.cost
        gain[self.use > self.room[None, :]] = -np.inf
        gain[self.jobs, self.placed] = 0.0
        best = int(np.argmax(gain))
        job, machine = divmod(best, self.cost.shape[1])
        if not gain[job, machine] > 1e-9:
            return False
        self._move(job, machine)
        return True

    def _swap(self) -> bool:
        there = self.cost[:, self.placed]
        now = self.cost[self.jobs, self.placed]
        with np.errstate(invalid="ignore"):
            gain = (now[:, None] - there) + (now[:, None] - there).T
        use_there = self.use[:, self.placed]
        own = self.use[self.jobs, self.placed]
        # job j into the machine of k, once k has left it
        fits = use_there <= (self.room[self.placed] + own)[None, :]
        gain[~(fits & fits.T)] = -np.inf
        gain[~np.isfinite(gain)] = -np.inf
        best = int(np.argmax(gain))
        first, second = divmod(best, self.jobs.size)
        if not gain[first, second] > 1e-9:
            return False
        to_first, to_second = int(self.placed[second]), int(self.placed[first])
        self._set_pair(first, to_first, second, to_second)
        return True

    def _set_pair(self, first: int, to_first: int, second: int, to_second: int) -> None:
        self._move(first, to_first)
        self._move(second, to_second)

    def _eject(self) -> bool:
        """Shift a job onto a machine and move one of that machine's jobs on to a third."""
        now = self.cost[self.jobs, self.placed]
        own = self.use[self.jobs, self.placed]
        onward = self.cost - now[:, None]
        onward[self.use > self.room[None, :]] = np.inf
        onward[self.jobs, self.placed] = np.inf
        next_machine = np.argmin(onward, axis=1)
        leave = onward[self.jobs, next_machine]
        enter = self.cost[:, self.placed] - now[:, None]
        fits = self.use[:, self.placed] <= (self.room[self.placed] + own)[None, :]
        gain = -(enter + leave[None, :])
        gain[~fits] = -np.inf
        gain[self.placed[:, None] == self.placed[None, :]] = -np.inf
        # the ejected job may not go where the entering one just made room for nothing else
        gain[~np.isfinite(gain)] = -np.inf
        best = int(np.argmax(gain))
        job, ejected = divmod(best, self.jobs.size)
        if not gain[job, ejected] > 1e-9:
            return False
        machine = int(self.placed[ejected])
        self._move(ejected, int(next_machine[ejected]))
        self._move(job, machine)
        return True

    def _kick(self) -> None:
        """Move a few random jobs to random machines that have room, cheap ones more often."""
        for job in self.rng.choice(
            self.jobs, size=min(self.jobs.size, 2 + int(self.rng.integers(4))), replace=False
        ):
            fits = np.flatnonzero((self.use[job] <= self.room) & np.isfinite(self.cost[job]))
            if fits.size:
                rank = np.argsort(
                    self.cost[job, fits]
                    + self.rng.exponential(np.ptp(self.cost[job, fits]) / 4 + 1e-12, fits.size)
                )
                self._move(int(job), int(fits[rank[0]]))
