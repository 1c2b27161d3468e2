"""Reader of job logs in the Standard Workload Format of the Parallel Workloads Archive (version 2.2)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from apportion.errors import InvalidInstance, Problem, reason
from apportion.simulation.packed import content
from apportion.skipped import tell_skipped

__all__ = ["JobLog", "read_swf"]

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
    tell_skipped(
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
