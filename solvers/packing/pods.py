"""Put pods that need several resources onto nodes, or show that they do not fit.

First by best fit in several orders. Where that does not place all, a search tries every node that is unlike
the others, the largest pods first and those that must share a place one after the other, up to a number of
steps.
"""

from __future__ import annotations

import time
from collections.abc import Container, Sequence
from operator import truediv
from typing import Any

from apportion.models.pods import PodPacking, best_fit
from apportion.solvers.packing.few_moves import Placement
from apportion.solvers.packing.staying import most_staying

__all__ = ["pack_pods"]

_STEPS = 20_000
"""Places tried until a packing counts as undecided."""
_CORE_STEPS = 2_000
"""The same for every attempt to show as much with fewer jobs."""
_MOST_PODS = 400
"""Pods up to which is searched."""
_Need = tuple[int, ...]


def pack_pods(packing: PodPacking, seconds: float | None) -> Placement:
    """Place the pods of one bundle of nodes.

    Parameters
    ----------
    packing
        The pods and the nodes.
    seconds
        How long is searched at most; ``None``: as many steps as are allowed.

    Returns
    -------
    Placement
        By job the node of each of its pods. Without nodes `core`, jobs whose pods do not fit together; no
        core where the search was given up.
    """
    nodes = packing.known or best_fit(packing)
    if nodes is not None:
        return Placement(most_staying(packing, [own or () for own in nodes], seconds), proven=True)
    end = None if seconds is None else time.perf_counter() + seconds
    fits, found = _searched(packing, range(len(packing.jobs)), _STEPS, end)
    if fits:
        by_job = [tuple(found[job, at] for at in range(len(own))) for job, own in enumerate(packing.pods)]
        return Placement(most_staying(packing, by_job, seconds), proven=True)
    if fits is None:
        return Placement(None, proven=False)
    return Placement(None, proven=True, core=_core(packing, end))


def _searched(
    packing: PodPacking, jobs: Sequence[int], steps: int, end: float | None
) -> tuple[bool | None, dict[tuple[int, int], int]]:
    """Return whether the pods of some jobs fit, ``None`` where that was not decided, and on which nodes."""
    rooms, places = packing.rooms, packing.places_of()
    totals = [max(1, sum(each)) for each in zip(*rooms, strict=True)]

    def order(pod: tuple[int, int, _Need]) -> tuple[Any, ...]:
        """Return the turn of a pod: first those of jobs of one place, job by job, the largest first.

        Those of every job are together as well where no two of them may lie on one node.
        """
        size, of_job = (
            sum(map(truediv, map(sum, zip(*some, strict=True)), totals))
            for some in ([pod[2]], packing.pods[pod[0]])
        )
        shares = places[pod[0]] is not None
        together = shares or packing.anti_affinity
        return (not shares, -of_job if together else 0, pod[0] if together else 0, -size, pod[2])

    pods = sorted(((job, at, need) for job in jobs for at, need in enumerate(packing.pods[job])), key=order)
    levels = [*{id(one): one.tolist() for one in places if one is not None}.values()]
    left, found, dead = list(rooms), dict[tuple[int, int], int](), set[Any]()
    tried = 0

    def alike(taken: Container[int]) -> list[tuple[Any, ...]]:
        """Return by node what it has in common with those that are as good: where it is, or beside what.

        And whether pods like the next one may not lie there, as they may not lie where others do.
        """
        barred = [node in taken for node in range(len(left))]
        if len(levels) != 1:
            return [*zip(*levels, barred, strict=True)]
        rooms_at: dict[int, list[tuple[bool, _Need]]] = {}
        for at, no, room in zip(levels[0], barred, left, strict=True):
            rooms_at.setdefault(at, []).append((no, room))
        beside = {at: tuple(sorted(those)) for at, those in rooms_at.items()}
        return [(no, beside[at]) for at, no in zip(levels[0], barred, strict=True)]

    def place(turn: int, before: int | None, lying: tuple[int, ...] = ()) -> bool | None:
        """Place the pods from a turn on; told are the node of the one before, and those barred to its job."""
        nonlocal tried
        if turn == len(pods):
            return True
        (job, at, need), decided, seen = pods[turn], True, set[Any]()
        taken = lying if packing.anti_affinity and turn and pods[turn - 1][0] == job else ()
        here, mates = places[job], alike(taken)
        begun = here is not None and before is not None and pods[turn - 1][0] == job
        known = turn, begun and mates[before or 0], tuple(sorted(zip(left, mates, strict=True)))
        if known in dead:
            return False
        for node, room in enumerate(left):
            if (room, mates[node]) in seen or any(one > have for one, have in zip(need, room, strict=True)):
                continue
            if node in taken:
                continue
            if here is not None and before is not None and begun and here[node] != here[before]:
                continue
            seen.add((room, mates[node]))
            tried += 1
            if tried > steps or (end is not None and time.perf_counter() > end):
                return None
            left[node] = tuple(have - one for one, have in zip(need, room, strict=True))
            fits = place(turn + 1, node, (*taken, node) if packing.anti_affinity else ())
            left[node] = room
            if fits:
                found[job, at] = node
                return True
            decided = decided and fits is not None
        if decided:
            dead.add(known)
        return False if decided else None

    return (place(0, None) if len(pods) <= _MOST_PODS else None), found


def _core(packing: PodPacking, end: float | None) -> tuple[int, ...]:
    """Return jobs, as the packing calls them, whose pods are shown not to fit together: few of them."""
    kept = list(range(len(packing.jobs)))
    for job in sorted(kept, key=lambda job: sum(map(sum, packing.pods[job]))):
        fewer = [one for one in kept if one != job]
        if _searched(packing, fewer, _CORE_STEPS, end)[0] is False:
            kept = fewer
    return tuple(packing.jobs[job] for job in kept)
