"""Menus of pods that need several resources, and the nodes they are put on; some share a place with others.

Every chooser takes one option, whose pods are of kinds told by what they need. `NodeContents` says what fits
on a node together: the most that pods of given weights weigh there, and which pods these are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd, prod
from operator import itemgetter
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["NodeContents", "PodMenus", "PodPacking", "beside_others", "best_fit", "keeps_rooms", "left_over"]


_MOST_STATES = 50_000
"""Amounts left of a node up to which they are listed as they are."""
_NONE = -1


class NodeContents:
    """The sets of pods that nodes can hold, by dynamic programming over what is left of the largest of them.

    Every resource is counted in the greatest common divisor u of what pods need of it, or in twice as much
    and so on where amounts are too many: needs and nodes rounded down hold every set of pods that nodes do,
    as sum floor(n / u) <= floor(sum n / u), and perhaps more. A resource of which every pod needs some is
    gone through in ascending order; for each amount of it the table of all others is filled at once, kind by
    kind. This is the unbounded knapsack of several constraints; the table of the largest node has all others.

    Parameters
    ----------
    needs
        int64 [kinds, resources] >= 0: what a pod of a kind needs.
    free
        int64 [nodes, resources] >= 0: what is free on every node.

    Attributes
    ----------
    is_listed
        Whether the table can be made: some resource is needed by all pods.
    sorts, sort, number
        int64 [sorts, resources] what is free on nodes that are alike to every pod, in those units; int64
        [nodes] the sort of every node; int64 [sorts] how many there are of each.
    """

    def __init__(self, needs: NDArray[np.int64], free: NDArray[np.int64]) -> None:
        needed = needs.any(axis=0)
        units = np.array([max(1, gcd(*each)) for each in needs.T.tolist()], dtype=np.int64)
        room = np.where(needed, free.max(axis=0, initial=0), 0)
        while prod((room // units + 1).tolist()) > _MOST_STATES:
            units[np.argmax(room // units)] *= 2
        self.sorts, sort, self.number = np.unique(
            np.where(needed, free // units, 0), axis=0, return_inverse=True, return_counts=True
        )
        self.sort = sort.ravel()
        largest = self.sorts.max(axis=0, initial=0)
        always = np.flatnonzero((needs // units > 0).all(axis=0))
        self.is_listed = bool(always.size)
        if not self.is_listed:
            return
        first = int(always[np.argmin(largest[always])])
        order = [first, *(at for at in range(largest.size) if at != first)]
        self.sorts, self._needs = self.sorts[:, order], (needs // units)[:, order]
        if len(order) == 1:  # a table has rows of several amounts
            self.sorts, self._needs = (np.pad(one, ((0, 0), (0, 1))) for one in (self.sorts, self._needs))
        self._shape = tuple((self.sorts.max(axis=0, initial=0) + 1).tolist())

    def heaviest(self, weights: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int16]]:
        """Return for every amount left the most that pods weigh, and the kind of a last one, -1 for none.

        Parameters
        ----------
        weights
            int64 or float64 [kinds] >= 0. Whole numbers make the answer exact, where it is below 2^63.
        """
        most = np.zeros(self._shape, dtype=weights.dtype)
        last = np.full(self._shape, _NONE, dtype=np.int16)
        largest = np.array(self._shape) - 1
        kinds = np.flatnonzero((self._needs <= largest).all(axis=1) & (weights > 0)).tolist()
        cuts = [
            (
                kind,
                step,
                tuple(slice(need, None) for need in others),
                tuple(slice(0, size - need) for need, size in zip(others, self._shape[1:], strict=True)),
            )
            for kind in kinds
            for step, *others in [self._needs[kind].tolist()]
        ]
        for amount in range(1, self._shape[0]):
            table, by = most[amount], last[amount]
            table[...] = most[amount - 1]
            for kind, step, with_it, before in cuts:
                if step <= amount:
                    there = table[with_it]
                    weight = most[amount - step][before] + weights[kind]
                    better = weight > there
                    there[better] = weight[better]
                    by[with_it][better] = kind
        return most, last

    def most(self, weights: NDArray[Any]) -> NDArray[Any]:
        """Return [sorts]: the most that pods weigh together on a node of every sort."""
        found: NDArray[Any] = self.heaviest(weights)[0][tuple(self.sorts.T)]
        return found

    def heavier(
        self, weights: NDArray[np.float64], than: NDArray[np.float64], others: int
    ) -> tuple[NDArray[np.float64], list[tuple[int, tuple[int, ...]]]]:
        """Return the most by sort, and for sorts where that is more than was told the kinds that weigh so.

        Parameters
        ----------
        weights, than
            float64 [kinds] and float64 [sorts].
        others
            For so many kinds also the heaviest pods with one of that kind among them.
        """
        most, last = self.heaviest(weights)
        by_sort, found = most[tuple(self.sorts.T)], list[tuple[int, tuple[int, ...]]]()
        for sort in np.flatnonzero(by_sort > than).tolist():
            room = self.sorts[sort]
            found.append((sort, self._kinds(last, room, [])))
            if others:
                fits = np.flatnonzero((self._needs <= room).all(axis=1) & (weights > 0))
                with_it = most[tuple((room - self._needs[fits]).T)] + weights[fits]
                best = np.argsort(-with_it, kind="stable")[:others]
                first = fits[best[with_it[best] > than[sort]]]
                found += [(sort, self._kinds(last, room - self._needs[one], [one])) for one in first.tolist()]
        return by_sort, found

    def holding(self, kinds: tuple[int, ...]) -> list[int]:
        """Return the sorts of nodes on which pods of these kinds lie together."""
        fits = (self._needs[list(kinds)].sum(axis=0) <= self.sorts).all(axis=1)
        found: list[int] = np.flatnonzero(fits).tolist()
        return found

    def _kinds(self, last: NDArray[np.int16], room: NDArray[np.int64], begun: list[int]) -> tuple[int, ...]:
        left, kinds = room.tolist(), list(begun)
        while left[0] > 0:
            kind = int(last[tuple(left)])
            if kind == _NONE:
                left[0] -= 1
            else:
                kinds.append(kind)
                left = [have - need for have, need in zip(left, self._needs[kind].tolist(), strict=True)]
        return tuple(sorted(kinds))


@dataclass(frozen=True, eq=False)
class PodMenus:
    """Options of pods that lie on nodes, of which those of one bundle admit the same pods.

    Attributes
    ----------
    values
        float64 [options]: what each is worth, more being better.
    offsets
        int64 [choosers + 1]: which options are whose; every chooser takes exactly one.
    option, kind, count
        int64 [entries]: an option has so many pods of a kind.
    needs
        int64 [kinds, resources]: what a pod of a kind needs.
    kind_bundle, node_bundle
        int64 [kinds], int64 [nodes]: the bundle in which pods of a kind lie, and that of every node.
    free
        int64 [nodes, resources]: what is free on every node.
    rows, rooms
        What options take of further limits, sparse [options, limits], and int64 [limits].
    share, places
        int64 [options]: where the pods of an option must share a place, which of `places` says that of every
        node of its bundle; -1 where they need not.
    now
        By option of those whose pods are somewhere now: the node of every pod in the order of its entries, -1
        for none.
    anti_affinity
        Whether no two pods of an option lie on one node.
    narrowed
        int64 [nodes, resources]: what plans use of every node at most; ``None``: all that is free. What is
        within reach of any plan is still `free`.
    """

    values: NDArray[np.float64]
    offsets: NDArray[np.int64]
    option: NDArray[np.int64]
    kind: NDArray[np.int64]
    count: NDArray[np.int64]
    needs: NDArray[np.int64]
    kind_bundle: NDArray[np.int64]
    node_bundle: NDArray[np.int64]
    free: NDArray[np.int64]
    rows: Any
    rooms: NDArray[np.int64]
    share: NDArray[np.int64]
    places: Sequence[NDArray[np.int64]]
    now: Mapping[int, tuple[int, ...]]
    anti_affinity: bool = False
    narrowed: NDArray[np.int64] | None = None

    @property
    def usable(self) -> NDArray[np.int64]:
        """int64 [nodes, resources]: what plans use of every node at most."""
        return self.free if self.narrowed is None else self.narrowed

    @cached_property
    def members(self) -> tuple[tuple[NDArray[np.int64], NDArray[np.int64]], ...]:
        """By bundle its kinds and its nodes."""
        bundles = range(int(self.node_bundle.max(initial=-1)) + 1)
        return tuple(
            (np.flatnonzero(self.kind_bundle == at), np.flatnonzero(self.node_bundle == at)) for at in bundles
        )

    @cached_property
    def position(self) -> list[int]:
        """Of every node its position among those of its bundle."""
        found = np.zeros(self.node_bundle.size, dtype=np.int64)
        for _, own in self.members:
            found[own] = np.arange(own.size)
        listed: list[int] = found.tolist()
        return listed

    @cached_property
    def contents(self) -> tuple[NodeContents, ...]:
        """By bundle what fits on its nodes together."""
        return tuple(NodeContents(self.needs[kinds], self.free[nodes]) for kinds, nodes in self.members)

    def some(self, step: int) -> PodMenus:
        """Return one in so many of the choosers, of the nodes and of further limits."""
        mine = self.owner % step == 0
        options, entries, nodes = np.flatnonzero(mine), mine[self.option], slice(None, None, step)
        return replace(
            self,
            values=self.values[options],
            offsets=np.concatenate(([0], np.cumsum(np.diff(self.offsets)[nodes]))),
            option=(np.cumsum(mine) - 1)[self.option[entries]],
            kind=self.kind[entries],
            count=self.count[entries],
            node_bundle=self.node_bundle[nodes],
            free=self.free[nodes],
            rows=self.rows[options],
            rooms=self.rooms // step,
            share=self.share[options],
        )

    @cached_property
    def owner(self) -> NDArray[np.int64]:
        """int64 [options]: whose each is."""
        return np.repeat(np.arange(self.offsets.size - 1), np.diff(self.offsets))


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
    now
        By job of every pod the node where one is now that it may stay for, -1 for none; empty where none is.
    anti_affinity
        Whether no two pods of a job lie on one node.
    """

    rooms: tuple[tuple[int, ...], ...]
    jobs: tuple[int, ...]
    pods: tuple[tuple[tuple[int, ...], ...], ...]
    known: tuple[tuple[int, ...], ...] | None = None
    places: tuple[NDArray[np.int64] | None, ...] = ()
    now: tuple[tuple[int, ...], ...] = ()
    anti_affinity: bool = False

    @property
    def beside(self) -> list[int] | None:
        """What `beside_others` is told of a job that has no pod on any node yet: none, if that matters."""
        return [] if self.anti_affinity else None

    def keeps_anti_affinity(self, nodes: Sequence[Sequence[int]]) -> bool:
        """Return whether no two pods of a job lie on one node of those given by job, where they must not."""
        return not self.anti_affinity or all(len(set(own)) == len(own) for own in nodes)

    def places_of(self) -> tuple[NDArray[np.int64] | None, ...]:
        """Return `places`, one per job."""
        return self.places or (None,) * len(self.jobs)


_ORDERS, _PAIRS = 40, 2_000_000
"""Orders in which best fit is tried at most, and pairs of a pod and a node in all of them together."""
_MANY = 10**9
"""More pods than there are."""


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
    if not packing.keeps_anti_affinity(nodes):
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
    Vector Bin Packing, 2011). Jobs whose pods share a place come before, those of most pods first. In every
    other order those that are somewhere now come first of all, and stay there where they can.

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
    runs = any(node >= 0 for own in packing.now for node in own)
    for turn in range(max(4 if runs else 2, min(_ORDERS, _PAIRS // pairs))):
        weights = np.array([(1.0 if turn == 0 else random.random()) / total for total in totals])
        stays = runs and turn % 2 == 0
        found, out = _best_fit(packing, weights, skips=worths is not None, stays=stays)
        lost = 0.0 if not out else math.inf if worths is None else math.fsum(worths[job] for job in out)
        if lost < least:
            best, least = tuple(found), lost
        if not out:
            break
    return best


def _best_fit(
    packing: PodPacking, weights: NDArray[np.float64], *, skips: bool, stays: bool
) -> tuple[list[tuple[int, ...] | None], list[int]]:
    """Return the nodes of the pods by job, and the jobs that have none: the first one, or all."""
    left, places = np.array(packing.rooms, dtype=np.int64).T.copy(), packing.places_of()
    each = [[(need, float(np.dot(need, weights))) for need in own] for own in packing.pods]
    now = packing.now if stays else ((),) * len(each)
    alone = [place is None and max(at, default=-1) < 0 for place, at in zip(places, now, strict=True)]
    turns = [
        (0, -size, job, (at, at + 1))
        if alone[job]
        else (-len(own) - (_MANY if now[job] else 0), -sum(size for _, size in own), job, (0, len(own)))
        for job, own in enumerate(each)
        for at, (_, size) in enumerate(own if alone[job] else own[:1])
    ]
    found: list[list[int] | None] = [[-1] * len(own) for own in packing.pods]
    out = list[int]()
    for _, _, job, (first, last) in sorted(turns, key=itemgetter(0, 1)):
        own, place = found[job], places[job]
        if own is None:
            continue
        beside = [node for node in own if node >= 0] if packing.anti_affinity else None
        nodes = beside_others(left, packing.pods[job][first:last], weights, place, now[job], beside)
        if nodes is not None:
            own[first:last] = nodes
            continue
        _give_back(left, packing.pods[job], own)
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
    now: Sequence[int] = (),
    barred: Sequence[int] | None = None,
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
    now
        The node of every pod where it stays if that goes, -1 for none.
    barred
        Where no two of them may lie on one node, the nodes on which others like them lie.
    """
    if (stays := [(at, node) for at, node in enumerate(now) if node >= 0]) and (
        found := _staying(left, pods, weights, place, stays, barred)
    ):
        return found
    if place is None:
        return _one_by_one(left, pods, weights, None, barred)
    need = np.array(pods[0], dtype=np.int64)
    rooms = (left[need > 0] // need[need > 0, None]).min(axis=0, initial=len(pods)).clip(0)
    each = np.bincount(place, rooms if barred is None else np.minimum(rooms, 1))
    enough = np.flatnonzero(each >= len(pods) if len(set(map(tuple, pods))) == 1 else each > 0)
    for one in enough[np.argsort(each[enough], kind="stable")].tolist():
        nodes = _one_by_one(left, pods, weights, np.flatnonzero(place == one), barred)
        if nodes is not None:
            return nodes
    return None


def _staying(
    left: NDArray[np.int64],
    pods: Sequence[Sequence[int]],
    weights: NDArray[np.float64],
    place: NDArray[np.int64] | None,
    stays: Sequence[tuple[int, int]],
    barred: Sequence[int] | None,
) -> list[int] | None:
    """Put pods on nodes that are told, as far as they fit there, and the others beside them."""
    found, inside = [-1] * len(pods), None
    for at, node in stays:
        if (inside is not None and node not in inside) or (barred is not None and node in (*barred, *found)):
            continue
        if bool((left[:, node] >= pods[at]).all()):
            found[at] = node
            left[:, node] -= pods[at]
            inside = None if place is None else np.flatnonzero(place == place[node])
    others = [at for at, node in enumerate(found) if node < 0]
    beside = None if barred is None else [*barred, *(node for node in found if node >= 0)]
    some = [pods[at] for at in others]
    nodes = _one_by_one(left, some, weights, inside, beside) if len(others) < len(found) else None
    if nodes is None:
        _give_back(left, pods, found)
        return None
    for at, node in zip(others, nodes, strict=True):
        found[at] = node
    return found


def _one_by_one(
    left: NDArray[np.int64],
    pods: Sequence[Sequence[int]],
    weights: NDArray[np.float64],
    inside: NDArray[np.int64] | None,
    barred: Sequence[int] | None,
) -> list[int] | None:
    found = list[int]()
    for need in pods:
        there = left if inside is None else left[:, inside]
        fits = np.flatnonzero((there >= np.array(need)[:, None]).all(axis=0))
        if barred is not None:
            fits = fits[~np.isin(fits if inside is None else inside[fits], [*barred, *found])]
        if not fits.size:
            _give_back(left, pods[: len(found)], found)
            return None
        at = int(fits[np.argmin(weights @ there[:, fits])])
        found.append(at if inside is None else int(inside[at]))
        left[:, found[-1]] -= need
    return found


def _give_back(left: NDArray[np.int64], pods: Sequence[Sequence[int]], nodes: Sequence[int]) -> None:
    """Give nodes back what pods took of them; those at no node, -1, took nothing."""
    for need, node in zip(pods, nodes, strict=True):
        if node >= 0:
            left[:, node] += need
