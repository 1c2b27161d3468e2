"""Sia (Jayaram Subramanya et al., SOSP 2023): goodput-optimised configurations, one integer program a round.

    maximise  sum_ij A_ij G_ij^p + lambda sum_i (||A_i|| - 1)      (p < 0: minimise, with -lambda for +lambda)

with G the goodput over the least of its row, times the restart factor where the configuration changes.

Titan's objective (Gao et al., SoCC 2022): remaining time on a fair share over that on the chosen GPUs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.cluster.policies.rounds.cluster_view import ClusterPlan, ClusterView
from apportion.cluster.policies.rounds.configurations import (
    Configurations,
    believed_rates,
    choose,
    configurations,
    count_menu,
    current_configuration,
)
from apportion.cluster.policies.rounds.placing import filled, place_rest, place_whole

__all__ = ["Sia", "Titan", "reachable", "restart_factor"]


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


@dataclass(frozen=True, slots=True)
class Sia:
    """Sia's policy.

    Attributes
    ----------
    power
        The fairness knob p, not 0.
    queue_penalty
        Lambda, what a waiting job costs.
    gap
        Relative optimality gap of a round.
    first_start_counts
        Whether the restart factor counts a job's first start; in the published simulator it does not.
    """

    power: float = -0.5
    queue_penalty: float = 1.1
    gap: float = 1e-4
    first_start_counts: bool = True

    def __call__(self, view: ClusterView) -> ClusterPlan:
        """Decide a round."""
        menu = configurations(view.nodes)
        rates = believed_rates(view, menu, range(view.num_jobs))
        current = current_configuration(view, menu)
        rates[~reachable(view, menu)] = np.nan
        least = np.nanmin(np.where(np.isnan(rates), np.inf, rates), axis=1, keepdims=True)
        goodput = rates / least
        goodput *= moving_factor(view, menu, current, self.first_start_counts)
        with np.errstate(divide="ignore"):
            worth = goodput**self.power
        worth[~np.isfinite(worth)] = np.nan
        values = self.queue_penalty + (worth if self.power > 0 else -worth)
        chosen = choose(view.nodes, menu, values, self.gap, current)
        runs = chosen >= 0
        gpus = np.where(runs, menu.gpus[chosen], 0)
        return ClusterPlan(place_whole(view, menu.gpu_type[chosen], gpus))


def restart_factor(view: ClusterView, first_start_counts: bool = True) -> NDArray[np.float64]:
    """Return float64 [jobs]: (T - N S) / (T + S), at least 0, of age T, restarts N and restart seconds S."""
    waited_s = view.time_s - view.submitted_s
    restarts = view.restarts if first_start_counts else np.maximum(view.restarts - 1, 0)
    lost = restarts * view.restart_s
    return np.asarray(np.maximum(waited_s - lost, 0.0) / np.maximum(waited_s + view.restart_s, 1e-9))


def moving_factor(
    view: ClusterView, menu: Configurations, current: NDArray[np.int64], first_start_counts: bool = True
) -> NDArray[np.float64]:
    """Return float64 [jobs, configurations]: the restart factor where a running job would move, else 1.

    `current` is int64 [jobs]: the configuration that each job has, -1 for none on the menu.
    """
    moved = np.arange(menu.gpus.size) != current[:, None]
    running = np.array([bool(held) for held in view.held])
    return np.where(moved & running[:, None], restart_factor(view, first_start_counts)[:, None], 1.0)


def reachable(view: ClusterView, menu: Configurations) -> NDArray[np.bool_]:
    """Return bool [jobs, configurations]: at most twice the GPUs a job holds; one GPU if it holds none."""
    held = np.array([max(1, 2 * len(held)) for held in view.held], dtype=np.int64)
    return np.asarray(menu.gpus <= held[:, None])
