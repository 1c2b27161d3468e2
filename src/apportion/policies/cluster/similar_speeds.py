"""A policy that knows of GPU types only what other applications, the like ones most, did on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from apportion.errors import InvalidInstance, Problem
from apportion.estimation.model_signature import ModelSignature
from apportion.estimation.reference_speeds import ReferenceSpeeds
from apportion.estimation.training.application import Application
from apportion.policies.cluster.belief import JobBelief, profiled
from apportion.policies.cluster.cluster_view import ClusterPlan, ClusterPolicy, ClusterView
from apportion.policies.cluster.relayed_belief import Rate, relayed, typical

__all__ = ["SimilarSpeeds", "similar_speeds"]


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
