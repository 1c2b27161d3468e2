"""The model-similarity policy as an instance: predicted times in, a matching out.

After Thanapol et al., "Scheduling Deep Learning Training in GPU Cluster Using the Model-Similarity-Based
Policy" (ACIIDS 2023), whose full text is not public: the prediction is ours (see
``estimation/similarity.py``), and instead of giving each job in turn the best free architecture, the
predicted times go into the exact makespan.

Three levels of information, one call: for every job a measured time where there is one, else its measured
time on any architecture scaled by predicted relative speeds, else its work at the predicted speed alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from apportion.errors import InvalidInstance, Problem
from apportion.estimation.similarity import ModelSignature, SimilarityPredictor
from apportion.instances.matching import MatchingEntry, MatchingInstance, MatchingJob, MatchingMachine

__all__ = ["TrainingJob", "model_similarity"]


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """A job to train.

    Attributes
    ----------
    id
        Unique name.
    signature
        What is known of its model.
    base_time_s
        Seconds on the base architecture, measured or declared.
    measured_s
        Seconds by architecture, as far as they were measured.
    gpus
        GPUs it holds at the same time.
    """

    id: str
    signature: ModelSignature
    base_time_s: float | None = None
    measured_s: Mapping[str, float] = field(default_factory=dict)
    gpus: int = 1


def model_similarity(
    jobs: Sequence[TrainingJob],
    pools: Mapping[str, int],
    predictor: SimilarityPredictor,
    architectures: Sequence[str],
    caution: float = 0.0,
    name: str = "",
) -> MatchingInstance:
    """Return the makespan instance of jobs whose times are measured or predicted.

    Parameters
    ----------
    jobs
        The jobs.
    pools
        GPUs by architecture.
    predictor
        Fitted on relative speeds in the order of `architectures`.
    architectures
        Names of the predictor's columns.
    caution
        Predicted times are multiplied by ``exp(caution * spread)``: 0 believes them, larger numbers discount
        uncertain ones. Measured times are never changed.
    name
        Name of the instance.

    Raises
    ------
    InvalidInstance
        If a job has neither a base time nor a measured one, or a pool is no architecture.
    """
    unknown = [pool for pool in pools if pool not in architectures]
    if unknown:
        raise InvalidInstance(
            [Problem(f"$.pools.{pool}", "is no architecture of the predictor") for pool in unknown]
        )
    column = {architecture: k for k, architecture in enumerate(architectures)}
    predictions = predictor.predict([job.signature for job in jobs])
    made: list[MatchingJob] = []
    for job, told in zip(jobs, predictions, strict=True):
        work = _work(job, told.speed, column)
        on: dict[str, MatchingEntry] = {}
        for pool, count in pools.items():
            if count < job.gpus:
                continue
            k = column[pool]
            discount = math.exp(caution * float(told.spread[k]))
            time = job.measured_s.get(pool, work / float(told.speed[k]) * discount)
            on[pool] = MatchingEntry(time_s=time, gpus=job.gpus)
        made.append(MatchingJob(id=job.id, on=on))
    machines = tuple(MatchingMachine(id=pool, count=count) for pool, count in pools.items())
    return MatchingInstance("1", "makespan", machines, tuple(made), name=name)


def _work(job: TrainingJob, speed: np.ndarray, column: Mapping[str, int]) -> float:
    """Return the seconds of the job on the base architecture, as far as anything measured says."""
    told = [
        seconds * float(speed[column[arch]]) for arch, seconds in job.measured_s.items() if arch in column
    ]
    if told:
        return float(np.exp(np.mean(np.log(told))))
    if job.base_time_s is None:
        raise InvalidInstance(Problem(f"$.jobs.{job.id}", "needs a base time or a measured one"))
    return job.base_time_s
