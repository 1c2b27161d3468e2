"""Jobs to be packed: on machines of a pool in time, and on the nodes of one GPU type.

Schedules are list schedules, longest first: Graham's rule, each job as early as it fits behind what is placed
(Garey and Graham 1975); where there are gangs, which are rigid tasks, also the widest first, and the schedule
that ends first is kept. Any schedule is met by the list of its jobs in the order of their starts: when a job
started there, as many machines are free here.

On nodes a job with at most a node's GPUs takes them of one node, a larger one takes whole nodes: bin packing
with few item sizes, its bins alike but for one smaller one. Weights bound what can be (`heaviest`).
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "FormulatedPacking",
    "MachinePacking",
    "NodePacking",
    "heaviest",
    "pack",
    "pool_ends",
]


@dataclass(frozen=True, slots=True)
class MachinePacking:
    """Jobs to be put on the machines of a pool.

    Attributes
    ----------
    count
        How many machines there are.
    capacity
        The room on each of them.
    jobs
        What the jobs are called: their positions in the menus.
    gpus, uses
        How many machines each job holds, and what it takes of each of them.
    """

    count: int
    capacity: int
    jobs: tuple[int, ...]
    gpus: tuple[int, ...]
    uses: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class FormulatedPacking:
    """Pods whose place is the plan of another formulation, in which jobs have what they have.

    Attributes
    ----------
    jobs
        Jobs that have pods.
    formulation
        ``formulation(jobs)``: a `KnapsackFormulation` of the ways to place the pods of these jobs; ``None``
        where none is to be made.
    nodes
        ``nodes(plan)``: the nodes of every job's pods in a plan of it.
    parts
        Whether some of the jobs that cannot be placed show that all of them cannot.
    job_by_job
        ``job_by_job(late)``: a plan of all of them found without that formulation, before it is late;
        ``None`` where none was found, and which jobs then lack.
    """

    jobs: tuple[int, ...]
    formulation: Callable[[Sequence[int]], Any]
    nodes: Callable[[Any], list[list[int]]]
    parts: bool
    job_by_job: Callable[[Callable[[], bool]], tuple[Any, tuple[int, ...]]]


@dataclass(frozen=True, slots=True)
class NodePacking:
    """What has to be packed.

    Attributes
    ----------
    size
        GPUs of a whole node, at least 1.
    whole
        How many whole nodes there are, numbered from 0.
    rest
        GPUs of one smaller node, whose number is `whole`; 0 without one.
    gpus
        Per job, at least 1; at most `size` or a multiple of it.
    current
        Per job the nodes it holds now, ``None`` where it may lie anywhere.
    """

    size: int
    whole: int
    rest: int
    gpus: tuple[int, ...]
    current: tuple[tuple[int, ...] | None, ...]

    def needed(self, job: int) -> int:
        """Return how many nodes a job lies on."""
        return max(1, self.gpus[job] // self.size)

    def share(self, job: int) -> int:
        """Return how many GPUs a job takes of each of its nodes."""
        return min(self.gpus[job], self.size)

    def room(self, node: int) -> int:
        """Return the GPUs of a node, 0 for one that does not exist."""
        if 0 <= node < self.whole:
            return self.size
        return self.rest if node == self.whole else 0

    def may_stay(self, job: int) -> bool:
        """Return whether the nodes a job holds are as many and as large as it needs."""
        nodes = self.current[job]
        if nodes is None or len(set(nodes)) != len(nodes) or len(nodes) != self.needed(job):
            return False
        return all(self.room(node) >= self.share(job) for node in nodes)

    def sizes(self) -> Counter[int]:
        """Return how many pieces there are of each size; a whole node is a piece of the node's size."""
        pieces: Counter[int] = Counter()
        for job in range(len(self.gpus)):
            pieces[self.share(job)] += self.needed(job)
        return pieces

    def moved(self, nodes: Sequence[Sequence[int]]) -> int:
        """Return how many jobs that hold nodes do not stay on them."""
        held = zip(self.current, nodes, strict=True)
        return sum(now is not None and set(now) != set(then) for now, then in held)


def heaviest(weights: Sequence[int]) -> list[int]:
    """Return W(0), .., W(R): the most that pieces on n GPUs weigh, one of g GPUs `weights[g - 1]`.

    Unbounded knapsack by dynamic programming; with it any weights >= 0 bound every packing.
    """
    best = [0] * (len(weights) + 1)
    for room in range(1, len(best)):
        best[room] = max(best[room - 1], max(weights[g - 1] + best[room - g] for g in range(1, room + 1)))
    return best


def pack(
    times: NDArray[np.float64],
    gpus: NDArray[np.int64],
    count: int,
    turns: NDArray[np.int64] | None = None,
) -> tuple[list[list[int]], NDArray[np.float64], float]:
    """Schedule jobs on `count` identical machines.

    Parameters
    ----------
    times
        float64 [jobs], seconds.
    gpus
        int64 [jobs]: machines held at the same time, each from 1 to `count`.
    count
        How many machines there are.
    turns
        int64 [jobs]: when each is placed, the smallest first; ``None`` for the longest or the widest first.

    Returns
    -------
    tuple
        The machines of each job, its start in seconds, and the makespan.
    """
    if turns is not None:
        return _listed(times, gpus, count, np.argsort(turns, kind="stable"))
    longest = np.argsort(-times, kind="stable")
    found = _listed(times, gpus, count, longest)
    if (gpus > 1).any():
        widest = _listed(times, gpus, count, np.lexsort((-times, -gpus)))
        found = widest if widest[2] < found[2] else found
    return found


def _listed(
    times: NDArray[np.float64], gpus: NDArray[np.int64], count: int, order: NDArray[np.int64]
) -> tuple[list[list[int]], NDArray[np.float64], float]:
    free = [(0.0, machine) for machine in range(count)]
    places: list[list[int]] = [[] for _ in range(times.size)]
    starts = np.zeros(times.size)
    last = 0.0
    for job in order.tolist():
        held = [heapq.heappop(free) for _ in range(int(gpus[job]))]
        start = held[-1][0]
        end = start + float(times[job])
        places[job] = [machine for _, machine in held]
        starts[job] = start
        last = max(last, end)
        for machine in places[job]:
            heapq.heappush(free, (end, machine))
    return places, starts, last


def pool_ends(
    times: NDArray[np.float64],
    machine: NDArray[np.int64],
    gpus: NDArray[np.int64],
    counts: NDArray[np.int64],
    turns: NDArray[np.int64] | None = None,
) -> NDArray[np.float64]:
    """Return float64 [machines]: when each machine, or the pool of `counts` behind it, is done."""
    ends = np.bincount(machine, weights=times, minlength=counts.size).astype(np.float64, copy=False)
    for pool in np.flatnonzero(counts > 1):
        own = np.flatnonzero(machine == pool)
        turn = None if turns is None else turns[own]
        ends[pool] = pack(times[own], gpus[own], int(counts[pool]), turn)[2]
    return ends
