"""Weigh nodes that come and go by how long they are expected to stay: ``LifetimeDiscount(policy, pool)``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from apportion.cluster.policies.adaptive import IdleHazard
from apportion.cluster.policies.rounds.belief import Rate, RateRule, relayed
from apportion.cluster.policies.rounds.cluster_view import ClusterPlan, ClusterPolicy, ClusterView, Nodes

__all__ = ["LifetimeDiscount"]


@dataclass(slots=True)
class LifetimeDiscount:
    """A policy that believes less of GPUs that may soon be gone, and takes the most lasting of them first.

    Nodes of the pool that come in one round leave together, with a hazard by age that is learnt online. A job
    on n nodes is hit as soon as one of their groups leaves: lambda is the sum of the hazards of the groups of
    the n most lasting nodes. A hit costs a restart S and half a round of waiting on average, and whoever
    starts there makes nothing of a spell shorter than S:

        rate' = rate x exp(-lambda S [starts there]) / (1 + lambda (S + round / 2))

    Attributes
    ----------
    policy
        Who decides, given discounted beliefs.
    pool
        Name of the GPU type whose nodes come and go.
    hazard
        What is known of them.
    """

    policy: ClusterPolicy
    pool: str
    hazard: IdleHazard = field(default_factory=IdleHazard)
    _since_s: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    _before_s: float = 0.0

    def __call__(self, view: ClusterView) -> ClusterPlan:
        """Learn who came and left, and decide the next round."""
        kind = view.nodes.types.index(self.pool)
        there = (view.nodes.kind == kind) & (view.nodes.gpus > 0)
        self._learn(view.time_s, there)
        hazard = np.where(there, self.hazard.rate(np.where(there, view.time_s - self._since_s, 0.0)), np.inf)
        order = np.lexsort((self._since_s, np.where(view.nodes.kind == kind, hazard, 0.0)))
        hits = self._hits(order[view.nodes.kind[order] == kind][: int(there.sum())], hazard)
        beliefs = [
            relayed(belief, self._rule(view, position, kind, hits))
            for position, belief in enumerate(view.beliefs)
        ]
        place = np.argsort(order)
        nodes = Nodes(view.nodes.gpus[order], view.nodes.kind[order], view.nodes.types)
        held = [tuple(place[list(gpus)].tolist()) for gpus in view.held]
        plan = self.policy(replace(view, nodes=nodes, held=held, beliefs=beliefs))
        return ClusterPlan([tuple(order[list(gpus)].tolist()) for gpus in plan.nodes], plan.depth)

    def _learn(self, now_s: float, there: NDArray[np.bool_]) -> None:
        """Book who left and who stayed since the last round."""
        if not self._since_s.size:
            self._since_s = np.full(there.size, np.nan)
        known = ~np.isnan(self._since_s)
        left = known & ~there
        self.hazard.depart(now_s - self._since_s[left])
        self.hazard.expose(self._before_s - np.unique(self._since_s[known]), now_s - self._before_s)
        self._since_s = np.where(there, np.where(known, self._since_s, now_s), np.nan)
        self._before_s = now_s

    def _hits(self, lasting: NDArray[np.int64], hazard: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return float64 [nodes + 1]: hits per second of a job on so many of the most lasting nodes."""
        first = np.zeros(lasting.size, dtype=np.bool_)
        first[np.unique(self._since_s[lasting], return_index=True)[1]] = True
        return np.concatenate(([0.0], np.cumsum(np.where(first, hazard[lasting], 0.0))))

    def _rule(self, view: ClusterView, position: int, kind: int, hits: NDArray[np.float64]) -> RateRule:
        restart_s, held = float(view.restart_s[position]), view.held[position]
        starting_s = 0.0 if held and view.nodes.kind[held[0]] == kind else restart_s
        lost_s = restart_s + view.round_s / 2

        def discounted(rate: Rate, placement: Sequence[int], gpu_type: str) -> float:
            speed = rate(placement, gpu_type)
            if gpu_type != self.pool:
                return speed
            each = float(hits[min(len(placement), hits.size - 1)])
            return speed * math.exp(-each * starting_s) / (1.0 + each * lost_s)

        return discounted
