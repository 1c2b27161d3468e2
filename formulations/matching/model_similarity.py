"""The model-similarity policy as an instance: predicted times in, a matching out.

After Thanapol et al., "Scheduling Deep Learning Training in GPU Cluster Using the Model-Similarity-Based
Policy" (ACIIDS 2023), whose full text is not public: the prediction is ours (see
``estimation/similarity.py``), and instead of giving each job in turn the best free architecture, the
predicted times go into the exact makespan.

One call, three levels of information; W_j is the work, s_ja the predicted speed, m_jb a measured time:

================  ==========================================================================================
``similarity``    unknown jobs: t_ja = W_j / s_ja
``profiled``      measured on some architecture b: t_ja = m_jb * (s_jb / s_ja), the mean over all such b
``oracle``        t_ja = m_ja, measured everywhere
``available``     job by job the best there is: what was measured as it is, the rest profiled, else by
                  similarity
================  ==========================================================================================

The robust variant discounts what is uncertain: a predicted time is multiplied by exp(caution * spread), a
measured one never is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from apportion.choices import one_of
from apportion.errors import InvalidInstance, InvalidOption, Problem
from apportion.estimation.model_signature import ModelSignature
from apportion.estimation.reference_speeds import ReferenceSpeeds
from apportion.instances.matching import MatchingEntry, MatchingInstance, MatchingJob, MatchingMachine

__all__ = ["Information", "TrainingJob", "believed_times", "model_similarity"]

Information = Literal["available", "similarity", "profiled", "oracle"]
_LEVELS = ("available", "similarity", "profiled", "oracle")


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """A job to train.

    Attributes
    ----------
    id
        Unique name.
    signature
        What is known of its model.
    work
        How much there is to do, in the unit of the reference speeds: samples where they are samples per
        second, seconds on the base architecture where they are relative to it. Absent where only times were
        measured.
    measured_s
        Seconds the whole job takes by architecture, as far as that was measured.
    gpus
        GPUs it holds at the same time.
    """

    id: str
    signature: ModelSignature
    work: float | None = None
    measured_s: Mapping[str, float] = field(default_factory=dict)
    gpus: int = 1


def model_similarity(
    jobs: Sequence[TrainingJob],
    pools: Mapping[str, int],
    reference: ReferenceSpeeds,
    information: Information = "available",
    caution: float = 0.0,
    name: str = "",
) -> MatchingInstance:
    """Return the makespan instance of jobs whose times are predicted or measured.

    Parameters
    ----------
    jobs
        The jobs.
    pools
        GPUs by architecture. A job that needs more GPUs than a pool has cannot run there.
    reference
        Known models and their speeds on these architectures.
    information
        What may be used of the jobs; see the module.
    caution
        Weight of uncertainty: 0 believes predictions, larger numbers discount uncertain ones.
    name
        Name of the instance.

    Raises
    ------
    InvalidInstance
        If a job lacks what its level of information needs, or a pool is no architecture of the reference.
    InvalidOption
        If there is no such level, or `caution` is negative or not finite.

    Examples
    --------
    >>> import apportion
    >>> from apportion.estimation.model_signature import ModelSignature
    >>> from apportion.estimation.reference_speeds import ReferenceSpeeds
    >>> known = [ModelSignature("vgg16", "vgg"), ModelSignature("densenet121", "densenet")]
    >>> reference = ReferenceSpeeds(known, [[100.0, 390.0], [200.0, 240.0]], ["titan", "a100"])
    >>> jobs = [
    ...     TrainingJob("new-vgg", ModelSignature("vgg19", "vgg"), work=39000.0),
    ...     TrainingJob("new-densenet", ModelSignature("densenet169", "densenet"), work=24000.0),
    ... ]
    >>> instance = model_similarity(jobs, {"titan": 1, "a100": 1}, reference, "similarity")
    >>> apportion.solve(instance).require()["assignment"]
    {'new-vgg': 'a100', 'new-densenet': 'titan'}
    """
    times = believed_times(jobs, tuple(pools), reference, information, caution)
    made = []
    for job, row in zip(jobs, times.tolist(), strict=True):
        on = {
            pool: MatchingEntry(time_s=time, gpus=job.gpus)
            for (pool, count), time in zip(pools.items(), row, strict=True)
            if job.gpus <= count and not math.isnan(time)
        }
        made.append(MatchingJob(id=job.id, on=on))
    machines = tuple(MatchingMachine(id=pool, count=count) for pool, count in pools.items())
    return MatchingInstance("1", "makespan", machines, tuple(made), name=name)


def believed_times(
    jobs: Sequence[TrainingJob],
    pools: Sequence[str],
    reference: ReferenceSpeeds,
    information: Information = "available",
    caution: float = 0.0,
) -> NDArray[np.float64]:
    """Return float64 [jobs, pools]: seconds as believed; NaN where nothing is known of a pair.

    The parameters and errors are those of `model_similarity`.
    """
    one_of("information", information, _LEVELS)
    if not (math.isfinite(caution) and caution >= 0):
        raise InvalidOption(f"caution must be a finite number >= 0, not {caution!r}")
    column = {name: k for k, name in enumerate(reference.architectures)}
    unknown = [pool for pool in pools if pool not in column]
    if unknown:
        raise InvalidInstance(
            [Problem(f"$.pools.{pool}", "is no architecture of the reference") for pool in unknown]
        )
    problems = list(_lacking(jobs, pools, column, information))
    if problems:
        raise InvalidInstance(problems)
    profiled = [
        k
        for k, job in enumerate(jobs)
        if information != "similarity" and any(name in column for name in job.measured_s)
    ]
    rest = sorted(set(range(len(jobs))).difference(profiled))
    predicted = np.full((len(jobs), len(column)), np.nan)
    if information != "oracle":
        for rows, predict in ((rest, _by_work), (profiled, _by_profile)):
            if rows:
                predicted[rows] = predict([jobs[k] for k in rows], reference, column, caution)
    times = predicted[:, [column[pool] for pool in pools]]
    if information != "similarity":
        for row, job in enumerate(jobs):
            for k, pool in enumerate(pools):
                times[row, k] = job.measured_s.get(pool, times[row, k])
    return times


def _lacking(
    jobs: Sequence[TrainingJob], pools: Sequence[str], column: Mapping[str, int], information: Information
) -> Iterator[Problem]:
    """Yield what jobs lack for a level of information, and what is no time."""
    for job in jobs:
        where = f"$.jobs.{job.id}"
        given = {f"measured_s.{name}": time for name, time in job.measured_s.items()}
        given |= {} if job.work is None else {"work": job.work}
        for name, value in given.items():
            if not (math.isfinite(value) and value > 0):
                yield Problem(f"{where}.{name}", f"must be a positive finite number, not {value!r}")
        measured = any(name in column for name in job.measured_s)
        if information == "similarity" and job.work is None:
            yield Problem(f"{where}.work", "is needed where nothing was measured")
        elif information == "profiled" and not measured:
            yield Problem(f"{where}.measured_s", f"needs a time on one of {', '.join(column)}")
        elif information == "available" and job.work is None and not measured:
            yield Problem(where, "needs its work or a measured time")
        elif information == "oracle":
            for pool in pools:
                if pool not in job.measured_s:
                    yield Problem(f"{where}.measured_s.{pool}", "is needed by the oracle")


def _by_work(
    jobs: Sequence[TrainingJob], reference: ReferenceSpeeds, column: Mapping[str, int], caution: float
) -> NDArray[np.float64]:
    speed, spread = reference.predict([job.signature for job in jobs])
    work = np.array([job.work for job in jobs], dtype=np.float64)
    return np.asarray(work[:, None] / speed * np.exp(caution * spread), dtype=np.float64)


def _by_profile(
    jobs: Sequence[TrainingJob], reference: ReferenceSpeeds, column: Mapping[str, int], caution: float
) -> NDArray[np.float64]:
    """Return measured times over speeds relative to where they were measured, in the geometric mean."""
    shape = (len(jobs), len(column))
    total, count = np.zeros(shape), np.zeros(shape)
    for base in column:
        rows = [k for k, job in enumerate(jobs) if base in job.measured_s]
        speed, spread = reference.predict([jobs[k].signature for k in rows], base)
        measured = np.array([jobs[k].measured_s[base] for k in rows], dtype=np.float64)
        seconds = np.log(measured)[:, None] - np.log(speed) + caution * spread
        known = ~np.isnan(seconds)
        total[rows] += np.where(known, seconds, 0.0)
        count[rows] += known
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.exp(total / count), dtype=np.float64)
