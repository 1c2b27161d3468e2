"""Readers of job logs: the Standard Workload Format (version 2.2) and Slurm's accounting text, ``sacct -P``.

Both say of every row whether it counts, and if not why; `apportion.cluster.simulation.placement` makes idle
nodes of them and holds what it placed against what the log recorded.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from apportion.core.errors import InvalidInstance, Problem
from apportion.core.files import csv_rows, file_text, log_skipped_rows
from apportion.core.node_lists import NoNodeList, expand
from apportion.instances.fields import LARGEST_COUNT

__all__ = ["JobLog", "read_sacct", "read_swf"]


_JOB, _SUBMIT, _WAIT, _RUN, _ALLOCATED, _REQUESTED, _STATUS = 0, 1, 2, 3, 4, 7, 10
_PARTIAL = (2.0, 3.0, 4.0)
"""Status of a line that is one of several executions of a job; the job may have a line of its own as well."""
_FIELDS = 18
_LARGEST = 1e15
"""Largest magnitude of a field: sums of three are exact in doubles, and processors fit 64 bits."""


@dataclass(frozen=True, slots=True, eq=False)
class JobLog:
    """Rigid jobs that ran on a machine.

    Attributes
    ----------
    start_s, end_s
        float64 [jobs], seconds since the first submission or start.
    nodes
        int64 [jobs]: nodes each job occupied.
    machine_nodes
        Nodes of the machine, ``None`` if the log does not say.
    name
        A name for reports.
    rows
        Rows that were read, those passed over included.
    places
        int64 [places, 2]: job and node, an index in `node_names`, of every node that a job had; ``None``
        where the log only counts them.
    node_names
        The nodes that the log names.
    """

    start_s: NDArray[np.float64]
    end_s: NDArray[np.float64]
    nodes: NDArray[np.int64]
    machine_nodes: int | None
    name: str = "log"
    rows: int = 0
    places: NDArray[np.int64] | None = None
    node_names: tuple[str, ...] = ()


def read_swf(path: str | Path, cores_per_node: int | None = None, raw: bytes | None = None) -> JobLog:
    """Read an SWF log, plain or gzipped: start = submit + wait, end = start + run.

    Jobs that never ran (run <= 0) or whose wait is unknown (-1) are skipped, and so are partial executions
    (status 2 to 4) of jobs that have a line as a whole; a warning is logged that says how many. Processors
    are the allocated ones, else the requested. With c cores a node a job of p processors occupies
    ceil(p / c) nodes, and the machine has ``MaxProcs / c`` of them, rounded.

    Parameters
    ----------
    path
        The file, or what to call `raw`.
    cores_per_node
        c; by default ``MaxProcs / MaxNodes`` where the header has both, with a warning, else 1.
    raw
        The content, where it has been read already.

    Raises
    ------
    InvalidInstance
        If the file cannot be read, a line has not 18 numbers, or no job is left.
    """
    path = Path(path)
    header: dict[str, int] = {}
    rows: list[list[float]] = []
    for number, line in enumerate(file_text(path, raw).splitlines(), 1):
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
    part = np.isin(table[:, _STATUS], _PARTIAL)
    part &= np.isin(table[:, _JOB], table[~part, _JOB])  # without a line of the whole job the parts count
    ran = (table[:, _RUN] > 0) & (table[:, _WAIT] >= 0) & (processors > 0) & ~part
    if not ran.any():
        raise InvalidInstance(Problem(str(path), "holds no job with a known wait, run time and processors"))
    never, unknown = ~part & (table[:, _RUN] <= 0), table[:, _WAIT] < 0
    log_skipped_rows(
        path,
        len(rows),
        {
            "that never ran": int(never.sum()),
            "with an unknown wait": int((unknown & ~never & ~part).sum()),
            "partial executions of jobs that are listed whole": int(part.sum()),
            "without processors": int((~ran & ~never & ~unknown & ~part).sum()),
        },
    )
    table, processors = table[ran], processors[ran]
    start = table[:, _SUBMIT] + table[:, _WAIT]
    origin = float(table[:, _SUBMIT].min())
    cores, total = _cores(path, header, cores_per_node)
    return JobLog(
        start_s=start - origin,
        end_s=start - origin + table[:, _RUN],
        nodes=np.ceil(processors / cores).astype(np.int64),
        machine_nodes=total,
        name=path.name.removesuffix(".gz").removesuffix(".swf"),
        rows=len(rows),
    )


def _cores(path: Path, header: dict[str, int], cores_per_node: int | None) -> tuple[float, int | None]:
    """Return the cores of a node, and how many nodes the machine has where the header says it."""
    nodes, processors = header.get("MaxNodes"), header.get("MaxProcs")
    if cores_per_node is None and nodes and processors and processors > nodes:
        _warn(
            f"{path}: the header says {nodes:,} nodes and {processors:,} processors; taken are "
            f"{processors / nodes:.4g} processors a node (--cores-per-node says another number)"
        )
        return processors / nodes, nodes
    total, cores = processors or nodes, cores_per_node or 1
    return cores, None if total is None else max(round(total / cores), 1)


_LATEST = 1e12
_NEVER = ("", "Unknown", "None", "N/A")
_NOWHERE = ("", "None assigned", "None", "(null)", "Unknown")
_COUNTS = ("NNodes", "AllocNodes")
_CPUS = ("AllocCPUS", "NCPUS")


def read_sacct(path: str | Path, cores_per_node: int | None = None, raw: bytes | None = None) -> JobLog:
    """Read the output of ``sacct -P -X --format=JobID,Start,End,NNodes,NodeList,...``, plain or gzipped.

    Fields are separated by ``|`` (or by commas throughout), below a header. Times are taken as they stand
    (``2026-01-31T12:00:00``), with their zone where they have one, or as seconds since 1970. Where there is a
    column NodeList a job is on the nodes it names, which jobs may share. Otherwise nodes are NNodes or
    AllocNodes, or AllocCPUS or NCPUS over the cores of a node. Jobs that have not ended run to the last time
    in the log. Steps (``123.batch``), jobs that have not started and jobs of no node are skipped, and a
    warning is logged that says how many. Seconds count from the first start.

    Parameters
    ----------
    path
        The file, or what to call `raw`.
    cores_per_node
        Cores of a node, for logs that only count cores.
    raw
        The content, where it has been read already.

    Raises
    ------
    InvalidInstance
        If the file cannot be read, a column is missing, a field is wrong (with its line), or no job is left.
    """
    path = Path(path)
    text = file_text(path, raw)
    columns = _Columns(path, text, cores_per_node)
    _, *rows = csv_rows(text, path, delimiter=columns.delimiter)
    problems: list[Problem] = []
    skipped: Counter[str] = Counter()
    found: list[tuple[float, float | None, int]] = []
    names: dict[str, int] = {}
    places: list[tuple[int, int]] = []
    zones: set[bool] = set()
    for line, row in rows:
        try:
            if (unusable := columns.unusable(row)) is not None:
                skipped[unusable] += 1
                continue
            start, end = columns.times(row, zones)
            nodes = columns.nodes(row)
            count = nodes if isinstance(nodes, int) else len(nodes)
        except ValueError as error:
            problems.append(Problem(f"{path}, line {line}", str(error)))
            continue
        if count < 1:
            skipped["of no node"] += 1
        elif end is not None and end <= start:
            skipped["that ended when they started"] += 1
        else:
            if not isinstance(nodes, int):
                places += [(len(found), names.setdefault(node, len(names))) for node in nodes]
            found.append((start, end, count))
    if len(zones) > 1:
        problems.append(Problem(str(path), "some times have a zone and others none: write all in one way"))
    if problems:
        raise InvalidInstance(problems[:50])
    log_skipped_rows(path, len(rows), skipped)
    if not found:
        raise InvalidInstance(Problem(str(path), "holds no job that started and had a node"))
    last = max(start if end is None else end for start, end, _ in found)
    if running := sum(end is None for _, end, _ in found):
        _warn(f"{path}: {running} of {len(rows)} rows have not ended: taken as running to the last time")
    start_s = np.array([start for start, _, _ in found])
    end_s = np.array([last if end is None else end for _, end, _ in found])
    origin = float(start_s.min())
    return JobLog(
        start_s - origin,
        end_s - origin,
        np.array([count for *_, count in found], dtype=np.int64),
        None,
        path.name.removesuffix(".gz").rpartition(".")[0] or path.name,
        len(rows),
        np.array(places, dtype=np.int64).reshape(-1, 2) if columns.named else None,
        tuple(names),
    )


class _Columns:
    """Which columns of an accounting table say what."""

    def __init__(self, path: Path, text: str, cores_per_node: int | None) -> None:
        first = text.partition("\n")[0].strip("\r")
        self.delimiter = "|" if "|" in first else ","
        header = first.split(self.delimiter)
        self._cores = cores_per_node
        self._at = {name: at for at, name in enumerate(header)}
        self.named = "NodeList" in self._at
        self._count = next((name for name in _COUNTS if name in self._at), None)
        self._cpus = next((name for name in _CPUS if name in self._at), None)
        if len(header) == 1 and len(first.split()) > 1:
            wrong = "the columns are padded with blanks; sacct -P separates them by |"
            raise InvalidInstance(Problem(f"{path}, line 1", wrong))
        missing = [name for name in ("Start", "End") if name not in self._at]
        known = self.named or self._count is not None
        if not known and self._cpus is not None and cores_per_node is None:
            wrong = f"has {self._cpus} and no NNodes: say how many cores a node has (--cores-per-node)"
            raise InvalidInstance(Problem(f"{path}, line 1", wrong))
        missing += [] if known or self._cpus is not None else ["NNodes"]
        if missing:
            wrong = f"the header lacks {', '.join(missing)}; expected the output of sacct -P"
            raise InvalidInstance(Problem(f"{path}, line 1", wrong))

    def unusable(self, row: list[str]) -> str | None:
        """Return why a row is no job that ran, ``None`` if it may be one."""
        if "JobID" in self._at and "." in row[self._at["JobID"]]:
            return "job steps"
        return "not started (pending)" if row[self._at["Start"]] in _NEVER else None

    def times(self, row: list[str], zones: set[bool]) -> tuple[float, float | None]:
        """Return start and end in seconds, ``None`` for a job that has not ended."""
        end = row[self._at["End"]]
        start = _seconds("Start", row[self._at["Start"]], zones)
        return start, None if end in _NEVER else _seconds("End", end, zones)

    def nodes(self, row: list[str]) -> int | list[str]:
        """Return the nodes of a job by name, else how many it has."""
        if self.named:
            listed = row[self._at["NodeList"]]
            try:
                return [] if listed in _NOWHERE else expand(listed)
            except NoNodeList as error:
                raise ValueError(f"NodeList {error}") from None
        name = str(self._count or self._cpus)
        said = row[self._at[name]]
        if not (said.isascii() and said.isdecimal()):
            raise ValueError(f"{name} must be a whole number, not {said[:40]!r}")
        if int(said) > LARGEST_COUNT:
            raise ValueError(f"{name} must be at most {LARGEST_COUNT:,}")
        return int(said) if self._count else math.ceil(int(said) / (self._cores or 1))


def _seconds(field: str, text: str, zones: set[bool]) -> float:
    if text.isascii() and text.replace(".", "", 1).isdigit():
        seconds = float(text)
        if seconds > _LATEST:
            raise ValueError(f"{field} {text[:40]!r} is no number of seconds since 1970")
        return seconds
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        wrong = f"{field} must be 2026-01-31T12:00:00 or seconds since 1970, not {text[:40]!r}"
        raise ValueError(wrong) from None
    zones.add(time.tzinfo is not None)
    return (time if time.tzinfo is not None else time.replace(tzinfo=UTC)).timestamp()


def _warn(text: str) -> None:
    import logging

    logging.getLogger("apportion").warning("%s", text)
