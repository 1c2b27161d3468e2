"""The eight workloads of Pollux' artifact, drawn again from Philly's jobs by its authors' rule.

Rule and seeds are those of the artifact of Qiao et al., OSDI 2021 (``simulator`` of petuum/adaptdl): 160 jobs
of at least a minute and under 1,000 GPU-hours that Philly's users submitted within eight hours of a day; GPU
time decides the application, and its user asks for one of the counts at which it reaches 50 to 80 % of a
linear speed-up. Seed n gives workload n, to the byte (a test holds it for those at hand).
"""

from __future__ import annotations

import csv
import gzip
import io
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from types import MappingProxyType

import numpy as np

from apportion.cluster.simulation.rounds.scenario import TrainingJob

__all__ = ["PhillyJob", "drawn", "read_philly"]

_JOBS, _FROM, _WITHIN = 160, timedelta(hours=2), 8
_HOUR_S = 3600.0
_ASKED: Mapping[str, Sequence[tuple[int, int]]] = MappingProxyType(
    {
        "bert": ((6, 384), (8, 384), (12, 384), (16, 384)),
        "cifar10": ((6, 2048), (8, 2048), (12, 4096), (16, 4096)),
        "deepspeech2": ((6, 320), (8, 320), (12, 640)),
        "imagenet": ((24, 3200), (32, 6400), (48, 6400)),
        "ncf": ((1, 32768),),
        "yolov3": ((4, 64),),
    }
)
"""GPUs and batch that a user may ask for, by application."""


@dataclass(frozen=True, slots=True)
class PhillyJob:
    """A job of the log that may be drawn.

    Attributes
    ----------
    submitted_s
        Seconds since the workload's start.
    gpu_s
        GPU-seconds.
    """

    submitted_s: int
    gpu_s: float


def read_philly(path: Path) -> list[PhillyJob]:
    """Return the jobs that may be drawn, in the order of the artifact's ``traces/philly.csv``, gzipped."""
    jobs = []
    with gzip.open(path, "rb") as packed:
        for row in csv.DictReader(io.TextIOWrapper(packed, encoding="utf-8")):
            at = datetime.fromisoformat(row["timestamp"]) - _FROM
            gpu_s = float(row["gpu_time"])
            if float(row["duration"]) >= 60 and gpu_s < 1000 * _HOUR_S and at.hour < _WITHIN:
                jobs.append(PhillyJob(at.hour * 3600 + at.minute * 60 + at.second, gpu_s))
    return jobs


def drawn(jobs: Sequence[PhillyJob], seed: int) -> tuple[TrainingJob, ...]:
    """Return a workload of the artifact; the generators are those that it draws with, in its order."""
    draws, of_bert = random.Random(seed), random.Random(seed + 3)
    generator = np.random.RandomState(draws.randint(0, 1 << 32))
    found = []
    for position in generator.choice(len(jobs), size=_JOBS, replace=False):
        job = jobs[position]
        application = _application(job.gpu_s, draws)
        gpus, batch = draws.choice(_ASKED[application])
        if application == "deepspeech2" and of_bert.randint(0, 1):
            application = "bert"
            gpus, batch = of_bert.choice(_ASKED[application])
        found.append((job.submitted_s, application, gpus, batch))
    found.sort(key=lambda one: one[0])
    return tuple(
        TrainingJob(f"{application}-{number}", float(submitted_s), application, gpus, batch)
        for number, (submitted_s, application, gpus, batch) in enumerate(found)
    )


def _application(gpu_s: float, draws: random.Random) -> str:
    if gpu_s < _HOUR_S:
        return draws.choice(("cifar10", "ncf"))
    if gpu_s < 10 * _HOUR_S:
        return "deepspeech2"
    return "yolov3" if gpu_s < 100 * _HOUR_S else "imagenet"
