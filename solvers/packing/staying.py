"""Other nodes for the pods of a placement, so that more of them stay where they are now.

Two ways, of which the better one counts. One begins with a placement. What lies together on a node may lie on
any other that has room for it, and which of some alike pods lies where is free: so many pods of a kind stay
as are among the contents and on the node. The best nodes for given contents are a linear assignment. Where
pods share a place, the contents of places are assigned to places, by what an assignment of their nodes comes
to. Then pods are put back one job after the other, where those that are new on its nodes find room elsewhere.

The other begins with everybody where he is, puts the largest of the others first, and lets the fewest pods of
smaller jobs make room, which then look for another place.
"""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from apportion.models.pods import PodPacking, beside_others, left_over

__all__ = ["most_staying"]

Integers = NDArray[np.int64]
Nodes = Sequence[tuple[int, ...]]
_MOST_NODES, _MOST_PLACES = 1_500, 100
"""Nodes, and places of them, up to which assignments are short."""
_TRIES = 4
"""How often jobs are placed, those that made room again included, beside how many they are."""
_NEVER = -(10**6)
"""What it is worth to put contents where there is no room for them: less than all pods are."""


def most_staying(packing: PodPacking, nodes: Nodes, seconds: float | None) -> list[tuple[int, ...]]:
    """Return the nodes of all pods, by job, with more of these where they are now than on the given nodes.

    Parameters
    ----------
    packing
        The pods; `PodPacking.now` says where they are.
    nodes
        By job nodes on which they have room.
    seconds
        After how long nothing more is tried.
    """
    end = math.inf if seconds is None else time.perf_counter() + seconds
    if not any(node >= 0 for own in packing.now for node in own) or time.perf_counter() >= end:
        return list(nodes)
    ways = [list(nodes)]
    if len(packing.rooms) <= _MOST_NODES:
        pods, found = _Pods.of(packing, nodes), [list(own) for own in nodes]
        for job, pod, node in _given(pods, _targets(packing, pods)):
            found[job][pod] = node
        ways.append(_put_back(packing, [tuple(own) for own in found], end))
    if (moving := _Moving(packing).placed(end)) is not None:
        ways.append(_put_back(packing, moving, end))
    kept = [way for way in ways if packing.keeps_anti_affinity(way)]
    return max(kept or ways[:1], key=lambda way: _how_many_stay(packing, way))


def _how_many_stay(packing: PodPacking, nodes: Nodes) -> int:
    pairs = zip(packing.now, nodes, strict=True)
    return sum((Counter(one for one in now if one >= 0) & Counter(own)).total() for now, own in pairs)


class _Pods(NamedTuple):
    """The pods of a placement: int64 [pods] each.

    Pods of one `like` may change their nodes: those that need the same, of one job where these share a place,
    as `shares` says. `here` and `was` are nodes, -1 for none.
    """

    job: Integers
    pod: Integers
    like: Integers
    shares: Integers
    here: Integers
    was: Integers

    @classmethod
    def of(cls, packing: PodPacking, nodes: Nodes) -> _Pods:
        """Return the pods that lie on some nodes."""
        likes, rows = dict[object, int](), list[tuple[int, ...]]()
        for job, (pods, place, here) in enumerate(zip(packing.pods, packing.places_of(), nodes, strict=True)):
            for pod, (need, node, was) in enumerate(zip(pods, here, packing.now[job], strict=True)):
                like = likes.setdefault((need, -1 if place is None else job), len(likes))
                rows.append((job, pod, like, place is not None, node, was))
        return cls(*np.array(rows, dtype=np.int64).reshape(-1, 6).T)


def _targets(packing: PodPacking, pods: _Pods) -> Integers:
    """Return int64 [nodes]: where what lies on each of them is to lie."""
    worth = _worth(packing, pods)
    targets = np.arange(len(worth))
    places = {id(one): one for one in packing.places_of() if one is not None}
    if len(places) == 1:
        targets = _by_place(worth, *places.values())
    others = np.setdiff1d(targets, pods.here[pods.shares > 0])
    there = targets[others]
    targets[others] = there[_assigned(worth[np.ix_(others, there)])]
    return targets


def _worth(packing: PodPacking, pods: _Pods) -> Integers:
    """Return int64 [nodes, nodes]: how many pods stay if what lies on one is put on another."""
    nodes, runs = len(packing.rooms), pods.was >= 0
    contents, present = np.zeros((2, int(pods.like.max()) + 1, nodes), dtype=np.int64)
    np.add.at(contents, (pods.like, pods.here), 1)
    np.add.at(present, (pods.like[runs], pods.was[runs]), 1)
    worth, load = np.zeros((nodes, nodes), dtype=np.int64), np.zeros((nodes, len(packing.rooms[0])), np.int64)
    for each, now in zip(contents, present, strict=True):
        rows, columns = np.flatnonzero(each), np.flatnonzero(now)
        worth[np.ix_(rows, columns)] += np.minimum.outer(each[rows], now[columns])
    np.add.at(load, pods.here, np.array([need for own in packing.pods for need in own], dtype=np.int64))
    for own, room in zip(load.T, np.array(packing.rooms, dtype=np.int64).T, strict=True):
        worth[own[:, None] > room] = _NEVER
    return worth


def _by_place(worth: Integers, place: Integers) -> Integers:
    """Return the targets of nodes where the contents of a place remain in one."""
    targets = np.arange(place.size)
    places = [np.flatnonzero(place == one) for one in np.unique(place)]
    if len(places) > _MOST_PLACES:
        return targets
    inside = dict[tuple[int, int], Integers]()
    each = np.full((len(places), len(places)), _NEVER, dtype=np.int64)
    for one, own in enumerate(places):
        for other, there in enumerate(places):
            if own.size == there.size:
                inside[one, other] = there[_assigned(worth[np.ix_(own, there)])]
                each[one, other] = worth[own, inside[one, other]].sum()
    for one, other in enumerate(_assigned(each).tolist()):
        targets[places[one]] = inside[one, other]
    return targets


def _assigned(worth: Integers) -> Integers:
    """Return the columns of the rows that are worth most together."""
    from scipy.optimize import linear_sum_assignment

    columns: Integers = linear_sum_assignment(worth, maximize=True)[1]
    return columns


def _given(pods: _Pods, targets: Integers) -> Iterator[tuple[int, int, int]]:
    """Yield job, number and node of every pod: first those that stay, then the others."""
    rooms: defaultdict[int, Counter[int]] = defaultdict(Counter)
    for like, node in zip(pods.like.tolist(), targets[pods.here].tolist(), strict=True):
        rooms[like][node] += 1
    others = list[tuple[int, int, int]]()
    for job, pod, like, was in zip(*(one.tolist() for one in (*pods[:3], pods.was)), strict=True):
        if rooms[like][was]:
            rooms[like][was] -= 1
            yield job, pod, was
        else:
            others.append((job, pod, like))
    left = {like: [*room.elements()] for like, room in rooms.items()}
    yield from ((job, pod, left[like].pop()) for job, pod, like in others)


def _put_back(packing: PodPacking, nodes: Nodes, end: float) -> list[tuple[int, ...]]:
    """Return nodes with jobs back on those where they are now, if the others there find room elsewhere."""
    found, places, left = list(nodes), packing.places_of(), left_over(packing, nodes)
    weights = 1.0 / np.maximum(1, np.array(packing.rooms, dtype=np.float64).sum(axis=0))
    needs = [np.array(own, dtype=np.int64).reshape(len(own), -1) for own in packing.pods]
    moves = [job for job, now in enumerate(packing.now) if now and min(now) >= 0]
    stays = {job for job in moves if Counter(found[job]) == Counter(packing.now[job])}
    on: defaultdict[int, set[int]] = defaultdict(set)
    for job, own in enumerate(found):
        for node in own:
            on[node].add(job)
    for job in [one for one in moves if one not in stays]:
        if time.perf_counter() >= end:
            break
        others = set().union(*(on[node] for node in packing.now[job])) - stays - {job}
        trial, again = left.copy(), [job, *sorted(others, key=lambda one: -len(found[one]))]
        for one in again:
            np.add.at(trial.T, list(found[one]), needs[one])
        lying = dict[int, tuple[int, ...]]()
        for one in again:
            now = packing.now[one]
            here = beside_others(trial, packing.pods[one], weights, places[one], now, packing.beside)
            if here is None:
                break
            lying[one] = tuple(here)
        if len(lying) == len(again) and Counter(lying[job]) == Counter(packing.now[job]):
            left = trial
            stays.add(job)
            for one, own in lying.items():
                for node in found[one]:
                    on[node].discard(one)
                for node in own:
                    on[node].add(one)
                found[one] = own
    return found


class _Moving:
    """Jobs that stay where they are, and others for which some of them move."""

    def __init__(self, packing: PodPacking) -> None:
        self._packing, self._places = packing, packing.places_of()
        self._left = np.array(packing.rooms, dtype=np.int64).T.copy()
        self._weights = 1.0 / np.maximum(1, self._left.sum(axis=1))
        self._needs = [np.array(own, dtype=np.int64).reshape(len(own), -1) for own in packing.pods]
        self._size = [float((own @ self._weights).sum()) if own.size else 0.0 for own in self._needs]
        self._found: dict[int, tuple[int, ...]] = {}
        self._on: defaultdict[int, set[int]] = defaultdict(set)

    def placed(self, end: float) -> list[tuple[int, ...]] | None:
        """Return the nodes of all pods; ``None`` where some find no room in this way, or not in time."""
        jobs = sorted(range(len(self._needs)), key=lambda job: -self._size[job])
        waiting = [(-self._size[job], job) for job in jobs if not self._stays(job)]
        heapify(waiting)
        tries = _TRIES * len(jobs)
        while waiting and tries and time.perf_counter() < end:
            tries -= 1
            job = heappop(waiting)[1]
            pods, place, now = self._packing.pods[job], self._places[job], self._packing.now[job]
            nodes = beside_others(self._left, pods, self._weights, place, now, self._packing.beside)
            if nodes is None:
                for other in self._who_makes_room(job):
                    self._takes_away(other)
                    heappush(waiting, (-self._size[other], other))
                nodes = beside_others(self._left, pods, self._weights, place, (), self._packing.beside)
            if nodes is None:
                return None
            self._lies(job, nodes)
        return None if waiting else [self._found[job] for job in range(len(self._needs))]

    def _stays(self, job: int) -> bool:
        """Leave a job where all of its pods are, if that goes; say so."""
        now, place = self._packing.now[job], self._places[job]
        if now and min(now) < 0:
            return False
        if place is not None and np.unique(place[list(now)]).size > 1:
            return False
        left = self._left.copy()
        np.subtract.at(left.T, list(now), self._needs[job])
        if (left[:, list(now)] < 0).any():
            return False
        self._left = left
        self._found[job] = now
        for node in now:
            self._on[node].add(job)
        return True

    def _lies(self, job: int, nodes: Sequence[int]) -> None:
        self._found[job] = tuple(nodes)
        for node in nodes:
            self._on[node].add(job)

    def _takes_away(self, job: int) -> None:
        np.add.at(self._left.T, list(self._found[job]), self._needs[job])
        for node in self._found.pop(job):
            self._on[node].discard(job)

    def _who_makes_room(self, job: int) -> set[int]:
        """Return the smaller jobs, of few pods, without which a job of alike pods finds room; else nobody."""
        need = self._needs[job][0]
        if not (self._needs[job] == need).all():
            return set()
        some = need > 0
        fit = (self._left[some] // need[some, None]).min(axis=0)
        if self._packing.anti_affinity:
            fit = np.minimum(fit, 1)
        costs = list[tuple[int, int, set[int]]]()
        for node in range(fit.size):
            others = self._few_on(node, need, self._size[job])
            if others is not None:
                costs.append((sum(len(self._found[one]) for one in others), node, others))
        costs.sort(key=lambda one: one[:2])
        place, wanted = self._places[job], len(self._needs[job])
        best, least = set[int](), math.inf
        for at in [None] if place is None else np.unique(place).tolist():
            inside = np.ones(fit.size, dtype=np.bool_) if at is None else place == at
            count, gone = int(fit[inside].sum()), set[int]()
            for _, node, others in costs:
                if count >= wanted:
                    break
                if inside[node] and not (self._packing.anti_affinity and fit[node]):
                    gone |= others
                    count += 1
            cost = sum(len(self._found[one]) for one in gone)
            if count >= wanted and cost < least:
                best, least = gone, cost
        return best

    def _few_on(self, node: int, need: Integers, size: float) -> set[int] | None:
        """Return few smaller jobs without which one more such pod fits on a node; ``None`` for none."""
        lack = need * (1 + int((self._left[need > 0, node] // need[need > 0]).min())) - self._left[:, node]
        mine = {
            one: self._needs[one][np.array(self._found[one]) == node].sum(axis=0)
            for one in self._on[node]
            if self._size[one] < size
        }
        gone = set[int]()
        for one in sorted(mine, key=lambda one: (len(self._found[one]), -float(mine[one] @ self._weights))):
            if (lack <= 0).all():
                break
            if (mine[one][lack > 0] > 0).any():
                lack = lack - mine[one]
                gone.add(one)
        return gone if (lack <= 0).all() else None
