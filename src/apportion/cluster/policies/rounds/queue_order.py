"""First in, first out, and shortest remaining time first: jobs get the GPUs they asked for, in some order.

Tiresias (Gu et al., NSDI 2019), discretised two-dimensional least attained service, as Pollux runs it.
"""

from __future__ import annotations

from collections.abc import Sequence

from apportion.cluster.policies.rounds.cluster_view import ClusterPlan, ClusterView
from apportion.cluster.policies.rounds.placing import filled, free_gpus, place_on_freest, run_lengths

__all__ = ["Tiresias", "fifo", "srtf"]


class Tiresias:
    """Two first-in-first-out queues; a job that has used enough GPU time moves to the second for good.

    Parameters
    ----------
    threshold_gpu_s
        GPU-seconds after which a job is demoted; 16 GPU-hours in the published simulator.
    """

    def __init__(self, threshold_gpu_s: float = 16 * 3600.0) -> None:
        self._threshold = threshold_gpu_s
        self._queues: tuple[dict[int, None], dict[int, None]] = ({}, {})
        self._checked_s: dict[int, float] = {}
        self._executed_s: dict[int, float] = {}

    def __call__(self, view: ClusterView) -> ClusterPlan:
        """Decide who runs: whoever fits, the first queue before the second, with the GPUs it asked for."""
        first, second = self._queues
        position = {int(job): index for index, job in enumerate(view.jobs)}
        for queue in self._queues:
            for job in [job for job in queue if job not in position]:
                del queue[job], self._checked_s[job], self._executed_s[job]
        for job, index in position.items():
            if job not in self._checked_s:
                first[job] = None
                self._executed_s[job] = 0.0
            elif view.held[index]:
                self._executed_s[job] += view.time_s - self._checked_s[job]
                spent = self._executed_s[job] * int(view.requested_gpus[index])
                if job in first and spent >= self._threshold:
                    del first[job]
                    second[job] = None
            self._checked_s[job] = view.time_s
        left = view.nodes.total_gpus
        nodes: list[tuple[int, ...]] = [()] * view.num_jobs
        starting: list[int] = []
        for queue in self._queues:
            for job in queue:
                index = position[job]
                wanted = int(view.requested_gpus[index])
                if wanted <= left:
                    left -= wanted
                    nodes[index] = view.held[index]
                    if not view.held[index]:
                        starting.append(index)
        free = free_gpus(view.nodes.gpus, nodes)
        for index in starting:
            nodes[index] = place_on_freest(free, int(view.requested_gpus[index]))
        return ClusterPlan(nodes)


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
