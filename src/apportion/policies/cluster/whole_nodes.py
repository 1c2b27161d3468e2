"""Place configurations on nodes: partial nodes are never split, and nobody moves without need.

Rules of Sia (SOSP 2023): up to a node's size all GPUs on one node, beyond it whole nodes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from apportion.policies.cluster.cluster_view import ClusterView

__all__ = ["place_whole"]


def place_whole(
    view: ClusterView, gpu_type: NDArray[np.int64], gpus: NDArray[np.int64]
) -> list[tuple[int, ...]]:
    """Return the nodes of every job of the view.

    Whoever keeps type and count keeps its nodes, unless others then find no room: then the smallest keepers
    of that type give way one after another, and are placed anew.

    Parameters
    ----------
    view
        The round.
    gpu_type, gpus
        int64 [jobs]: wanted type and count; 0 GPUs to wait. Counts within a node are powers of two, others
        multiples of its size; a job that fits nowhere even on an empty cluster waits.
    """
    nodes: list[tuple[int, ...]] = [()] * view.num_jobs
    kinds = view.nodes.kind
    for kind in np.unique(gpu_type[gpus > 0]).tolist():
        wanted = {int(job): int(gpus[job]) for job in np.flatnonzero((gpu_type == kind) & (gpus > 0))}
        keep = {
            job: held
            for job, count in wanted.items()
            if len(held := view.held[job]) == count and int(kinds[held[0]]) == kind
        }
        placed = _place(view, kind, wanted, keep)
        while placed is None and keep:
            # a whole node is freed soonest by moving the smallest
            del keep[min(keep, key=lambda job: (wanted[job], -job))]
            placed = _place(view, kind, wanted, keep)
        if placed is None:
            placed = _place(view, kind, wanted, {}, drop=True) or {}
        for job, found in placed.items():
            nodes[job] = found
    return nodes


def _place(
    view: ClusterView,
    kind: int,
    wanted: dict[int, int],
    keep: dict[int, tuple[int, ...]],
    drop: bool = False,
) -> dict[int, tuple[int, ...]] | None:
    """Place the largest first on the fullest node that has room; ``None`` if somebody finds none."""
    size = np.where(view.nodes.kind == kind, view.nodes.gpus, 0)
    free = size - np.bincount([node for held in keep.values() for node in held], minlength=size.size)
    largest = int(size.max())
    placed = dict(keep)
    # stable: of equals the first in the workload's order is placed first
    for job in sorted(wanted.keys() - keep.keys(), key=lambda job: (-wanted[job], job)):
        found = _room(free, size, largest, wanted[job])
        if found is None:
            if not drop:
                return None
            continue
        for node in found:
            free[node] -= 1
        placed[job] = found
    return placed


def _room(
    free: NDArray[np.int64], size: NDArray[np.int64], largest: int, count: int
) -> tuple[int, ...] | None:
    if count < largest:
        fitting = np.flatnonzero(free >= count)
        if not fitting.size:
            return None
        return (int(fitting[np.argmin(free[fitting])]),) * count
    whole = np.flatnonzero((free == size) & (size == largest))
    needed: Sequence[int] = whole[: -(-count // largest)].tolist()
    if len(needed) * largest != count:
        return None
    return tuple(node for node in needed for _ in range(largest))
