"""Match jobs to GPU types round by round: one knapsack over believed speeds.

    maximise  sum_ja x_ja w_j (s_ja / max_b s_jb) r_ja,    sum_a x_ja <= 1,    sum_j g_j x_ja <= GPUs_a

with s the believed speed of job j on type a, g its GPUs, r what is left of the gain after a restart. The
weight w_j is the objective, a rule of its own. With t_j the remaining seconds on the job's best type, a round
on type a takes s_ja / max_b s_jb of its seconds off t_j, so the sum is how fast a potential of all t falls:
`shortest_first` has w = 1 / t, the potential sum log t, for completion times; `longest_first` has w = g t^2,
the potential sum g t^3 / 3, for the makespan: a great power stands for the maximum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.cluster.policies.rounds.cluster_view import ClusterPlan, ClusterView, Nodes
from apportion.cluster.policies.rounds.configurations import Configurations, choose
from apportion.cluster.policies.rounds.placing import filled, place_by_type

__all__ = [
    "Matching",
    "Weights",
    "after_restart",
    "believed_seconds",
    "best_types",
    "gains",
    "longest_first",
    "matching_makespan",
    "shortest_first",
    "worths",
]

_LEAST_LEFT = 0.05
"""Who would end before it has restarted still has to start some time."""

Weights = Callable[[ClusterView, NDArray[np.float64]], NDArray[np.float64]]
"""Given a view and remaining seconds on the best type, float64 [jobs], what a second off them is worth."""


def shortest_first(view: ClusterView, seconds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return float64 [jobs]: one over the remaining time t, which counts as at least a round."""
    return np.asarray(view.round_s / np.maximum(seconds, view.round_s))


def longest_first(view: ClusterView, seconds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return float64 [jobs]: GPUs times the square of the remaining time, over the greatest of them.

    A job that can run nowhere, whose time is infinite, is worth nothing and takes nothing from the others.
    """
    area = view.requested_gpus * np.where(np.isfinite(seconds), np.maximum(seconds, view.round_s) ** 2, 0.0)
    return np.asarray(area / max(float(area.max()), 1e-9))


@dataclass(frozen=True, slots=True)
class Matching:
    """A policy that matches every job to a GPU type by one knapsack over believed speeds.

    Attributes
    ----------
    weights
        The objective.
    lasts_s
        How long an allocation is believed to last when a restart is weighed against it, seconds.
    gap
        Relative optimality gap of a round.
    """

    weights: Weights = shortest_first
    lasts_s: float = 1800.0
    gap: float = 1e-2

    def __call__(self, view: ClusterView) -> ClusterPlan:
        """Decide a round."""
        chosen = best_types(
            view.nodes, view.requested_gpus, gains(view, self.weights, self.lasts_s), self.gap
        )
        return ClusterPlan(place_by_type(view, chosen))


def matching_makespan(view: ClusterView) -> ClusterPlan:
    """Decide a round for the makespan: the longest jobs first, within 5 % of the optimum."""
    return Matching(longest_first, gap=0.05)(view)


def best_types(
    nodes: Nodes, gpus: NDArray[np.int64], values: NDArray[np.float64], gap: float
) -> NDArray[np.int64]:
    """Return int64 [jobs]: the GPU type of every job, -1 to wait, for the greatest sum of values.

    Parameters
    ----------
    nodes
        The machines to be given out.
    gpus
        int64 [jobs]: GPUs that every job takes on any type.
    values
        float64 [jobs, types]: worth of running there; 0 or less forbids.
    gap
        Relative optimality gap asked for.
    """
    types = len(nodes.types)
    counts, column = np.unique(gpus, return_inverse=True)
    menu = Configurations(
        np.repeat(np.arange(types), counts.size),
        np.tile(counts, types),
        tuple((count,) for count in np.tile(counts, types).tolist()),
    )
    own = np.full((gpus.size, types, counts.size), np.nan)
    own[np.arange(gpus.size), :, column] = np.where(values > 0, values, np.nan)
    chosen = choose(nodes, menu, own.reshape(gpus.size, -1), gap)
    return np.where(chosen >= 0, menu.gpu_type[chosen], -1)


def gains(view: ClusterView, weights: Weights, lasts_s: float) -> NDArray[np.float64]:
    """Return float64 [jobs, types]: w s / max s r, 0 where a job cannot run."""
    seconds = believed_seconds(view)
    kinds = view.nodes.kind
    at = [
        kinds[held[0]] if len(held) == gpus else -1
        for held, gpus in zip(view.held, view.requested_gpus.tolist(), strict=True)
    ]
    stays = np.arange(seconds.shape[1]) == np.array(at, dtype=np.int64)[:, None]
    moved = after_restart(view, seconds, lasts_s)
    return worths(view, weights, seconds) * np.where(stays, 1.0, moved)


def worths(view: ClusterView, weights: Weights, seconds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return float64 [jobs, types]: w s / max s, given the remaining seconds on every type."""
    best = seconds.min(axis=1)
    with np.errstate(invalid="ignore"):
        relative = np.where(np.isfinite(seconds), best[:, None] / seconds, 0.0)
    return np.asarray(weights(view, best)[:, None] * relative)


def after_restart(view: ClusterView, seconds: NDArray[np.float64], lasts_s: float) -> NDArray[np.float64]:
    """Return float64 [jobs, types]: r, the share of a gain that a restart leaves; never nothing."""
    lasts = np.maximum(np.minimum(seconds, lasts_s), 1e-9)
    return np.asarray(np.maximum(_LEAST_LEFT, 1.0 - view.restart_s[:, None] / lasts))


def believed_seconds(view: ClusterView) -> NDArray[np.float64]:
    """Return float64 [jobs, types]: remaining seconds on the GPUs asked for, infinite where it cannot run."""
    seconds = np.full((view.num_jobs, len(view.nodes.types)), np.inf)
    for kind, name in enumerate(view.nodes.types):
        own = view.nodes.gpus[view.nodes.of_type(kind)]
        total, most = int(own.sum()), int(own.max(initial=0))
        for job, belief in enumerate(view.beliefs):
            gpus = int(view.requested_gpus[job])
            if gpus <= total:
                rate = belief.rate(filled(gpus, most), name)
                seconds[job, kind] = belief.remaining_progress / rate if rate > 0 else np.inf
    return seconds
