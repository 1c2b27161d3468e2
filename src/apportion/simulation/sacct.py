"""Reader of Slurm accounting text: ``sacct -P`` with at least Start, End and NNodes (or AllocNodes)."""

from __future__ import annotations

import csv
import io
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from apportion.errors import InvalidInstance, Problem, reason
from apportion.instances.fields import LARGEST_COUNT
from apportion.simulation.swf import JobLog
from apportion.skipped import tell_skipped

__all__ = ["read_sacct"]

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
    tell_skipped(path, len(rows) - 1, skipped)
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
