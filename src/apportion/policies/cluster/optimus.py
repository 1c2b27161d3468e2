"""Optimus with an oracle (Peng et al., EuroSys 2018), as the published Pollux simulator runs it."""

from __future__ import annotations

import math

from apportion.estimation.training.batch_split import split_batch
from apportion.policies.cluster.belief import JobBelief, profiled
from apportion.policies.cluster.cluster_view import ClusterPlan, ClusterView
from apportion.policies.cluster.place_counts import place_counts
from apportion.policies.cluster.placing import filled

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
        belief = profiled(view.beliefs[position])
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
    return ClusterPlan(place_counts(view, counts))


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
    """Return the seconds of an optimiser step on a number of GPUs, nodes filled one after another."""
    placement = filled(gpus, per_node)
    split = split_batch(belief.application, belief.batch, gpus, always_accumulate_alone=True)
    step, sync = belief.application.step_times[gpu_type].seconds(placement, split.local)
    seconds = split.seconds(step, sync)
    return math.inf if math.isnan(seconds) else seconds
