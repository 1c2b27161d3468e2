"""The admitted jobs of a replay: their books, and their data looked up once per change of who is admitted.

The nodes of a replay: which are idle, since when, and which of the admitted jobs holds each.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.cluster.policies.gap_filling_view import FREE, count_held
from apportion.cluster.simulation.snapshot import Workload

__all__ = ["BUSY", "Admitted", "HeldNodes"]


BUSY = -2
"""Holder of a node that is not idle."""


class HeldNodes:
    """All nodes of a machine, none of them idle at first.

    Parameters
    ----------
    num_nodes
        How many there are.

    Attributes
    ----------
    holder
        int64 [nodes]: the position of the admitted job that holds a node, `FREE`, or `BUSY`.
    idle_since_s
        float64 [nodes]: when a node became idle.
    idle
        How many are idle.
    """

    def __init__(self, num_nodes: int) -> None:
        self.holder = np.full(num_nodes, BUSY, dtype=np.int64)
        self.idle_since_s = np.zeros(num_nodes)
        self.idle = 0
        self._departed: list[NDArray[np.float64]] = []

    def numbers(self) -> NDArray[np.int64]:
        """Return the nodes that are idle, held by a job or free."""
        return np.flatnonzero(self.holder > BUSY)

    def departed_after_s(self) -> NDArray[np.float64]:
        """Return how long the nodes that left since `forget_departed` had been idle."""
        return np.concatenate(self._departed) if self._departed else np.zeros(0)

    def forget_departed(self) -> None:
        """Begin anew to remember which nodes leave."""
        self._departed = []

    def leave(self, left: NDArray[np.int64], at_s: float, num_jobs: int) -> NDArray[np.int64]:
        """Take nodes away and return int64 [admitted]: how many every job loses."""
        lost = count_held(np.maximum(self.holder[left], FREE), num_jobs)
        self.holder[left] = BUSY
        self.idle -= int(left.size)
        self._departed.append(at_s - self.idle_since_s[left])
        return lost

    def join(self, joined: NDArray[np.int64], at_s: float) -> None:
        """Add nodes that are idle from now on."""
        self.holder[joined] = FREE
        self.idle_since_s[joined] = at_s
        self.idle += int(joined.size)

    def free_those_of_all_but(self, stay: NDArray[np.bool_]) -> None:
        """Free the nodes of the jobs that go; those that stay, bool [admitted], are counted anew."""
        table = np.full(stay.size + 2, FREE, dtype=np.int64)
        table[0] = BUSY
        table[2:][stay] = np.arange(np.count_nonzero(stay))
        self.holder = table[self.holder - BUSY]

    def state(self) -> dict[str, Any]:
        """Return all that `restore` needs, as arrays and numbers."""
        return {
            "_holder": self.holder,
            "_idle_since": self.idle_since_s,
            "_idle": self.idle,
            "departed": self.departed_after_s(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state."""
        self.holder, self.idle_since_s, self.idle = state["_holder"], state["_idle_since"], state["_idle"]
        self._departed = [state["departed"]] if state["departed"].size else []


_BOOKS = ("done", "rate", "charge", "stall_s")


class Admitted:
    """Admitted jobs, in order of admission: what they have done and are charged changes, all else does not.

    Parameters
    ----------
    jobs
        The workload.
    number
        int64 [admitted]: number of every job, counted on through the rounds of an endless workload.
    held
        int64 [admitted]: nodes held.
    done, rate, charge, stall_s
        float64 [admitted]: samples made, samples per second, samples charged at the next step, seconds of
        standstill after the last decision.
    """

    __slots__ = (
        "believed",
        "charge",
        "done",
        "down_s",
        "held",
        "high",
        "jobs",
        "low",
        "number",
        "rate",
        "stall_s",
        "true",
        "up_s",
        "work",
    )

    def __init__(
        self,
        jobs: Workload,
        number: NDArray[np.int64],
        held: NDArray[np.int64],
        done: NDArray[np.float64],
        rate: NDArray[np.float64],
        charge: NDArray[np.float64],
        stall_s: NDArray[np.float64],
    ) -> None:
        self.jobs, self.number, self.held = jobs, number, held
        self.done, self.rate, self.charge, self.stall_s = done, rate, charge, stall_s
        index = number % jobs.num_jobs
        self.low, self.high = jobs.min_nodes[index], jobs.max_nodes[index]
        self.up_s, self.down_s, self.work = jobs.up_s[index], jobs.down_s[index], jobs.work[index]
        curve = jobs.curve[index]
        self.true = jobs.rates[curve]
        self.believed = self.true if jobs.believed is jobs.rates else jobs.believed[curve]

    @classmethod
    def nobody(cls, jobs: Workload) -> Admitted:
        """Return an empty set of jobs."""
        none, zero = np.zeros(0, dtype=np.int64), np.zeros(0)
        return cls(jobs, none, none, zero, zero, zero, zero)

    @property
    def size(self) -> int:
        """How many jobs are admitted."""
        return int(self.number.size)

    def rates(self, counts: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return float64 [admitted]: the true rate at these node counts, 0 below the minimum."""
        rate: NDArray[np.float64] = self.true[np.arange(counts.size), counts]
        return np.where(counts >= self.low, rate, 0.0)

    def kept(self, stay: NDArray[np.bool_]) -> Admitted:
        """Return the jobs that stay."""
        books = (getattr(self, name)[stay] for name in _BOOKS)
        return Admitted(self.jobs, self.number[stay], self.held[stay], *books)

    def joined_by(self, new: NDArray[np.int64]) -> Admitted:
        """Return these jobs and new ones, which hold nothing yet."""
        more = np.zeros(new.size)
        books = (np.concatenate((getattr(self, name), more)) for name in _BOOKS)
        held = np.concatenate((self.held, np.zeros(new.size, dtype=np.int64)))
        return Admitted(self.jobs, np.concatenate((self.number, new)), held, *books)

    def resize(self, counts: NDArray[np.int64], *, first: bool) -> None:
        """Let jobs run on these node counts; the very first map is charged at the new rates."""
        running = self.rates(self.held)
        self.stall_s = self.up_s * (counts > self.held) + self.down_s * (counts < self.held)
        self.rate = self.rates(counts)
        self.charge = self.up_s * self.rate if first else running * self.stall_s
        self.held = counts

    def stopped(self) -> None:
        """Let no job run: there is no node for anybody."""
        self.rate, self.stall_s = np.zeros(self.size), np.zeros(self.size)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that `restored` takes."""
        return {f"admitted_{name}": getattr(self, name) for name in ("number", "held", *_BOOKS)}

    @classmethod
    def restored(cls, jobs: Workload, state: Mapping[str, Any]) -> Admitted:
        """Return the jobs of an earlier state."""
        return cls(jobs, *(state[f"admitted_{name}"] for name in ("number", "held", *_BOOKS)))
