"""A policy that decides for waiting jobs only: who runs stays where it is until it is done."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from apportion.cluster.policies.rounds.cluster_view import ClusterPlan, ClusterPolicy, ClusterView, Nodes
from apportion.cluster.policies.rounds.placing import free_gpus

__all__ = ["WithoutMoves"]


@dataclass(frozen=True, slots=True)
class WithoutMoves:
    """Another policy, shown the jobs that wait and the GPUs that are free.

    Attributes
    ----------
    policy
        Who decides for them.
    """

    policy: ClusterPolicy

    def __call__(self, view: ClusterView) -> ClusterPlan:
        """Decide a round."""
        nodes = list(view.held)
        free = free_gpus(view.nodes.gpus, nodes)
        waiting = np.flatnonzero([not held for held in view.held])
        if not waiting.size or not free.any():
            return ClusterPlan(nodes)
        arrays = (
            "jobs",
            "submitted_s",
            "requested_gpus",
            "depth",
            "attained_s",
            "attained_gpu_s",
            "restarts",
        )
        shown = replace(
            view,
            nodes=Nodes(free, view.nodes.kind, view.nodes.types),
            held=[()] * waiting.size,
            beliefs=[view.beliefs[position] for position in waiting.tolist()],
            claims=None,
            frozen_s=view.frozen_s[waiting],
            restart_s=view.restart_s[waiting],
            **{name: getattr(view, name)[waiting] for name in arrays},
        )
        for position, given in zip(waiting.tolist(), self.policy(shown).nodes, strict=True):
            nodes[position] = given
        return ClusterPlan(nodes)
