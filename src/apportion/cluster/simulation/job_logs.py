"""Reader of job logs in the Standard Workload Format of the Parallel Workloads Archive (version 2.2).

Reader of Slurm accounting text: ``sacct -P`` with at least Start, End and NNodes (or AllocNodes).
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from apportion.cluster.simulation.idle_trace import content
from apportion.core.errors import InvalidInstance, Problem, reason
from apportion.core.skipped_rows import log_skipped_rows
from apportion.instances.fields import LARGEST_COUNT

__all__ = ["JobLog", "read_sacct", "read_swf"]


_SUBMIT, _WAIT, _RUN, _ALLOCATED, _REQUESTED = 1, 2, 3, 4, 7
_FIELDS = 18
_LARGEST = 1e15
"""Largest magnitude of a field: sums of three are exact in doubles, and processors fit 64 bits."""


@dataclass(frozen=True, slots=True, eq=False)
class JobLog:
    """Rigid jobs that ran on a machine.

    Attributes
    ----------
    start_s, end_s
        float64 [jobs], seconds since the first submission.
    nodes
        int64 [jobs]: nodes each job occupied.
    machine_nodes
        Nodes of the machine, ``None`` if the log does not say.
    name
        A name for reports.
    """

    start_s: NDArray[np.float64]
    end_s: NDArray[np.float64]
    nodes: NDArray[np.int64]
    machine_nodes: int | None
    name: str = "log"


def read_swf(path: str | Path, cores_per_node: int = 1) -> JobLog:
    """Read an SWF log, plain or gzipped: start = submit + wait, end = start + run.

    Jobs that never ran (run <= 0) or whose wait is unknown (-1) are skipped, and a warning is logged that
    says how many; processors are the allocated ones, else the requested. With `cores_per_node` c a job of p
    processors occupies ceil(p / c) nodes, and
    the machine has ``MaxProcs / c`` of them, rounded.

    Raises
    ------
    InvalidInstance
        If the file cannot be read, a line has not 18 numbers, or no job is left.
    """
    path = Path(path)
    try:
        text = content(path).decode("utf-8", "replace")
    except (OSError, ValueError) as error:
        raise InvalidInstance(Problem(str(path), f"cannot be read: {reason(error)}")) from error
    header: dict[str, int] = {}
    rows: list[list[float]] = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith(";"):
            found = re.match(r"\s*;\s*(MaxNodes|MaxProcs)\s*:\s*(\d{1,15})\b", line)
            if found:
                header[found[1]] = int(found[2])
            continue
        words = line.split()
        if not words:
            continue
        try:
            row = [float(word) for word in words]
        except ValueError:
            row = []
        if len(row) != _FIELDS or not all(abs(field) <= _LARGEST for field in row):
            wrong = f"expected 18 numbers of magnitude up to {_LARGEST:g}, found {line.strip()[:60]!r}"
            raise InvalidInstance(Problem(f"{path}, line {number}", wrong))
        rows.append(row)
    table = np.array(rows, dtype=np.float64).reshape(len(rows), _FIELDS)
    processors = np.where(table[:, _ALLOCATED] > 0, table[:, _ALLOCATED], table[:, _REQUESTED])
    ran = (table[:, _RUN] > 0) & (table[:, _WAIT] >= 0) & (processors > 0)
    if not ran.any():
        raise InvalidInstance(Problem(str(path), "holds no job with a known wait, run time and processors"))
    never, unknown = table[:, _RUN] <= 0, table[:, _WAIT] < 0
    log_skipped_rows(
        path,
        len(rows),
        {
            "that never ran": int(never.sum()),
            "with an unknown wait": int((unknown & ~never).sum()),
            "without processors": int((~ran & ~never & ~unknown).sum()),
        },
    )
    table, processors = table[ran], processors[ran]
    start = table[:, _SUBMIT] + table[:, _WAIT]
    origin = float(table[:, _SUBMIT].min())
    total = header.get("MaxProcs") or header.get("MaxNodes")
    return JobLog(
        start_s=start - origin,
        end_s=start - origin + table[:, _RUN],
        nodes=np.ceil(processors / cores_per_node).astype(np.int64),
        machine_nodes=None if total is None else max(round(total / cores_per_node), 1),
        name=path.name.removesuffix(".gz").removesuffix(".swf"),
    )


_LATEST = 1e12
_NEVER = ("", "Unknown", "None", "N/A")


def read_sacct(path: str | Path) -> JobLog:
    """Read the output of ``sacct -P -X --format=JobID,Start,End,NNodes,...`` (fields by ``|``, a header).

    Times are taken as they stand (``2026-01-31T12:00:00``, no zone) or as seconds since 1970. Steps
    (``123.batch``), jobs that have not started or ended, and jobs of no node are skipped, and a warning
    is logged that says how many. Seconds count from the first start. Slurm does not say how many nodes the
    machine has.

    Raises
    ------
    InvalidInstance
        If the file cannot be read, a column is missing, a field is wrong (with its line), or no job is left.
    """
    path = Path(path)
    try:
        lines = csv.reader(io.StringIO(path.read_bytes().decode("utf-8-sig"), newline=""), delimiter="|")
        rows = [(lines.line_num, row) for row in lines if row]
    except (OSError, ValueError, csv.Error) as error:
        raise InvalidInstance(Problem(str(path), f"cannot be read: {reason(error)}")) from error
    header = rows[0][1] if rows else []
    nodes = next((name for name in ("NNodes", "AllocNodes") if name in header), None)
    missing = [name for name in ("Start", "End") if name not in header] + ([] if nodes else ["NNodes"])
    if missing or nodes is None:
        message = f"the header lacks {', '.join(missing)}; expected the output of sacct -P"
        raise InvalidInstance(Problem(f"{path}, line 1", message))
    at = {name: header.index(name) for name in ("Start", "End", nodes)}
    step = header.index("JobID") if "JobID" in header else None
    problems: list[Problem] = []
    skipped: Counter[str] = Counter()
    found: list[tuple[float, float, int]] = []
    for line, row in rows[1:]:
        if len(row) != len(header):
            problems.append(
                Problem(f"{path}, line {line}", f"has {len(row)} fields, the header has {len(header)}")
            )
            continue
        unusable = _unusable(row, step, at["Start"], at["End"])
        if unusable is not None:
            skipped[unusable] += 1
            continue
        try:
            start, end, count = _seconds(row[at["Start"]]), _seconds(row[at["End"]]), int(row[at[nodes]])
            if count > LARGEST_COUNT:
                raise ValueError(f"{nodes} must be at most {LARGEST_COUNT:,}")
        except ValueError as error:
            problems.append(Problem(f"{path}, line {line}", str(error)))
            continue
        if count < 1:
            skipped["of no node"] += 1
        elif end <= start:
            skipped["that ended when they started"] += 1
        else:
            found.append((start, end, count))
    if problems:
        raise InvalidInstance(problems[:50])
    log_skipped_rows(path, len(rows) - 1, skipped)
    if not found:
        raise InvalidInstance(Problem(str(path), "holds no job that started, ended and had a node"))
    start_s, end_s, count_of = (np.array(column) for column in zip(*found, strict=True))
    origin = float(start_s.min())
    return JobLog(start_s - origin, end_s - origin, count_of.astype(np.int64), None, path.stem)


def _unusable(row: list[str], step: int | None, start: int, end: int) -> str | None:
    """Return why a row is no job that ran, ``None`` if it may be one."""
    if step is not None and "." in row[step]:
        return "job steps"
    if row[start] in _NEVER:
        return "not started (pending)"
    return "without a known end" if row[end] in _NEVER else None


def _seconds(text: str) -> float:
    if text.isascii() and text.replace(".", "", 1).isdigit():
        seconds = float(text)
        if seconds > _LATEST:
            raise ValueError(f"{text[:40]!r} is no number of seconds since 1970")
        return seconds
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()
