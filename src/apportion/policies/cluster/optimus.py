"""Optimus with an oracle (Peng et al., EuroSys 2018), as the published Pollux simulator runs it."""

from __future__ import annotations

import math

from apportion.estimation.training.batch_split import split_batch
from apportion.policies.cluster.belief import JobBelief
from apportion.policies.cluster.placing import free_gpus, place_on_freest
from apportion.policies.cluster.view import ClusterPlan, ClusterView

__all__ = ["optimus"]

_UNSCALED = frozenset({"ncf"})
"""Applications that the published simulator never gives a second GPU."""


def optimus(view: ClusterView) -> ClusterPlan:
    """Give GPUs one by one to the job whose remaining time they shorten most."""
    left = view.nodes.total_gpus
    counts = [0] * view.num_jobs
    for position in range(min(left, view.num_jobs)):
        counts[position] = 1
    left -= sum(counts)
    per_node = int(view.nodes.gpus.max())
    gpu_type = view.nodes.types[0]

    def gain(position: int) -> float:
        held = counts[position]
        belief = view.beliefs[position]
        if held == 0 or left == 0 or held + 1 > _max_replicas(belief):
            return 0.0
        now, then = (_seconds(belief, count, per_node, gpu_type) for count in (held, held + 1))
        return (now - then) * _remaining_iterations(belief)

    gains = [gain(position) for position in range(view.num_jobs)]
    while left > 0 and gains and (most := max(gains)) > 0:
        position = gains.index(most)
        counts[position] += 1
        left -= 1
        gains[position] = gain(position)
    return ClusterPlan(_placed(view, counts))


def _placed(view: ClusterView, counts: list[int]) -> list[tuple[int, ...]]:
    nodes = [held if len(held) == count else () for held, count in zip(view.held, counts, strict=True)]
    free = free_gpus(view.nodes.gpus, nodes)
    moved = [position for position, held in enumerate(view.held) if len(held) != counts[position]]
    for position in sorted(moved, key=counts.__getitem__):
        nodes[position] = place_on_freest(free, counts[position])
    return nodes


def _max_replicas(belief: JobBelief) -> int:
    application = belief.application
    return 1 if application.name in _UNSCALED else belief.batch // application.min_local


def _remaining_iterations(belief: JobBelief) -> float:
    last = belief.application.epochs - 1
    if belief.epoch == last:
        return 1.0
    application = belief.application
    return application.iterations_to(belief.batch, last) - application.iterations_to(
        belief.batch, belief.epoch
    )


def _seconds(belief: JobBelief, gpus: int, per_node: int, gpu_type: str) -> float:
    """Return t(g): an optimiser step on nodes filled one after another."""
    full, rest = divmod(gpus, per_node)
    placement = (per_node,) * full + ((rest,) if rest else ())
    split = split_batch(belief.application, belief.batch, gpus, always_accumulate_alone=True)
    step, sync = belief.application.step_times[gpu_type].seconds(placement, split.local)
    seconds = split.seconds(step, sync)
    return math.inf if math.isnan(seconds) else seconds
