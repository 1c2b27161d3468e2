"""A policy that knows its jobs on one GPU of every type and learns how they scale: Sia's beliefs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from apportion.estimation.training.application import Application
from apportion.estimation.training.bootstrapped_times import BootstrappedTimes
from apportion.estimation.training.goodput import GoodputTable
from apportion.estimation.training.step_times import smallest_rotation
from apportion.policies.cluster.belief import JobBelief, profiled
from apportion.policies.cluster.cluster_view import ClusterPlan, ClusterPolicy, ClusterView
from apportion.policies.cluster.placing import run_lengths
from apportion.policies.cluster.remembered_belief import RememberedBelief

__all__ = ["Bootstrapped"]

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
