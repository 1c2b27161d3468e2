"""IceFrog that corrects what it believes of the frozen penalty by the progress its jobs really make."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

import numpy as np

from apportion.cluster.estimation.training.bootstrapped_times import ThetaEstimate
from apportion.cluster.policies.rounds.belief import BelievedFreezing, JobBelief, profiled
from apportion.cluster.policies.rounds.cluster_view import ClusterPlan, ClusterPolicy, ClusterView
from apportion.cluster.policies.rounds.icefrog import IceFrog
from apportion.cluster.policies.rounds.placing import run_lengths

__all__ = ["LearningIceFrog"]


@dataclass(frozen=True, slots=True)
class _Seen:
    """How a job stood when the last round began."""

    held: tuple[int, ...]
    depth: int
    progress: float
    rate: float
    faster: float
    penalty: float
    settled_s: float


@dataclass(slots=True)
class _Ratio:
    """Mean ratio of the rates seen to those believed, with nothing frozen."""

    total: float = 0.0
    count: int = 0

    def add(self, ratio: float) -> None:
        self.total, self.count = self.total + ratio, self.count + 1

    def mean(self) -> float:
        return self.total / self.count


@dataclass(slots=True)
class LearningIceFrog:
    """A policy over views whose penalties it replaces by its own estimate, one theta an application.

    A round in which a job stood still for a restart or a rebuild teaches nothing. What a job makes with
    nothing frozen, as it must during warm-up, corrects what is believed of its throughput first: otherwise
    that error would be taken for a penalty.

    Attributes
    ----------
    policy
        The policy that decides from the corrected beliefs.
    optimism
        Standard deviations by which the penalty is believed smaller than estimated, so that freezing is tried
        where little is known.
    rebuild_s
        Standstill after a change of depth alone.
    thetas
        The estimates so far, by application.
    """

    policy: ClusterPolicy = field(default_factory=IceFrog)
    optimism: float = 0.5
    rebuild_s: float = 5.0
    thetas: dict[str, ThetaEstimate] = field(default_factory=dict)
    _seen: dict[int, _Seen] = field(default_factory=dict)
    _throughput: dict[int, dict[tuple[str, int], _Ratio]] = field(default_factory=dict)

    def __call__(self, view: ClusterView) -> ClusterPlan:
        """Learn from the round that ended, and decide the next."""
        for position, job in enumerate(view.jobs.tolist()):
            if job in self._seen:
                self._learn(view, position, self._seen[job])
        beliefs = [self._corrected(profiled(belief)) for belief in view.beliefs]
        plan = self.policy(replace(view, beliefs=beliefs))
        depth = np.zeros(view.num_jobs, dtype=np.int64) if plan.depth is None else plan.depth
        self._seen = {
            job: self._remembered(view, position, plan.nodes[position], int(depth[position]))
            for position, job in enumerate(view.jobs.tolist())
            if plan.nodes[position]
        }
        present = set(view.jobs.tolist())
        for job in [job for job in self._throughput if job not in present]:
            del self._throughput[job]
        return plan

    def _corrected(self, belief: JobBelief) -> JobBelief:
        if belief.freezing is None:
            return belief
        known = self.thetas.setdefault(belief.application.name, ThetaEstimate(belief.freezing.theta))
        theta = max(0.0, known.mean - self.optimism * known.sd)
        return replace(belief, freezing=BelievedFreezing(belief.freezing.profile, theta))

    def _remembered(self, view: ClusterView, position: int, held: tuple[int, ...], depth: int) -> _Seen:
        """Return what is expected of a job in the round that begins."""
        belief, job = profiled(view.beliefs[position]), int(view.jobs[position])
        placement, gpu_type = run_lengths(held), view.nodes.type_of(held)
        faster, penalty = 1.0, 0.0
        if belief.freezing is not None and depth:
            faster = float(belief.speed_by_depth(placement, gpu_type)[depth])
            penalty = 1.0 - float(belief.freezing.profile.retained_at(belief.phase)[depth])
        before = self._seen.get(job)
        if before is None or held != view.held[position]:
            settled_s = -float(view.restart_s[position])
        elif depth != before.depth:
            settled_s = min(before.settled_s + view.round_s, -self.rebuild_s)
        else:
            settled_s = before.settled_s + view.round_s
        return _Seen(
            held, depth, belief.progress, belief.rate(placement, gpu_type), faster, penalty, settled_s
        )

    def _learn(self, view: ClusterView, position: int, seen: _Seen) -> None:
        """Compare the progress of the last round with what was expected of it."""
        belief = profiled(view.beliefs[position])
        if belief.freezing is None or seen.settled_s < 0 or view.held[position] != seen.held:
            return
        placement, gpu_type = run_lengths(seen.held), view.nodes.type_of(seen.held)
        expected = (seen.rate + belief.rate(placement, gpu_type)) / 2
        if not expected > 0:
            return
        ratio = (belief.progress - seen.progress) / view.round_s / expected
        ratios = self._throughput.setdefault(int(view.jobs[position]), {})
        place = (gpu_type, len(seen.held))
        if seen.depth == 0:
            ratios.setdefault(place, _Ratio()).add(ratio)
            return
        usual = ratios[place].mean() if place in ratios else _mean(ratios.values())
        self.thetas[belief.application.name].observe(1.0 - ratio / (usual * seen.faster), seen.penalty)


def _mean(ratios: Collection[_Ratio]) -> float:
    """Return the mean over configurations, 1 if nothing was seen."""
    return sum(ratio.mean() for ratio in ratios) / len(ratios) if ratios else 1.0
