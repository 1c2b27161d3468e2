"""IceFrog's idea in rounds: GPUs and frozen depth chosen together for effective progress.

Gao et al., TPDS 36(6), 2025; the exact published policy is not public. Here: of every configuration the depth
with the greatest effective progress EP = throughput x efficiency x (1 - frozen penalty) within the job's
gates; then Sia's program over the configurations. Without a budget that couples jobs this is exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.estimation.training.freezing_profile import LEVELS
from apportion.policies.cluster.configurations import (
    Configurations,
    believed_rates,
    configurations,
    current_configuration,
)
from apportion.policies.cluster.menu_choice import choose
from apportion.policies.cluster.sia import reachable, restart_factor
from apportion.policies.cluster.view import ClusterPlan, ClusterView
from apportion.policies.cluster.whole_nodes import place_whole

__all__ = ["IceFrog"]


@dataclass(frozen=True, slots=True)
class IceFrog:
    """The policy.

    Attributes
    ----------
    power, queue_penalty, gap
        As of Sia.
    warm_up
        Share of the training before which nothing is frozen.
    deepest
        Greatest share of the layers that may be frozen.
    budget
        Greatest share of a job's running time, weighted by the frozen share; ``None``: no such limit.
    """

    power: float = -0.5
    queue_penalty: float = 1.1
    gap: float = 1e-4
    warm_up: float = 0.1
    deepest: float = 0.9
    budget: float | None = None

    def __call__(self, view: ClusterView) -> ClusterPlan:
        """Decide a round."""
        menu = configurations(view.nodes)
        rates = believed_rates(view, menu, range(view.num_jobs))
        current = current_configuration(view, menu)
        rates[~reachable(view, menu)] = np.nan
        least = np.nanmin(np.where(np.isnan(rates), np.inf, rates), axis=1, keepdims=True)
        progress, depth = self._best_depth(view, menu, rates)
        changed = np.arange(menu.gpus.size) != current[:, None]
        running = np.array([bool(held) for held in view.held])
        progress *= np.where(changed & running[:, None], restart_factor(view)[:, None], 1.0)
        with np.errstate(divide="ignore"):
            worth = (progress / least) ** self.power
        worth[~np.isfinite(worth)] = np.nan
        values = self.queue_penalty + (worth if self.power > 0 else -worth)
        chosen = choose(view.nodes, menu, values, self.gap, current)
        runs = chosen >= 0
        gpus = np.where(runs, menu.gpus[chosen], 0)
        nodes = place_whole(view, menu.gpu_type[chosen], gpus)
        frozen = np.where(runs, depth[np.arange(view.num_jobs), chosen], 0)
        return ClusterPlan(nodes, frozen)

    def _best_depth(
        self, view: ClusterView, menu: Configurations, rates: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return effective progress and depth, [jobs, configurations] each."""
        progress, depth = rates.copy(), np.zeros(rates.shape, dtype=np.int64)
        names = [view.nodes.types[index] for index in menu.gpu_type.tolist()]
        for position in range(view.num_jobs):
            belief = view.beliefs[position]
            limit = self._limit(view, position)
            if limit == 0 or belief.freezing is None:
                continue
            kept = belief.retained_by_depth()[: limit + 1]
            for column in np.flatnonzero(np.isfinite(rates[position])).tolist():
                gains = belief.speed_by_depth(menu.placements[column], names[column])[: limit + 1] * kept
                best = int(np.argmax(gains))
                progress[position, column] *= gains[best]
                depth[position, column] = best
        return progress, depth

    def _limit(self, view: ClusterView, position: int) -> int:
        """Return the deepest depth the job's gates allow now."""
        if view.beliefs[position].phase < self.warm_up:
            return 0
        limit = int(self.deepest * LEVELS + 1e-9)
        if self.budget is None:
            return min(limit, LEVELS - 1)
        # what the whole run may freeze, if the round were its last
        attained = float(view.attained_s[position]) + view.round_s
        left = self.budget * attained - float(view.frozen_s[position])
        return max(0, min(limit, LEVELS - 1, int(left / view.round_s * LEVELS + 1e-9)))
