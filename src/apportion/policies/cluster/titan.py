"""Titan's objective (Gao et al., SoCC 2022): remaining time on a fair share over that on the chosen GPUs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.policies.cluster.cluster_view import ClusterPlan, ClusterView
from apportion.policies.cluster.configurations import (
    believed_rates,
    count_menu,
    current_configuration,
)
from apportion.policies.cluster.menu_choice import choose
from apportion.policies.cluster.place_counts import place_rest
from apportion.policies.cluster.placing import filled
from apportion.policies.cluster.whole_nodes import place_whole

__all__ = ["Titan"]

_NOTHING = 1e-4
"""Weight of getting nothing."""


@dataclass(frozen=True, slots=True)
class Titan:
    """Titan's fair objective: maximise sum w^power, w = fair remaining time / max(remaining time, round).

    Attributes
    ----------
    power
        Not 0; with a negative one the sum is minimised, and nobody waits who could run. -1 is that of the
        published simulator.
    """

    power: float = -1.0

    def __call__(self, view: ClusterView) -> ClusterPlan:
        """Decide a round."""
        menu = count_menu(view.nodes)
        rates = believed_rates(view, menu, range(view.num_jobs))
        remaining = np.array([belief.remaining_progress for belief in view.beliefs])
        # a job that ends within the round would otherwise be worth less than nothing
        fair = np.maximum(remaining / self._fair_rates(view), view.round_s)
        with np.errstate(divide="ignore"):
            seconds = np.maximum(remaining[:, None] / rates, view.round_s)
        worth = (fair[:, None] / seconds) ** self.power - _NOTHING**self.power
        values = worth if self.power > 0 else -worth
        self._keep_shortest(view, seconds, values)
        chosen = choose(view.nodes, menu, values, preferred=current_configuration(view, menu))
        gpus = np.where(chosen >= 0, menu.gpus[chosen], 0)
        whole = place_whole(view, menu.gpu_type[chosen], gpus)
        return ClusterPlan(place_rest(view, whole, gpus.tolist()))

    @staticmethod
    def _fair_rates(view: ClusterView) -> NDArray[np.float64]:
        share = max(1, view.nodes.total_gpus // view.num_jobs)
        per_node = int(view.nodes.gpus.max())
        rates = []
        for belief in view.beliefs:
            gpus = min(share, belief.max_gpus)
            rates.append(belief.rate(filled(gpus, per_node), view.nodes.types[0]))
        return np.array(rates)

    @staticmethod
    def _keep_shortest(view: ClusterView, seconds: NDArray[np.float64], values: NDArray[np.float64]) -> None:
        """With more jobs than GPUs only the shortest stay in the program."""
        if view.num_jobs > view.nodes.total_gpus:
            best = np.nanmin(np.where(np.isnan(seconds), np.inf, seconds), axis=1)
            values[np.argsort(best, kind="stable")[view.nodes.total_gpus :]] = np.nan
