"""Exact packing of few jobs: sets of jobs that move in rising size, and depth-first search for the rest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

from apportion.models.node_packing import NodePacking
from apportion.solvers.packing.best_fit import Nodes, best_fit, nodes_that_matter, rooms_beside

__all__ = ["Search", "fewest_moves"]

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
