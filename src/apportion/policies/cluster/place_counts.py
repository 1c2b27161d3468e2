"""Place GPU counts wherever GPUs are free, split over nodes where no node has room."""

from __future__ import annotations

from collections.abc import Sequence

from apportion.policies.cluster.cluster_view import ClusterView
from apportion.policies.cluster.placing import free_gpus, place_on_freest

__all__ = ["place_counts", "place_rest"]


def place_counts(view: ClusterView, counts: Sequence[int]) -> list[tuple[int, ...]]:
    """Return the nodes of every job as the published Pollux simulator places Optimus' counts.

    Whoever keeps its count stays; the others are placed in increasing order of it (stable).
    """
    nodes = [held if len(held) == count else () for held, count in zip(view.held, counts, strict=True)]
    free = free_gpus(view.nodes.gpus, nodes)
    moved = [position for position, held in enumerate(view.held) if len(held) != counts[position]]
    for position in sorted(moved, key=counts.__getitem__):
        nodes[position] = place_on_freest(free, counts[position])
    return nodes


def place_rest(
    view: ClusterView, nodes: Sequence[tuple[int, ...]], counts: Sequence[int]
) -> list[tuple[int, ...]]:
    """Return `nodes` with whoever has none yet split over the freest ones, the largest first."""
    placed = list(nodes)
    free = free_gpus(view.nodes.gpus, placed)
    left_out = [position for position, held in enumerate(placed) if not held and counts[position]]
    for position in sorted(left_out, key=lambda position: -counts[position]):
        placed[position] = place_on_freest(free, counts[position])
    return placed
