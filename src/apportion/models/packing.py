"""Jobs on a pool of identical machines: list schedules, longest first, gangs as rigid tasks.

Graham's rule, each job as early as it fits behind what is placed (Garey and Graham 1975); where there are
gangs also the widest first, and the schedule that ends first is kept. Any schedule is met by the list of its
jobs in the order of their starts: when a job started there, as many machines are free here.

Jobs on the nodes of one GPU type: what has to be packed, and weights that bound what can be.

A job with at most a node's GPUs takes them of one node, a larger one takes whole nodes: bin packing with few
item sizes, its bins alike but for one smaller one.

What the jobs of a plan ask of the alike machines of one pool: some at once, of each a part of its room.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from random import Random

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "MachinePacking",
    "NodePacking",
    "PodPacking",
    "beside_others",
    "best_fit",
    "heaviest",
    "keeps_rooms",
    "left_over",
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


@dataclass(frozen=True, slots=True)
class PodPacking:
    """Pods to be put on nodes, each of which has so much of several resources.

    Attributes
    ----------
    rooms
        By node what it has of every resource.
    jobs
        What those are called whose pods they are: their positions in the menus.
    pods
        By job, of every pod what it needs of every resource.
    known
        By job the nodes of its pods, where these are known already.
    places
        By job the place of every node where its pods must share one, else ``None``; empty where none must.
    """

    rooms: tuple[tuple[int, ...], ...]
    jobs: tuple[int, ...]
    pods: tuple[tuple[tuple[int, ...], ...], ...]
    known: tuple[tuple[int, ...], ...] | None = None
    places: tuple[NDArray[np.int64] | None, ...] = ()

    def places_of(self) -> tuple[NDArray[np.int64] | None, ...]:
        """Return `places`, one per job."""
        return self.places or (None,) * len(self.jobs)


_ORDERS, _PAIRS = 40, 2_000_000
"""Orders in which best fit is tried at most, and pairs of a pod and a node in all of them together."""


def left_over(packing: PodPacking, nodes: Sequence[Sequence[int]]) -> NDArray[np.int64]:
    """Return what pods leave, int64 [resources, nodes], below 0 where overfull; their nodes are by job."""
    left = np.array(packing.rooms, dtype=np.int64).T.copy()
    needs = [need for own in packing.pods for need in own]
    if needs:
        at = [node for own in nodes for node in own]
        np.subtract.at(left.T, np.array(at, dtype=np.int64), np.array(needs, dtype=np.int64))
    return left


def keeps_rooms(packing: PodPacking, nodes: Sequence[Sequence[int]]) -> bool:
    """Return whether pods lie on so many nodes, given by job, those of a place in it, and none overfull."""
    if any(len(own) != len(at) for own, at in zip(packing.pods, nodes, strict=True)):
        return False
    if any(
        place is not None and len({int(place[node]) for node in at}) > 1
        for place, at in zip(packing.places_of(), nodes, strict=True)
    ):
        return False
    return bool((left_over(packing, nodes) >= 0).all())


def best_fit(
    packing: PodPacking, worths: Sequence[float] | None = None
) -> tuple[tuple[int, ...] | None, ...] | None:
    """Put every pod, the largest first, on the node that it leaves least on; return the nodes by job.

    In several orders: what is large depends on which resource is scarce (Panigrahy and others, Heuristics for
    Vector Bin Packing, 2011). Jobs whose pods share a place come before, those of most pods first.

    Parameters
    ----------
    packing
        What is to be placed.
    worths
        What jobs are worth: where no order places all, those that are not placed, told by ``None``, are worth
        as little as was found. Without it the answer is then ``None``.
    """
    totals = [max(1, sum(each)) for each in zip(*packing.rooms, strict=True)]
    pairs = max(1, len(packing.rooms) * sum(map(len, packing.pods)))
    random, best, least = Random(0), None, math.inf
    for turn in range(max(2, min(_ORDERS, _PAIRS // pairs))):
        weights = np.array([(1.0 if turn == 0 else random.random()) / total for total in totals])
        found, out = _best_fit(packing, weights, skips=worths is not None)
        lost = 0.0 if not out else math.inf if worths is None else math.fsum(worths[job] for job in out)
        if lost < least:
            best, least = tuple(found), lost
        if not out:
            break
    return best


def _best_fit(
    packing: PodPacking, weights: NDArray[np.float64], *, skips: bool
) -> tuple[list[tuple[int, ...] | None], list[int]]:
    """Return the nodes of the pods by job, and the jobs that have none: the first one, or all."""
    left = left_over(replace(packing, pods=((),) * len(packing.jobs)), ())
    each = [[(need, float(np.dot(need, weights))) for need in own] for own in packing.pods]
    turns = [
        (-len(own), -sum(size for _, size in own), job, (0, len(own)))
        if place is not None
        else (0, -size, job, (at, at + 1))
        for job, (own, place) in enumerate(zip(each, packing.places_of(), strict=True))
        for at, (_, size) in enumerate(own[:1] if place is not None else own)
    ]
    found: list[list[int] | None] = [[-1] * len(own) for own in packing.pods]
    out = list[int]()
    for _, _, job, (first, last) in sorted(turns, key=itemgetter(0, 1)):
        own, place = found[job], packing.places_of()[job]
        if own is None:
            continue
        nodes = beside_others(left, packing.pods[job][first:last], weights, place)
        if nodes is not None:
            own[first:last] = nodes
            continue
        _take(left, packing.pods[job], own, -1)
        found[job] = None
        out.append(job)
        if not skips:
            break
    return [None if own is None else tuple(own) for own in found], out


def beside_others(
    left: NDArray[np.int64],
    pods: Sequence[Sequence[int]],
    weights: NDArray[np.float64],
    place: NDArray[np.int64] | None = None,
) -> list[int] | None:
    """Put pods on the nodes on which they leave least, and take it away; return the nodes, ``None`` for none.

    Parameters
    ----------
    left
        int64 [resources, nodes]: what is left of every node; changed only where all pods have a node.
    pods
        What they need.
    weights
        float64 [resources]: how much a unit of each counts.
    place
        Of every node the place, where all pods must share one: that with least room for them is tried first.
    """
    if place is None:
        return _one_by_one(left, pods, weights, None)
    need = np.array(pods[0], dtype=np.int64)
    rooms = (left[need > 0] // need[need > 0, None]).min(axis=0, initial=len(pods)).clip(0)
    each = np.bincount(place, rooms)
    enough = np.flatnonzero(each >= len(pods) if len(set(map(tuple, pods))) == 1 else each > 0)
    for one in enough[np.argsort(each[enough], kind="stable")].tolist():
        nodes = _one_by_one(left, pods, weights, np.flatnonzero(place == one))
        if nodes is not None:
            return nodes
    return None


def _one_by_one(
    left: NDArray[np.int64],
    pods: Sequence[Sequence[int]],
    weights: NDArray[np.float64],
    inside: NDArray[np.int64] | None,
) -> list[int] | None:
    found = list[int]()
    for need in pods:
        there = left if inside is None else left[:, inside]
        fits = np.flatnonzero((there >= np.array(need)[:, None]).all(axis=0))
        if not fits.size:
            _take(left, pods[: len(found)], found, -1)
            return None
        at = int(fits[np.argmin(weights @ there[:, fits])])
        found.append(at if inside is None else int(inside[at]))
        left[:, found[-1]] -= need
    return found


def _take(left: NDArray[np.int64], pods: Sequence[Sequence[int]], nodes: Sequence[int], times: int) -> None:
    """Take what pods need of their nodes, so many times; those at no node, -1, take nothing."""
    for need, node in zip(pods, nodes, strict=True):
        if node >= 0:
            left[:, node] -= np.multiply(need, times)


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
