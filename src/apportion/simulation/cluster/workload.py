"""The jobs of a cluster's workload: name, submission, application, requested GPUs and batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from apportion.errors import InvalidInstance, Problem
from apportion.estimation.training.application import Application
from apportion.estimation.training.numeric_csv import text_columns

__all__ = ["TrainingJob", "read_workload"]

_SHOWN = 20
_MANY = 1_000_000_000


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """One job of the workload.

    Attributes
    ----------
    name
        Unique.
    submitted_s
        Seconds since the start of the workload.
    application
        Name of its application.
    gpus
        GPUs its user asks for.
    batch
        Samples of an optimiser step its user asks for.
    """

    name: str
    submitted_s: float
    application: str
    gpus: int
    batch: int


def read_workload(path: str | Path, applications: Mapping[str, Application]) -> tuple[TrainingJob, ...]:
    """Read a CSV with columns name, time, application, num_replicas, batch_size.

    Raises
    ------
    InvalidInstance
        If the file cannot be read, a field is wrong, a name stands twice, or an application is unknown.
    """
    path = Path(path)
    problems: list[Problem] = []
    jobs: dict[str, TrainingJob] = {}
    columns = ("name", "time", "application", "num_replicas", "batch_size")
    for line, (name, time, application, gpus, batch) in text_columns(path, columns):
        where = f"{path}, line {line}"
        if application not in applications:
            known = ", ".join(applications)
            problems.append(Problem(where, f"application {application!r} has no profile; known: {known}"))
            continue
        try:
            job = TrainingJob(name, float(time), application, int(gpus), int(batch))
        except ValueError:
            problems.append(
                Problem(where, "time must be a number, num_replicas and batch_size whole numbers")
            )
            continue
        if not (0 <= job.submitted_s <= _MANY and 1 <= job.gpus <= _MANY and 1 <= job.batch <= _MANY):
            problems.append(Problem(where, "time must be at least 0, num_replicas and batch_size at least 1"))
        elif name in jobs:
            problems.append(Problem(where, f"name {name!r} stands twice"))
        jobs[name] = job
    if problems:
        raise InvalidInstance(problems[:_SHOWN])
    return tuple(jobs.values())
