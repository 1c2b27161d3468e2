"""From GPU counts to nodes: partial nodes are never split, larger counts are whole nodes, few jobs move.

The rule of Sia (SOSP 2023): a job with at most a node's GPUs sits on one node, a larger one on whole nodes.
What is left is bin packing of the small counts. Where every count divides the next larger one and the node,
as powers of two do, packing the largest first is exact, and whatever fits the sum of GPUs can be placed.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations, islice

__all__ = ["place"]

_MOST_WORK = 20_000
"""Sets of moving jobs that are tried one by one, times jobs, before large shares of them may move at once."""
_MOST_STEPS = 20_000
"""Steps of one exact packing."""
_MOST_EXACT = 300
"""Small jobs that are packed exactly; of more, every one goes where it fits best."""


def place(
    num_nodes: int,
    gpus_per_node: int,
    gpus: Mapping[str, int],
    current: Mapping[str, tuple[int, ...]] | None = None,
) -> dict[str, tuple[int, ...]] | None:
    """Return the nodes of every job on one GPU type, or ``None`` if there is no room or none was found.

    Jobs whose count and nodes still fit stay where they are; sets of jobs that have to move are tried in
    rising size, so that as few move as possible in a cluster of a few jobs; of many, more may move than have
    to. Small jobs are packed where least room is left over.

    Parameters
    ----------
    num_nodes, gpus_per_node
        The nodes, numbered from 0.
    gpus
        GPUs per job, at least 1; beyond a node a multiple of it, otherwise ``None`` is returned.
    current
        The nodes of jobs that run: one for a count up to a node's, else as many as it fills.

    Returns
    -------
    dict or None
        Job to node numbers; a job with at most a node's GPUs has one.
    """
    if any(count > gpus_per_node and count % gpus_per_node for count in gpus.values()):
        return None
    if sum(gpus.values()) > num_nodes * gpus_per_node:
        return None
    told = current or {}
    stayers = [job for job in gpus if _still_fits(told.get(job), gpus[job], num_nodes, gpus_per_node)]
    stayers.sort(key=lambda job: (gpus[job], job))
    sets = (moving for size in range(len(stayers)) for moving in combinations(stayers, size))
    tried = list(islice(sets, _MOST_WORK // (len(gpus) + 1)))
    shares = [tuple(stayers[: -(-len(stayers) // part)]) for part in (8, 4, 2, 1)]
    for moving in (*tried, *shares):
        leaving = set(moving)
        kept = {job: told[job] for job in stayers if job not in leaving}
        found = _complete(num_nodes, gpus_per_node, gpus, kept)
        if found is not None:
            return found
    return None


def _still_fits(nodes: tuple[int, ...] | None, count: int, num_nodes: int, per_node: int) -> bool:
    if nodes is None or len(set(nodes)) != len(nodes) or not all(0 <= node < num_nodes for node in nodes):
        return False
    return len(nodes) == max(1, count // per_node)


def _complete(
    num_nodes: int, per_node: int, gpus: Mapping[str, int], kept: Mapping[str, tuple[int, ...]]
) -> dict[str, tuple[int, ...]] | None:
    """Place everybody around those who stay; ``None`` if they do not fit."""
    room = [per_node] * num_nodes
    for job, nodes in kept.items():
        for node in nodes:
            room[node] -= min(gpus[job], per_node)
    if any(left < 0 for left in room):
        return None
    placed = dict(kept)
    waiting = sorted((job for job in gpus if job not in kept), key=lambda job: (-gpus[job], job))
    for job in [job for job in waiting if gpus[job] >= per_node]:
        empty = [node for node in range(num_nodes) if room[node] == per_node][: gpus[job] // per_node]
        if len(empty) * per_node < gpus[job]:
            return None
        placed[job] = tuple(empty)
        for node in empty:
            room[node] = 0
    small = [job for job in waiting if gpus[job] < per_node]
    packed = _packed(room, [gpus[job] for job in small])
    if packed is None:
        return None
    return placed | {job: (node,) for job, node in zip(small, packed, strict=True)}


def _packed(room: list[int], sizes: list[int]) -> list[int] | None:
    """Pack falling sizes into rooms, fullest that fits first, by depth-first search."""
    if len(sizes) > _MOST_EXACT:
        return _best_fit(room, sizes)
    chosen: list[int] = []
    steps = 0

    def search(at: int) -> bool:
        nonlocal steps
        if at == len(sizes):
            return True
        steps += 1
        if steps > _MOST_STEPS or sum(sizes[at:]) > sum(room):
            return False
        tried: set[int] = set()
        for node in sorted(range(len(room)), key=lambda node: (room[node], node)):
            if room[node] < sizes[at] or room[node] in tried:
                continue
            tried.add(room[node])  # nodes with equal room are alike
            room[node] -= sizes[at]
            chosen.append(node)
            if search(at + 1):
                return True
            chosen.pop()
            room[node] += sizes[at]
        return False

    return chosen if search(0) else None


def _best_fit(room: list[int], sizes: list[int]) -> list[int] | None:
    chosen: list[int] = []
    for size in sizes:
        fits = [node for node, left in enumerate(room) if left >= size]
        if not fits:
            return None
        chosen.append(min(fits, key=lambda node: room[node]))
        room[chosen[-1]] -= size
    return chosen
