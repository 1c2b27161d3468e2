"""First in, first out, and shortest remaining time first: jobs get the GPUs they asked for, in some order."""

from __future__ import annotations

from collections.abc import Sequence

from apportion.policies.cluster.cluster_view import ClusterPlan, ClusterView
from apportion.policies.cluster.placing import filled, free_gpus, place_on_freest, run_lengths

__all__ = ["fifo", "srtf"]


def fifo(view: ClusterView) -> ClusterPlan:
    """Start jobs strictly in order of submission; nobody is pre-empted and nobody overtakes."""
    nodes = list(view.held)
    free = free_gpus(view.nodes.gpus, nodes)
    order = sorted(range(view.num_jobs), key=lambda position: float(view.submitted_s[position]))
    for position in order:
        if nodes[position]:
            continue
        wanted = int(view.requested_gpus[position])
        if wanted > int(free.sum()):
            break
        nodes[position] = place_on_freest(free, wanted)
    return ClusterPlan(nodes)


def srtf(view: ClusterView) -> ClusterPlan:
    """Run the jobs with the least believed remaining time; the others are pre-empted."""
    per_node = int(view.nodes.gpus.max())
    remaining = [_remaining_s(view, position, per_node) for position in range(view.num_jobs)]
    return ClusterPlan(_in_order(view, sorted(range(view.num_jobs), key=remaining.__getitem__)))


def _in_order(view: ClusterView, order: Sequence[int]) -> list[tuple[int, ...]]:
    left = view.nodes.total_gpus
    nodes: list[tuple[int, ...]] = [()] * view.num_jobs
    starting = []
    for position in order:
        wanted = int(view.requested_gpus[position])
        if wanted > left:
            continue
        left -= wanted
        nodes[position] = view.held[position]
        if not view.held[position]:
            starting.append(position)
    free = free_gpus(view.nodes.gpus, nodes)
    for position in starting:
        nodes[position] = place_on_freest(free, int(view.requested_gpus[position]))
    return nodes


def _remaining_s(view: ClusterView, position: int, per_node: int) -> float:
    held = view.held[position]
    wanted = int(view.requested_gpus[position])
    placement = run_lengths(held) if held else filled(wanted, per_node)
    gpu_type = view.nodes.type_of(held) if held else view.nodes.types[0]
    rate = view.beliefs[position].rate(placement, gpu_type)
    return view.beliefs[position].remaining_progress / rate if rate > 0 else float("inf")
