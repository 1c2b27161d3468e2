"""Place GPU counts as the published Pollux simulator does for Optimus: whoever keeps its count stays."""

from __future__ import annotations

from collections.abc import Sequence

from apportion.policies.cluster.placing import free_gpus, place_on_freest
from apportion.policies.cluster.view import ClusterView

__all__ = ["place_counts"]


def place_counts(view: ClusterView, counts: Sequence[int]) -> list[tuple[int, ...]]:
    """Return the nodes of every job: those with a new count are placed in increasing order of it (stable)."""
    nodes = [held if len(held) == count else () for held, count in zip(view.held, counts, strict=True)]
    free = free_gpus(view.nodes.gpus, nodes)
    moved = [position for position, held in enumerate(view.held) if len(held) != counts[position]]
    for position in sorted(moved, key=counts.__getitem__):
        nodes[position] = place_on_freest(free, counts[position])
    return nodes
