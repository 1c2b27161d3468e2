"""Jobs in some order take the free GPU type on which they are believed quickest; nobody is moved.

The reading of the model-similarity policy as jobs in turn (Thanapol et al., ACIIDS 2023). Under beliefs that
tell no type from another it is first come, first served.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from apportion.cluster.policies.rounds.cluster_view import ClusterPlan, ClusterView
from apportion.cluster.policies.rounds.matching import believed_seconds
from apportion.cluster.policies.rounds.placing import free_gpus, place_by_type

__all__ = ["in_turn", "longest_in_turn"]


def in_turn(view: ClusterView) -> ClusterPlan:
    """Decide a round in order of submission; a job for which no type has room makes all later ones wait."""
    return _decided(view, believed_seconds(view), view.submitted_s)


def longest_in_turn(view: ClusterView) -> ClusterPlan:
    """Decide a round, most GPU time on its quickest type first."""
    seconds = believed_seconds(view)
    area = view.requested_gpus * seconds.min(axis=1)
    return _decided(view, seconds, np.where(np.isfinite(area), -area, np.inf))


def _decided(view: ClusterView, seconds: NDArray[np.float64], order: NDArray[np.float64]) -> ClusterPlan:
    kinds, types = view.nodes.kind, len(view.nodes.types)
    chosen = np.array([kinds[held[0]] if held else -1 for held in view.held], dtype=np.int64)
    free = free_gpus(view.nodes.gpus, view.held)
    left = np.bincount(kinds, weights=free, minlength=types)
    waiting = np.flatnonzero(chosen < 0)
    if not waiting.size or not left.any():
        return ClusterPlan(list(view.held))
    for job in waiting[np.argsort(order[waiting], kind="stable")].tolist():
        room = np.where(left >= view.requested_gpus[job], seconds[job], np.inf)
        if np.isinf(room).all():
            if np.isinf(seconds[job]).all():
                continue
            break
        # of equally quick types the emptiest
        kind = int(np.lexsort((-left, room))[0])
        chosen[job] = kind
        left[kind] -= view.requested_gpus[job]
    return ClusterPlan(place_by_type(view, chosen))
