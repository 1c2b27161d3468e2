"""A policy whose beliefs are corrected by the speeds its jobs are seen to have."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from apportion.policies.cluster.belief import Belief
from apportion.policies.cluster.cluster_view import ClusterPlan, ClusterPolicy, ClusterView
from apportion.policies.cluster.placing import filled
from paper_repro.joint.policies.relayed_belief import Rate, relayed

__all__ = ["ObservedSpeeds"]


@dataclass(frozen=True, slots=True)
class _Seen:
    """How a job stood when a round began."""

    held: tuple[int, ...]
    remaining: float
    time_s: float
    ready_s: float


@dataclass(slots=True)
class ObservedSpeeds:
    """A policy for jobs that run on the GPUs they asked for, with what was seen of them.

    Where a job has run its speed is known. Elsewhere the belief is scaled by the geometric mean of the seen
    over the believed speeds: that is prediction from one profile, with the first allocation as the profile. A
    job that shares its GPU teaches nothing.

    Attributes
    ----------
    policy
        Who decides.
    """

    policy: ClusterPolicy
    _seen: dict[int, _Seen] = field(default_factory=dict)
    _speeds: dict[int, dict[str, float]] = field(default_factory=dict)

    def __call__(self, view: ClusterView) -> ClusterPlan:
        """Learn from the round that ended, and decide the next."""
        jobs = view.jobs.tolist()
        for position, job in enumerate(jobs):
            self._learn(view, position, job)
        beliefs = [
            _corrected(belief, self._speeds[job]) if job in self._speeds else belief
            for job, belief in zip(jobs, view.beliefs, strict=True)
        ]
        plan = self.policy(replace(view, beliefs=beliefs))
        self._remember(view, plan)
        return plan

    def _learn(self, view: ClusterView, position: int, job: int) -> None:
        seen = self._seen.get(job)
        if (
            seen is None
            or view.held[position] != seen.held
            or len(seen.held) != view.requested_gpus[position]
        ):
            return
        seconds = view.time_s - max(seen.time_s, seen.ready_s)
        made = seen.remaining - view.beliefs[position].remaining_progress
        if seconds > 0 and made > 0:
            self._speeds.setdefault(job, {})[view.nodes.type_of(seen.held)] = made / seconds

    def _remember(self, view: ClusterView, plan: ClusterPlan) -> None:
        before, self._seen = self._seen, {}
        for position, (job, held) in enumerate(zip(view.jobs.tolist(), plan.nodes, strict=True)):
            if held:
                stays = job in before and before[job].held == held == view.held[position]
                ready_s = before[job].ready_s if stays else view.time_s + float(view.restart_s[position])
                remaining = view.beliefs[position].remaining_progress
                self._seen[job] = _Seen(held, remaining, view.time_s, ready_s)
        present = set(view.jobs.tolist())
        for job in self._speeds.keys() - present:
            del self._speeds[job]


def _corrected(belief: Belief, speeds: Mapping[str, float]) -> Belief:
    gpus = belief.max_gpus
    told = {name: belief.rate(filled(gpus, gpus), name) for name in speeds}
    ratios = [math.log(speeds[name] / rate) for name, rate in told.items() if rate > 0]
    scale = math.exp(sum(ratios) / len(ratios)) if ratios else 1.0

    def seen(rate: Rate, placement: Sequence[int], gpu_type: str) -> float:
        if sum(placement) == gpus and gpu_type in speeds:
            return speeds[gpu_type]
        return scale * rate(placement, gpu_type)

    return relayed(belief, seen)
