"""Pollux (Qiao et al., OSDI 2021): the power mean of speed-ups over a fair share, maximised exactly.

    fitness = ((1/J) sum_j (SPEEDUP_j + 1e-3)^p)^(1/p),   p = -1,
    SPEEDUP_j = goodput_j / goodput_j(fair share) x max(age - restarts S, 0) / (age + S) where it changes

The published search is genetic, over job x node matrices. For p < 0 the fitness rises as its sum falls, and
the sum is separable: over counts it is a multiple-choice knapsack.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.policies.cluster.cluster_view import ClusterPlan, ClusterView
from apportion.policies.cluster.configurations import believed_rates, count_menu, current_configuration
from apportion.policies.cluster.menu_choice import choose
from apportion.policies.cluster.place_counts import place_rest
from apportion.policies.cluster.placing import filled
from apportion.policies.cluster.sia import restart_factor
from apportion.policies.cluster.whole_nodes import place_whole

__all__ = ["Pollux", "fair_rates"]

_FLOOR = 1e-3


@dataclass(frozen=True, slots=True)
class Pollux:
    """Pollux' policy with an exact search.

    Attributes
    ----------
    power
        The fairness knob p, negative.
    """

    power: float = -1.0

    def __call__(self, view: ClusterView) -> ClusterPlan:
        """Decide a round."""
        menu = count_menu(view.nodes)
        speedup = believed_rates(view, menu, range(view.num_jobs)) / fair_rates(view)[:, None]
        current = current_configuration(view, menu)
        changed = np.arange(menu.gpus.size) != current[:, None]
        speedup *= np.where(changed, restart_factor(view)[:, None], 1.0)
        # less than the same sum with everybody waiting
        values = _FLOOR**self.power - (speedup + _FLOOR) ** self.power
        chosen = choose(view.nodes, menu, values, preferred=current)
        gpus = np.where(chosen >= 0, menu.gpus[chosen], 0)
        whole = place_whole(view, menu.gpu_type[chosen], gpus)
        return ClusterPlan(place_rest(view, whole, gpus.tolist()))


def fair_rates(view: ClusterView) -> NDArray[np.float64]:
    """Return float64 [jobs]: goodput on an equal share of the GPUs, at least one.

    Of a share on which a job was not measured, or cannot run, it is that on the most GPUs below it.
    """
    share = max(1, view.nodes.total_gpus // view.num_jobs)
    per_node = int(view.nodes.gpus.max())
    return np.array(
        [
            next(
                (
                    rate
                    for count in range(min(share, belief.max_gpus), 0, -1)
                    if (rate := belief.rate(filled(count, per_node), view.nodes.types[0])) > 0
                ),
                np.nan,
            )
            for belief in view.beliefs
        ]
    )
