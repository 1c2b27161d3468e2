"""Policies that learn how fast their jobs are: from one GPU, from what was seen, from applications alike.

`Bootstrapped` knows its jobs on one GPU of every type, as Sia does, `ObservedSpeeds` fits its beliefs to the
speeds that are seen, `SimilarSpeeds` knows of GPU types only what other applications, the like ones most, did
on them, and ``TypeAgnostic(policy)`` takes all types for alike.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from apportion.cluster.estimation.model_similarity import ReferenceSpeeds
from apportion.cluster.estimation.similarity import ModelSignature
from apportion.cluster.estimation.training.application import Application, GoodputTable
from apportion.cluster.estimation.training.step_times import BootstrappedTimes, smallest_rotation
from apportion.cluster.policies.rounds.belief import (
    Belief,
    JobBelief,
    Rate,
    RememberedBelief,
    profiled,
    relayed,
    typical,
)
from apportion.cluster.policies.rounds.cluster_view import ClusterPlan, ClusterPolicy, ClusterView
from apportion.cluster.policies.rounds.placing import run_lengths
from apportion.core.errors import InvalidInstance, Problem

__all__ = ["Bootstrapped", "ObservedSpeeds", "SimilarSpeeds", "TypeAgnostic", "similar_speeds"]


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


@dataclass(frozen=True, slots=True)
class SimilarSpeeds:
    """Any policy, with the speeds of GPU types relative to each other predicted.

    A job's scaling over GPUs is believed as it is, and so is its geometric mean over the GPU types; how the
    types differ is not, it is taken from `relative`.

    Attributes
    ----------
    policy
        Who decides.
    relative
        By application, the predicted speed on every GPU type; only their ratios count.
    """

    policy: ClusterPolicy
    relative: Mapping[str, Mapping[str, float]]

    def __call__(self, view: ClusterView) -> ClusterPlan:
        """Decide a round."""
        beliefs = [self._believed(profiled(belief), view.nodes.types) for belief in view.beliefs]
        return self.policy(replace(view, beliefs=beliefs))

    def _believed(self, belief: JobBelief, types: Sequence[str]) -> JobBelief:
        relative = self.relative[belief.application.name]

        def predicted(rate: Rate, placement: Sequence[int], gpu_type: str) -> float:
            if not rate(placement, gpu_type) > 0:
                return float("nan")
            return relative[gpu_type] * typical(
                lambda placed, name: rate(placed, name) / relative[name], placement, types
            )

        return profiled(relayed(belief, predicted))


def similar_speeds(
    applications: Mapping[str, Application],
    types: Sequence[str],
    signatures: Mapping[str, ModelSignature],
) -> dict[str, dict[str, float]]:
    """Predict how GPU types differ for every application from all others, by `ReferenceSpeeds`.

    Parameters
    ----------
    applications
        Measured profiles by name. A prediction leaves its own application out.
    types
        GPU types to predict.
    signatures
        What is known of the applications without running them; one that is missing is known by its name and
        its initial batch.

    Returns
    -------
    dict
        By application and type, relative to the application's geometric mean over the types.

    Raises
    ------
    InvalidInstance
        If no other application was measured on a type.
    """
    names = sorted(applications)
    speeds = np.array([[_speed(applications[name], kind) for kind in types] for name in names])
    measured = ~np.isnan(speeds)
    logs = np.where(measured, np.log(np.where(measured, speeds, 1.0)), 0.0)
    speeds /= np.exp(logs.sum(axis=1) / np.maximum(measured.sum(axis=1), 1))[:, None]
    described = [signatures.get(name, _by_name(applications[name])) for name in names]
    predicted = {}
    for row, name in enumerate(names):
        others = [other for other in range(len(names)) if other != row and measured[other].any()]
        for column, kind in enumerate(types):
            if not measured[others, column].any():
                message = f"no other application was measured on {kind}, so nothing is similar there"
                raise InvalidInstance(Problem(name, message))
        known = ReferenceSpeeds([described[other] for other in others], speeds[others], types)
        speed, _ = known.predict([described[row]])
        predicted[name] = dict(zip(types, speed[0].tolist(), strict=True))
    return predicted


def _speed(application: Application, gpu_type: str) -> float:
    """Return the progress per second on one GPU with the initial batch, NaN where it was not measured."""
    belief = JobBelief(application, application.initial_batch, epoch=0, progress=0.0)
    return belief.rate((1,), gpu_type)


def _by_name(application: Application) -> ModelSignature:
    return ModelSignature(application.name, application.name, batch=float(application.initial_batch))


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


_Places = dict[str, frozenset[tuple[int, ...]]]


@dataclass(frozen=True, slots=True)
class _Believed:
    """What is believed of an application by a job that has seen so much; jobs alike share it."""

    application: Application
    goodput: GoodputTable
    known: dict[Any, Any]


@dataclass(slots=True)
class Bootstrapped:
    """A policy whose jobs were measured on one GPU of every type before they start.

    A job that made progress in a round teaches itself, and nobody else, the times of the placement it had.
    Its gradient statistics are known.

    Attributes
    ----------
    policy
        Who decides from the believed times.
    """

    policy: ClusterPolicy
    _seen: dict[int, _Places] = field(default_factory=dict)
    _stood: dict[int, tuple[tuple[int, ...], float]] = field(default_factory=dict)
    _believed: dict[Any, _Believed] = field(default_factory=dict)

    def __call__(self, view: ClusterView) -> ClusterPlan:
        """Learn from the round that ended, and decide the next."""
        before, self._believed = self._believed, {}
        beliefs = []
        for position, job in enumerate(view.jobs.tolist()):
            belief = profiled(view.beliefs[position])
            self._learn(view, position, job, belief.remaining_progress)
            beliefs.append(self._bootstrapped(belief, self._seen.get(job, {}), before))
        plan = self.policy(replace(view, beliefs=beliefs))
        self._stood = {
            job: (held, belief.remaining_progress)
            for job, held, belief in zip(view.jobs.tolist(), plan.nodes, beliefs, strict=True)
        }
        self._seen = {job: seen for job, seen in self._seen.items() if job in self._stood}
        return plan

    def _learn(self, view: ClusterView, position: int, job: int, remaining: float) -> None:
        held = view.held[position]
        stood = self._stood.get(job)
        if stood is None or len(held) < 2 or stood[0] != held or remaining >= stood[1]:
            return
        name, place = view.nodes.type_of(held), smallest_rotation(run_lengths(held))
        seen = self._seen.setdefault(job, {})
        seen[name] = seen.get(name, frozenset()) | {place}

    def _bootstrapped(
        self, belief: JobBelief, seen: _Places, before: Mapping[Any, _Believed]
    ) -> RememberedBelief:
        application = belief.application
        key = (application.name, belief.goodput is None and belief.batch, frozenset(seen.items()))
        made = self._believed.get(key) or before.get(key)
        if made is None:
            truth = application.step_times
            times = {name: BootstrappedTimes(name, truth, seen) for name in truth}
            believed = replace(application, step_times=times)
            made = _Believed(believed, GoodputTable(believed), {})
        self._believed[key] = made
        errors = belief.errors if isinstance(belief, RememberedBelief) else None
        own = JobBelief(
            application=made.application,
            batch=belief.batch,
            epoch=belief.epoch,
            progress=belief.progress,
            goodput=None if belief.goodput is None else made.goodput,
            freezing=belief.freezing,
        )
        return RememberedBelief.of(own, made.known, errors)
