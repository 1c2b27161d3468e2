"""Gavel's throughput tables (Narayanan et al., OSDI 2020): steps per second of job types by GPU type.

Layout: ``{gpu type: {"('job type', gpus)": {"null": steps/s alone, "other job": [...]}}}``. Every job type
with its GPU count that runs alone on some type becomes one divisible job with an hour of work on the type
that is fastest for it; the cluster has of every type a quarter as many GPUs as there are jobs, at least as
many as the widest job. Types whose workers are spread over servers (``*_unconsolidated``) are left out.
"""

from __future__ import annotations

import json
import math
import re
from typing import Literal

from apportion.core.errors import InvalidInstance, InvalidOption, Problem
from apportion.instances.fields import LARGEST_NUMBER
from apportion.instances.matching import MatchingEntry, MatchingInstance, MatchingJob, MatchingMachine
from apportion.instances.readers.numbers import select_problem

__all__ = ["read", "throughputs"]

_WORK_S = 3600.0
_PAIR = re.compile(r"""\((?P<quote>['"])(?P<job>.*)(?P=quote), (?P<gpus>\d{1,9})\)""", re.DOTALL)
"""How Python writes a job type and its number of GPUs."""


def read(
    raw: bytes, index: int, sense: Literal["maximize", "minimize"] | None, name: str
) -> MatchingInstance:
    """Read the one instance of a table.

    Raises
    ------
    InvalidInstance
        If the file is malformed, or `index` is not 0.
    InvalidOption
        If the sense is max.
    """
    if sense == "maximize":
        raise InvalidOption("sense must be min: a makespan is minimised")
    select_problem(index, 1)
    table = throughputs(raw)
    jobs: list[MatchingJob] = []
    for (job, gpus), speeds in table.items():
        fastest = max(speeds.values())
        on = {
            gpu: MatchingEntry(time_s=_WORK_S * fastest / speed, gpus=gpus) for gpu, speed in speeds.items()
        }
        jobs.append(MatchingJob(id=f"{job} x{gpus}", on=on))
    types = sorted({gpu for speeds in table.values() for gpu in speeds})
    widest = max((gpus for _, gpus in table), default=1)
    count = max(len(jobs) // 4, widest)
    return MatchingInstance(
        schema_version="1",
        objective="makespan",
        machines=tuple(MatchingMachine(id=gpu, count=count) for gpu in types),
        jobs=tuple(jobs),
        divisible=True,
        name=name,
    )


def throughputs(raw: bytes) -> dict[tuple[str, int], dict[str, float]]:
    """Return positive steps per second by (job type, GPUs) and GPU type, each job alone, workers together."""
    try:
        tree = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise InvalidInstance(Problem("$", f"is no JSON: {error}")) from None
    if not isinstance(tree, dict):
        raise InvalidInstance(Problem("$", "must be an object of GPU types"))
    table: dict[tuple[str, int], dict[str, float]] = {}
    for gpu, jobs in tree.items():
        if gpu.endswith("_unconsolidated"):
            continue
        if not isinstance(jobs, dict):
            raise InvalidInstance(Problem(f"$.{gpu}", "must be an object of job types"))
        for key, measured in jobs.items():
            alone = measured.get("null") if isinstance(measured, dict) else None
            number = alone if isinstance(alone, int | float) and not isinstance(alone, bool) else math.nan
            if not abs(number) <= LARGEST_NUMBER:
                wrong = f"must be a number of steps per second up to {LARGEST_NUMBER:g}"
                raise InvalidInstance(Problem(f"$.{gpu}.{key}.null", wrong))
            if number > 0:
                table.setdefault(_job(gpu, key), {})[gpu] = float(number)
    return table


def _job(gpu: str, key: str) -> tuple[str, int]:
    pair = _PAIR.fullmatch(key)
    if pair is None:
        return key, 1  # Gavel's single-GPU tables use the bare job type
    job, gpus = pair["job"], int(pair["gpus"])
    if gpus < 1:
        raise InvalidInstance(Problem(f"$.{gpu}", f"{key!r} is no job type with a number of GPUs"))
    return job, gpus
