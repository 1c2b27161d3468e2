"""What freezing is believed to bring to every job on every configuration, depth by depth."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from apportion.estimation.training.freezing_profile import LEVELS
from apportion.policies.cluster.belief import profiled
from apportion.policies.cluster.cluster_view import ClusterView
from apportion.policies.cluster.configurations import Configurations

__all__ = ["depth_gains", "frozen_penalties"]


def frozen_penalties(view: ClusterView, limit: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return float64 [jobs, depths]: believed frozen penalty 1 - psi now; NaN beyond `limit`."""
    penalty = np.full((view.num_jobs, LEVELS), np.nan)
    penalty[:, 0] = 0.0
    for position in np.flatnonzero(limit > 0).tolist():
        depths = slice(int(limit[position]) + 1)
        penalty[position, depths] = 1.0 - profiled(view.beliefs[position]).retained_by_depth()[depths]
    return penalty


def depth_gains(
    view: ClusterView, menu: Configurations, rates: NDArray[np.float64], penalty: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return float64 [jobs, configurations, depths]: effective progress over that with nothing frozen.

    EP(k) / EP(0) = (T(0) / T(k)) x (1 - penalty(k)).

    Parameters
    ----------
    view, menu
        The round and its configurations.
    rates
        float64 [jobs, configurations]: NaN where a job cannot run; its gains are not used.
    penalty
        float64 [jobs, depths]: from `frozen_penalties`; where it is NaN the gain is -inf.
    """
    gains = np.full((*rates.shape, LEVELS), -np.inf)
    gains[:, :, 0] = 1.0
    names = [view.nodes.types[index] for index in menu.gpu_type.tolist()]
    kept = 1.0 - penalty
    for position in np.flatnonzero(np.isfinite(penalty[:, 1:]).any(axis=1)).tolist():
        belief = profiled(view.beliefs[position])
        allowed = np.isfinite(kept[position])
        for column in np.flatnonzero(np.isfinite(rates[position])).tolist():
            faster = belief.speed_by_depth(menu.placements[column], names[column])
            gains[position, column, allowed] = (faster * kept[position])[allowed]
    return gains
