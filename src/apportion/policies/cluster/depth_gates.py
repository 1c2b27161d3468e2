"""How deep every job may be frozen this round: warm-up, the depths measured, and its accuracy budget.

The budget bounds A_j = sum_r f_jr dt_r / T_j, the frozen share of the layers averaged over the seconds a job
held GPUs. It is kept at every moment, so also at the end whenever that comes: nobody has to know T_j. What
warm-up saves is spent as soon as it pays; spreading it over the believed rest of the run was no better.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.estimation.training.freezing_profile import LEVELS
from apportion.policies.cluster.belief import profiled
from apportion.policies.cluster.cluster_view import ClusterView

__all__ = ["DepthGates"]

_OVERDRAW_S = 0.5
"""Epochs end at whole seconds, so a round may count half a second more than it has."""
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class DepthGates:
    """The rules that say how deep each job may be frozen now.

    Attributes
    ----------
    warm_up
        Share of the training before which nothing is frozen.
    deepest
        Greatest share of the layers that may be frozen; a job's own profile may end before it.
    budget
        Greatest A_j; ``None``: no such limit.
    """

    warm_up: float = 0.1
    deepest: float = 0.9
    budget: float | None = None

    def limits(self, view: ClusterView) -> NDArray[np.int64]:
        """Return int64 [jobs]: the deepest depth each may have now, 0 for a job that is not to be frozen."""
        limit = np.full(view.num_jobs, min(int(self.deepest * LEVELS + _ROUNDING), LEVELS - 1))
        for position, believed in enumerate(view.beliefs):
            belief = profiled(believed)
            if belief.freezing is None or belief.phase < self.warm_up:
                limit[position] = 0
            else:
                limit[position] = min(limit[position], belief.freezing.profile.deepest)
        if self.budget is None:
            return limit
        ahead = view.round_s + _OVERDRAW_S
        share = (self.budget * (view.attained_s + ahead) - view.frozen_s) / ahead
        return np.clip(np.floor(share * LEVELS + _ROUNDING).astype(np.int64), 0, limit)
