"""Which configurations of a menu a job may get: rules for how elastic its GPU count is."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from apportion.policies.cluster.cluster_view import ClusterView
from apportion.policies.cluster.configurations import Configurations
from apportion.policies.cluster.sia import reachable

__all__ = ["CountRule", "as_requested", "elastic"]

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
