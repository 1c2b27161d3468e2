"""The joint policy: architecture, GPU count and frozen depth of every job in one knapsack a round.

IceFrog's program (see `icefrog`) over a menu of rules: which counts a job may get is a `CountRule`, how deep
it may be frozen `DepthGates` say. A wrapper of the policy may change what is believed of speeds.

    maximise  sum_jgk A_jgk (lambda - (r_jgk EP_j(g, k) / EP_j,ref)^p),   p < 0,   at most one (g, k) a job
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from apportion.policies.cluster.cluster_view import ClusterPlan, ClusterView
from apportion.policies.cluster.configurations import (
    Configurations,
    believed_rates,
    configurations,
    current_configuration,
)
from apportion.policies.cluster.depth_gains import depth_gains, frozen_penalties
from apportion.policies.cluster.depth_gates import DepthGates
from apportion.policies.cluster.joint_counts import CountRule, elastic
from apportion.policies.cluster.menu_choice import choose
from apportion.policies.cluster.sia import moving_factor
from apportion.policies.cluster.whole_nodes import place_whole

__all__ = ["Joint"]


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
        self._weigh_rebuilds(view, current, gains)
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

    def _weigh_rebuilds(
        self, view: ClusterView, current: NDArray[np.int64], gains: NDArray[np.float64]
    ) -> None:
        """Take a rebuild's cost off every depth but the present one, on the configuration a job has now."""
        stays = np.flatnonzero(current >= 0)
        factor = np.full((stays.size, gains.shape[2]), max(1e-9, 1.0 - self.rebuild_s / view.round_s))
        factor[np.arange(stays.size), view.depth[stays]] = 1.0
        # what a gate forbids is -inf and stays so
        gains[stays, current[stays]] *= factor
