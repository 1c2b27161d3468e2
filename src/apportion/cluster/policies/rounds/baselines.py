"""Published policies that rank jobs by one number: queue order, attained service, marginal gain.

First in, first out, and shortest remaining time first: jobs get the GPUs they asked for, in some order.
Tiresias (Gu et al., NSDI 2019), discretised two-dimensional least attained service, as Pollux runs it.
Optimus with an oracle (Peng et al., EuroSys 2018), as the published Pollux simulator runs it. AFS-L (Hwang
et al., NSDI 2021): GPUs go one by one to the winner of a tournament between jobs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from apportion.cluster.estimation.training.application import split_batch
from apportion.cluster.policies.rounds.belief import JobBelief, profiled
from apportion.cluster.policies.rounds.cluster_view import ClusterPlan, ClusterView
from apportion.cluster.policies.rounds.placing import (
    filled,
    free_gpus,
    place_counts,
    place_on_freest,
    run_lengths,
)

__all__ = [
    "Tiresias",
    "afs",
    "fifo",
    "optimus",
    "srtf",
]


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


def afs(view: ClusterView) -> ClusterPlan:
    """Give every GPU to the job that gains more from it than a shorter one would lose without it."""
    speeds = _Speeds(view)
    counts = [0] * view.num_jobs
    for _ in range(view.nodes.total_gpus):
        candidates = [job for job in range(view.num_jobs) if speeds.gains(job, counts[job])]
        if not candidates:
            break
        winner = candidates[0]
        for rival in candidates[1:]:
            winner = _winner(speeds, counts, winner, rival)
        counts[winner] += 1
    return ClusterPlan(place_counts(view, counts))


class _Speeds:
    """Believed progress per second by GPU count, on nodes filled one after another; computed once."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._per_node = int(view.nodes.gpus.max())
        self._known: dict[tuple[int, int], float] = {}

    def at(self, job: int, gpus: int) -> float:
        if gpus == 0:
            return 0.0
        if (job, gpus) not in self._known:
            belief = self._view.beliefs[job]
            rate = belief.rate(filled(gpus, self._per_node), self._view.nodes.types[0])
            self._known[job, gpus] = rate if gpus <= belief.max_gpus and rate > 0 else 0.0
        return self._known[job, gpus]

    def gains(self, job: int, gpus: int) -> bool:
        return self.at(job, gpus + 1) > self.at(job, gpus)

    def remaining_s(self, job: int, gpus: int) -> float:
        return self._view.beliefs[job].remaining_progress / self.at(job, max(gpus, 1))


def _winner(speeds: _Speeds, counts: list[int], one: int, other: int) -> int:
    short, long = sorted((one, other), key=lambda job: speeds.remaining_s(job, counts[job]))
    if counts[short] == 0:
        return short
    held, next_ = speeds.at(long, counts[long]), speeds.at(long, counts[long] + 1)
    base, more = speeds.at(short, counts[short]), speeds.at(short, counts[short] + 1)
    return long if (next_ - held) / next_ > (more - base) / base else short


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
