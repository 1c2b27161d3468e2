"""The joint policy: architecture, GPU count and frozen depth of every job in one knapsack a round.

IceFrog's program (see `icefrog`) over a menu of rules: which counts a job may get is a `CountRule`, how deep
it may be frozen `DepthGates` say. A wrapper of the policy may change what is believed of speeds.

    maximise  sum_jgk A_jgk (lambda - (r_jgk EP_j(g, k) / EP_j,ref)^p),   p < 0,   at most one (g, k) a job

Which configurations of a menu a job may get: rules for how elastic its GPU count is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from apportion.cluster.policies.rounds.cluster_view import ClusterPlan, ClusterView
from apportion.cluster.policies.rounds.configurations import (
    Configurations,
    believed_rates,
    choose,
    configurations,
    current_configuration,
)
from apportion.cluster.policies.rounds.icefrog import (
    DepthGates,
    depth_gains,
    frozen_penalties,
    weigh_rebuilds,
)
from apportion.cluster.policies.rounds.placing import place_whole
from apportion.cluster.policies.rounds.sia import moving_factor, reachable

__all__ = ["CountRule", "Joint", "as_requested", "elastic"]


CountRule = Callable[[ClusterView, Configurations, NDArray[np.float64]], NDArray[np.bool_]]
"""Given a view, its menu and the rates there, bool [jobs, configurations]: what each may get."""

_NEAR = 0.6
"""Greatest log2 distance of a count that stands for the requested one: 4 and 8 stand for 6."""


def elastic(view: ClusterView, menu: Configurations, rates: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Allow at most twice the GPUs that a job holds, and one GPU to a job that holds none (Sia's rule)."""
    return reachable(view, menu)


def as_requested(view: ClusterView, menu: Configurations, rates: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Allow, on every type that has one near it, the count nearest to the requested one, or the smaller."""
    distance = np.abs(np.log2(menu.gpus) - np.log2(view.requested_gpus)[:, None])
    distance = np.where(np.isnan(rates), np.inf, distance)
    allowed = np.zeros(rates.shape, dtype=np.bool_)
    for kind in np.unique(menu.gpu_type).tolist():
        own = np.flatnonzero(menu.gpu_type == kind)
        own = own[np.argsort(menu.gpus[own], kind="stable")]
        nearest = own[np.argmin(distance[:, own], axis=1)]
        rows = np.flatnonzero(distance[np.arange(distance.shape[0]), nearest] <= _NEAR)
        allowed[rows, nearest[rows]] = True
    return allowed


@dataclass(frozen=True, slots=True)
class Joint:
    """The joint policy: architecture, GPU count and frozen depth by one knapsack a round.

    Attributes
    ----------
    counts
        Which GPU counts a job may get.
    gates
        How deep it may be frozen; ``DepthGates(deepest=0.0)`` freezes nothing.
    power, queue_penalty, gap
        The parameters of the same names of `Sia`; the power is negative.
    rebuild_s
        Believed standstill after a change of depth alone, weighed over the round.
    """

    counts: CountRule = elastic
    gates: DepthGates = field(default_factory=DepthGates)
    power: float = -0.5
    queue_penalty: float = 1.1
    gap: float = 1e-3
    rebuild_s: float = 5.0

    def __call__(self, view: ClusterView) -> ClusterPlan:
        """Decide a round."""
        menu = configurations(view.nodes)
        current = current_configuration(view, menu)
        rates = believed_rates(view, menu, range(view.num_jobs))
        rates[~self.counts(view, menu, rates)] = np.nan
        gains = depth_gains(view, menu, rates, frozen_penalties(view, self.gates.limits(view)))
        weigh_rebuilds(view, current, gains, self.rebuild_s)
        depth = gains.argmax(axis=2)
        progress = rates * gains.max(axis=2)
        chosen = choose(view.nodes, menu, self._worth(view, menu, current, progress), self.gap, current)
        runs = chosen >= 0
        nodes = place_whole(view, menu.gpu_type[chosen], np.where(runs, menu.gpus[chosen], 0))
        return ClusterPlan(nodes, np.where(runs, depth[np.arange(view.num_jobs), chosen], 0))

    def _worth(
        self,
        view: ClusterView,
        menu: Configurations,
        current: NDArray[np.int64],
        progress: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Return float64 [jobs, configurations]: worth over waiting, NaN where forbidden."""
        reference = np.nanmin(np.where(np.isnan(progress), np.inf, progress), axis=1, keepdims=True)
        factor = moving_factor(view, menu, current)
        with np.errstate(divide="ignore", invalid="ignore"):
            worth = self.queue_penalty - (factor * progress / reference) ** self.power
        return np.where(np.isfinite(worth), worth, np.nan)
