"""A policy whose beliefs are fitted to the speeds its jobs are seen to have."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from apportion.policies.cluster.belief import Belief, JobBelief
from apportion.policies.cluster.cluster_view import ClusterPlan, ClusterPolicy, ClusterView
from apportion.policies.cluster.placing import run_lengths
from apportion.policies.cluster.relayed_belief import Rate, relayed

__all__ = ["ObservedSpeeds"]


@dataclass(frozen=True, slots=True)
class _Seen:
    """How a job stood when a round began, and how fast it was believed to go."""

    held: tuple[int, ...]
    remaining: float
    rate: float
    time_s: float
    ready_s: float


@dataclass(slots=True)
class _Ratio:
    """Geometric mean of seen over believed speeds."""

    total: float = 0.0
    count: int = 0

    def add(self, ratio: float) -> None:
        self.total, self.count = self.total + math.log(ratio), self.count + 1

    @property
    def log(self) -> float:
        return self.total / self.count


@dataclass(slots=True)
class ObservedSpeeds:
    """A policy that corrects what it is told by what it sees, GPU type by GPU type.

    Where a job has run, the believed speed is scaled by the geometric mean of seen over believed; on a type
    it has not run on, by the geometric mean over the types it has: that is prediction from one profile,
    with the first allocation as the profile. Jobs of one application teach each other; a job known by its
    speed alone learns for itself. A round teaches nothing where the job stood still for a restart, ran
    frozen, or shared its GPUs.

    Attributes
    ----------
    policy
        Who decides from the corrected beliefs.
    """

    policy: ClusterPolicy
    _seen: dict[int, _Seen] = field(default_factory=dict)
    _ratios: dict[Hashable, dict[str, _Ratio]] = field(default_factory=dict)

    def __call__(self, view: ClusterView) -> ClusterPlan:
        """Learn from the round that ended, and decide the next."""
        jobs = view.jobs.tolist()
        for position, job in enumerate(jobs):
            self._learn(view, position, job)
        beliefs = [
            _corrected(belief, self._ratios.get(_key(belief, job), {}))
            for job, belief in zip(jobs, view.beliefs, strict=True)
        ]
        plan = self.policy(replace(view, beliefs=beliefs))
        self._remember(view, plan)
        return plan

    def _learn(self, view: ClusterView, position: int, job: int) -> None:
        seen, belief = self._seen.get(job), view.beliefs[position]
        if seen is None or view.held[position] != seen.held or not seen.rate > 0:
            return
        seconds = view.time_s - max(seen.time_s, seen.ready_s)
        made = seen.remaining - belief.remaining_progress
        if seconds > 0 and made > 0:
            known = self._ratios.setdefault(_key(belief, job), {})
            known.setdefault(view.nodes.type_of(seen.held), _Ratio()).add(made / seconds / seen.rate)

    def _remember(self, view: ClusterView, plan: ClusterPlan) -> None:
        before, self._seen = self._seen, {}
        for position, (job, held) in enumerate(zip(view.jobs.tolist(), plan.nodes, strict=True)):
            frozen = plan.depth is not None and bool(plan.depth[position])
            belief = view.beliefs[position]
            alone = isinstance(belief, JobBelief) or len(held) == view.requested_gpus[position]
            if held and alone and not frozen:
                stays = job in before and before[job].held == held == view.held[position]
                ready_s = before[job].ready_s if stays else view.time_s + float(view.restart_s[position])
                rate = belief.rate(run_lengths(held), view.nodes.type_of(held))
                self._seen[job] = _Seen(held, belief.remaining_progress, rate, view.time_s, ready_s)
        present = set(view.jobs.tolist())
        for key in [key for key in self._ratios if isinstance(key, int) and key not in present]:
            del self._ratios[key]


def _key(belief: Belief, job: int) -> Hashable:
    """Return what jobs share their observed speeds by: the application, or else the job alone."""
    return belief.application.name if isinstance(belief, JobBelief) else job


def _corrected(belief: Belief, known: Mapping[str, _Ratio]) -> Belief:
    if not known:
        return belief
    elsewhere = sum(ratio.log for ratio in known.values()) / len(known)

    def seen(rate: Rate, placement: Sequence[int], gpu_type: str) -> float:
        log = known[gpu_type].log if gpu_type in known else elsewhere
        return math.exp(log) * rate(placement, gpu_type)

    return relayed(belief, seen)
