"""Put pods that need several resources onto nodes, or show that they do not fit.

First by best fit in several orders. Where that does not place all, a search tries every node that is unlike
the others, the largest pods first, up to a number of steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import truediv

from apportion.models.packing import PodPacking, best_fit
from apportion.solvers.packing.few_moves import Placement

__all__ = ["pack_pods"]

_STEPS = 20_000
"""Places tried until a packing counts as undecided."""
_CORE_STEPS = 2_000
"""The same for every attempt to show as much with fewer jobs."""
_MOST_PODS = 400
"""Pods up to which is searched."""

_Need = tuple[int, ...]


def pack_pods(packing: PodPacking) -> Placement:
    """Place the pods of one bundle of nodes.

    Returns
    -------
    Placement
        By job the node of each of its pods. Without nodes `core`, jobs whose pods do not fit together; no
        core where the search was given up.
    """
    nodes = packing.known or best_fit(packing)
    if nodes is not None:
        return Placement([own or () for own in nodes], proven=True)
    fits, found = _searched(packing, range(len(packing.jobs)), _STEPS)
    if fits:
        by_job = [tuple(found[job, at] for at in range(len(own))) for job, own in enumerate(packing.pods)]
        return Placement(by_job, proven=True)
    if fits is None:
        return Placement(None, proven=False)
    return Placement(None, proven=True, core=_core(packing))


def _searched(
    packing: PodPacking, jobs: Sequence[int], steps: int
) -> tuple[bool | None, dict[tuple[int, int], int]]:
    """Return whether the pods of some jobs fit, ``None`` where that was not decided, and on which nodes."""
    rooms = packing.rooms
    totals = [max(1, sum(each)) for each in zip(*rooms, strict=True)]
    pods = [(job, at, need) for job in jobs for at, need in enumerate(packing.pods[job])]
    pods.sort(key=lambda pod: (-sum(map(truediv, pod[2], totals)), pod[2]))
    left, found, dead = list(rooms), dict[tuple[int, int], int](), set[tuple[int, tuple[_Need, ...]]]()
    tried = 0

    def place(turn: int) -> bool | None:
        nonlocal tried
        if turn == len(pods):
            return True
        known = turn, tuple(sorted(left))
        if known in dead:
            return False
        (job, at, need), decided, seen = pods[turn], True, set[_Need]()
        for node, room in enumerate(left):
            if room in seen or any(one > have for one, have in zip(need, room, strict=True)):
                continue
            seen.add(room)
            tried += 1
            if tried > steps:
                return None
            left[node] = tuple(have - one for one, have in zip(need, room, strict=True))
            fits = place(turn + 1)
            left[node] = room
            if fits:
                found[job, at] = node
                return True
            decided = decided and fits is not None
        if decided:
            dead.add(known)
        return False if decided else None

    return (place(0) if len(pods) <= _MOST_PODS else None), found


def _core(packing: PodPacking) -> tuple[int, ...]:
    """Return jobs, as the packing calls them, whose pods are shown not to fit together: few of them."""
    kept = list(range(len(packing.jobs)))
    for job in sorted(kept, key=lambda job: sum(map(sum, packing.pods[job]))):
        fewer = [one for one in kept if one != job]
        if _searched(packing, fewer, _CORE_STEPS)[0] is False:
            kept = fewer
    return tuple(packing.jobs[job] for job in kept)
