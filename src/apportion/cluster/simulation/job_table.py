"""The table of submitted jobs: one CSV line per malleable training job, as the BFTrainer replayer uses it.

Job sets are drawn for those who have none, after the published ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from apportion.core.errors import InvalidInstance, InvalidOption, Problem, one_of
from apportion.core.files import csv_rows, file_text
from apportion.instances.gap_filling.schema import PUBLISHED_CURVES

__all__ = ["SubmittedJob", "generated_jobs", "read_job_table"]

_SAMPLES = 1.3e8
"""Samples per job of the published sets: 100 epochs of 1.3 million images."""


@dataclass(frozen=True, slots=True)
class SubmittedJob:
    """One job of the table.

    Attributes
    ----------
    id
        Unique name; what follows its first ``-`` names the scaling curve.
    rescale_up_s, rescale_down_s
        Seconds it stands still when it grows (column ``Tcup``) or shrinks (``Tcdw``).
    min_nodes, max_nodes
        It runs on 0 nodes or on this many (``Jmin``, ``Jmax``).
    work_samples
        Samples to train on until it is done (``Pmax``).
    submitted_s
        Seconds since the trace's t0 (``tsub_s``).
    """

    id: str
    rescale_up_s: float
    rescale_down_s: float
    min_nodes: int
    max_nodes: int
    work_samples: float
    submitted_s: float


def _amount(text: str) -> float:
    value = float(text)
    if not math.isfinite(value) or value < 0:
        raise ValueError
    return value


def _instant(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError
    return value


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError
    return value


_COLUMNS: Mapping[str, tuple[str, Callable[[str], Any], str]] = MappingProxyType(
    {
        "Tcup": ("rescale_up_s", _amount, "seconds, at least 0"),
        "Tcdw": ("rescale_down_s", _amount, "seconds, at least 0"),
        "Jmin": ("min_nodes", _count, "a whole number of at least 1"),
        "Jmax": ("max_nodes", _count, "a whole number of at least 1"),
        "Pmax": ("work_samples", _amount, "samples, at least 0"),
        "tsub_s": ("submitted_s", _instant, "seconds since the trace's t0"),
    }
)


def read_job_table(path: str | Path) -> tuple[SubmittedJob, ...]:
    """Read the table: a first, unnamed column with the job's id, then Tcup, Tcdw, Jmin, Jmax, Pmax, tsub_s.

    The order of the named columns is free and further ones are ignored; lines keep their order.

    Raises
    ------
    InvalidInstance
        If the file cannot be read, a column is missing, or a field is wrong; every wrong field is listed with
        its line (from 1, the header's) and column.
    """
    path = Path(path)
    (_, header), *rows = csv_rows(file_text(path), path, tuple(_COLUMNS))
    if header[0] in _COLUMNS:
        said = "the header lacks the unnamed first column with the job's id"
        raise InvalidInstance(Problem(f"{path}, line 1", said))
    place = {column: header.index(column) for column in _COLUMNS}
    problems: list[Problem] = []
    jobs: list[SubmittedJob] = []
    seen: dict[str, int] = {}
    for line, row in rows:
        before = len(problems)
        if not row[0]:
            problems.append(Problem(f"{path}, line {line}, column 1", "expected the job's id, found nothing"))
        elif row[0] in seen:
            message = f"job {row[0]!r} stands in line {seen[row[0]]} already"
            problems.append(Problem(f"{path}, line {line}, column 1", message))
        seen.setdefault(row[0], line)
        fields = {
            name: _field(
                row[place[column]], convert, f"{path}, line {line}, column {column}", expected, problems
            )
            for column, (name, convert, expected) in _COLUMNS.items()
        }
        if len(problems) == before and fields["min_nodes"] > fields["max_nodes"]:
            message = f"{fields['max_nodes']} is less than Jmin {fields['min_nodes']}"
            problems.append(Problem(f"{path}, line {line}, column Jmax", message))
        if len(problems) == before:
            jobs.append(SubmittedJob(id=row[0], **fields))
    if problems:
        raise InvalidInstance(problems)
    return tuple(jobs)


def _field(
    text: str, convert: Callable[[str], Any], path: str, expected: str, problems: list[Problem]
) -> Any:
    try:
        return convert(text)
    except ValueError:
        problems.append(Problem(path, f"expected {expected}, found {text[:60]!r}"))
        return None


def generated_jobs(
    seed: int, count: int = 1001, mix: str = "imagenet", hours: float = 10.0
) -> list[SubmittedJob]:
    """Return a job set like the published ones: evenly spaced submissions over `hours`, 1.3e8 samples each.

    Parameters
    ----------
    seed
        Random seed of the rescale times.
    count
        Jobs.
    mix
        ``"imagenet"``: the seven published networks in turn, rescaling up in U(17, 19) s and down in U(11,
        13) s; ``"hpo"``: ShuffleNet throughout, 18 s and 12 s.
    hours
        Span of the submissions.

    Raises
    ------
    InvalidOption
        If the mix is unknown or `count` is not positive.
    """
    one_of("mix", mix, ("imagenet", "hpo"))
    if count < 1:
        raise InvalidOption(f"count must be at least 1, not {count}")
    rng = np.random.default_rng(seed)
    nets = list(PUBLISHED_CURVES) if mix == "imagenet" else ["ShuffleNet"]
    up = rng.uniform(17, 19, count).round(4) if mix == "imagenet" else np.full(count, 18.0)
    down = rng.uniform(11, 13, count).round(4) if mix == "imagenet" else np.full(count, 12.0)
    step_s = hours * 3600 / count
    return [
        SubmittedJob(
            f"J{job:05d}-{nets[job % len(nets)]}",
            float(up[job]),
            float(down[job]),
            1,
            64,
            _SAMPLES,
            round(job * step_s, 2),
        )
        for job in range(count)
    ]
