"""Place jobs around those who stay: largest first, where least room is left over.

Where every size divides the next larger one, as powers of two do, this is exact whatever the rooms are:
wherever the pieces of one size go, they leave equally many slots to the next smaller one.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from itertools import islice, pairwise

from apportion.models.node_packing import NodePacking

__all__ = ["Nodes", "best_fit", "is_chain", "nodes_that_matter", "rooms_beside"]

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
