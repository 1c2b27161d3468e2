"""Any policy's GPUs, and depths chosen afterwards: freezing of which the scheduler of GPUs knows nothing."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from apportion.cluster.estimation.training.freezing_profile import LEVELS
from apportion.cluster.policies.rounds.belief import profiled
from apportion.cluster.policies.rounds.cluster_view import ClusterPlan, ClusterPolicy, ClusterView
from apportion.cluster.policies.rounds.icefrog import DepthGates, frozen_penalties
from apportion.cluster.policies.rounds.placing import run_lengths

__all__ = ["FrozenAfter"]


@dataclass(frozen=True, slots=True)
class FrozenAfter:
    """A policy whose jobs are then frozen to the depth of most effective progress where they run.

    Attributes
    ----------
    base
        Who gets which GPUs.
    gates
        How deep a job may be frozen.
    rebuild_s
        Believed standstill after a change of depth alone, weighed over the round.
    """

    base: ClusterPolicy
    gates: DepthGates = field(default_factory=DepthGates)
    rebuild_s: float = 5.0

    def __call__(self, view: ClusterView) -> ClusterPlan:
        """Decide a round."""
        nodes = self.base(view).nodes
        penalty = frozen_penalties(view, self.gates.limits(view))
        depth = np.zeros(view.num_jobs, dtype=np.int64)
        stay = max(0.0, 1.0 - self.rebuild_s / view.round_s)
        for position in np.flatnonzero(np.isfinite(penalty[:, 1:]).any(axis=1)).tolist():
            held = nodes[position]
            if not held:
                continue
            belief = profiled(view.beliefs[position])
            faster = belief.speed_by_depth(run_lengths(held), view.nodes.type_of(held))
            gains = faster * (1.0 - penalty[position])
            if held == view.held[position]:
                gains[np.arange(LEVELS) != view.depth[position]] *= stay
            depth[position] = int(np.nanargmax(gains))
        return ClusterPlan(nodes, depth)
