"""Exact packing of few jobs: sets of jobs that move in rising size, and depth-first search for the rest.

Place jobs around those who stay: largest first, where least room is left over.

Where every size divides the next larger one, as powers of two do, this is exact whatever the rooms are:
wherever the pieces of one size go, they leave equally many slots to the next smaller one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import combinations, islice, pairwise

from apportion.models.packing import NodePacking

__all__ = ["Nodes", "Search", "best_fit", "fewest_moves", "is_chain", "nodes_that_matter", "rooms_beside"]


Nodes = list[tuple[int, ...]]


def is_chain(packing: NodePacking) -> bool:
    """Return whether every size divides the next larger one."""
    sizes = sorted(packing.sizes())
    return all(large % small == 0 for small, large in pairwise(sizes))


def rooms_beside(packing: NodePacking, staying: Iterable[int]) -> dict[int, int] | None:
    """Return what is left of the nodes that jobs stay on; ``None`` if they exceed one."""
    room: dict[int, int] = {}
    for job in staying:
        for node in packing.current[job] or ():
            left = room.get(node, packing.room(node)) - packing.share(job)
            if left < 0:
                return None
            room[node] = left
    return room


def nodes_that_matter(packing: NodePacking) -> list[int]:
    """Return the nodes that jobs hold, the smaller one, and as many others as could be needed."""
    held = {node for nodes in packing.current for node in nodes or () if packing.room(node)}
    if packing.rest:
        held.add(packing.whole)
    others = (node for node in range(packing.whole) if node not in held)
    return sorted(held.union(islice(others, packing.sizes().total())))


def best_fit(packing: NodePacking, staying: Iterable[int]) -> Nodes | None:
    """Return the nodes of every job, those in `staying` unmoved; ``None`` if some found no room.

    Nodes in use are filled before an empty one is begun, so whole nodes stay free.
    """
    kept = list(staying)
    room = rooms_beside(packing, kept)
    if room is None:
        return None
    placed: dict[int, tuple[int, ...]] = {job: packing.current[job] or () for job in kept}
    waiting = sorted(set(range(len(packing.gpus))) - placed.keys(), key=lambda job: (-packing.gpus[job], job))
    fresh = (node for node in range(packing.whole) if node not in room)
    if packing.rest:
        room.setdefault(packing.whole, packing.rest)
    by_room: dict[int, list[int]] = {}
    for node, left in sorted(room.items()):
        by_room.setdefault(left, []).append(node)  # ascending, hence a heap
    for job in waiting:
        need, share = packing.needed(job), packing.share(job)
        nodes = []
        for _ in range(need):
            fits = min((left for left, heap in by_room.items() if heap and left >= share), default=None)
            found = next(fresh, None) if fits is None else heappop(by_room[fits])
            if found is None:
                return None
            nodes.append(found)
            heappush(by_room.setdefault((packing.size if fits is None else fits) - share, []), found)
        placed[job] = tuple(nodes)
    return [placed[job] for job in range(len(packing.gpus))]


_MOST_STEPS = 20_000


@dataclass(slots=True)
class Search:
    """What a search found.

    Attributes
    ----------
    nodes
        Per job, ``None`` if nothing was found.
    complete
        Whether it went through everything: nothing better exists, or nothing at all.
    """

    nodes: Nodes | None
    complete: bool


def fewest_moves(packing: NodePacking, stayers: list[int]) -> Search:
    """Return a packing in which as few of the stayers move as possible, on few nodes."""
    steps, complete = [_MOST_STEPS], True
    for size in range(len(stayers) + 1):
        best: Search | None = None
        for moving in combinations(stayers, size):
            if steps[0] <= 0:
                return Search(None if best is None else best.nodes, False)
            steps[0] -= 1 + len(packing.gpus)
            leaving = set(moving)
            found = _completed(packing, [job for job in stayers if job not in leaving], steps)
            complete &= found.complete or found.nodes is not None
            if found.nodes is not None and (best is None or _used(found.nodes) < _used(best.nodes or [])):
                best = found
        if best is not None:
            return Search(best.nodes, complete)
    return Search(None, complete)


def _used(nodes: Iterable[tuple[int, ...]]) -> int:
    return len({node for held in nodes for node in held})


def _completed(packing: NodePacking, staying: list[int], steps: list[int]) -> Search:
    """Pack all others on as few nodes as the steps allow, by branch and bound from the best fit."""
    room = rooms_beside(packing, staying)
    if room is None:
        return Search(None, True)
    first = best_fit(packing, staying)
    others = sorted(set(range(len(packing.gpus))) - set(staying), key=lambda job: -packing.gpus[job])
    pieces = [(packing.share(job), job) for job in others for _ in range(packing.needed(job))]
    nodes_at = nodes_that_matter(packing)
    left = [room.get(node, packing.room(node)) for node in nodes_at]
    used = [node in room for node in nodes_at]
    best = None if first is None else (_used(first), first)
    at: list[int] = []

    def search(opened: int) -> bool:
        """Go on with the next piece; ``False`` when the steps are used up."""
        nonlocal best
        if best is not None and opened >= best[0]:
            return True
        if len(at) == len(pieces):
            nodes: dict[int, tuple[int, ...]] = {job: packing.current[job] or () for job in staying}
            for (_, job), node in zip(pieces, at, strict=True):
                nodes[job] = (*nodes.get(job, ()), nodes_at[node])
            best = opened, [nodes[job] for job in range(len(packing.gpus))]
            return True
        steps[0] -= 1
        if steps[0] <= 0:
            return False
        share, job = pieces[len(at)]
        tried: set[tuple[int, bool]] = set()
        for node in sorted(range(len(left)), key=lambda node: (left[node], node)):
            alike = (left[node], used[node])
            if left[node] < share or alike in tried:
                continue
            tried.add(alike)  # nodes with equal room are alike
            fresh = not used[node]
            left[node] -= share
            used[node] = True
            at.append(node)
            enough = search(opened + fresh)
            at.pop()
            left[node] += share
            used[node] = not fresh
            if not enough:
                return False
        return True

    complete = search(sum(used))
    return Search(None if best is None else best[1], complete)
