"""A policy that takes all GPU types for alike: ``TypeAgnostic(policy)``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from apportion.policies.cluster.cluster_view import ClusterPlan, ClusterPolicy, ClusterView
from apportion.policies.cluster.relayed_belief import Rate, relayed, typical

__all__ = ["TypeAgnostic"]


@dataclass(frozen=True, slots=True)
class TypeAgnostic:
    """Any policy, with every job believed equally quick on every type it can run on: in their geometric mean.

    Attributes
    ----------
    policy
        Who decides.
    """

    policy: ClusterPolicy

    def __call__(self, view: ClusterView) -> ClusterPlan:
        """Decide a round."""
        types = view.nodes.types

        def alike(rate: Rate, placement: Sequence[int], gpu_type: str) -> float:
            return typical(rate, placement, types) if rate(placement, gpu_type) > 0 else float("nan")

        return self.policy(replace(view, beliefs=[relayed(belief, alike) for belief in view.beliefs]))
