"""One instant of a trace of idle nodes as a gap-filling instance, and a trace's workload as arrays.

The rules, in full:

- *Jobs*: the first `trainers` by submission (the table's order among equals), whether or not the table has
  them submitted by then: a snapshot asks for an instant of the machine under a standing backlog.
- *Current nodes*: at the last event strictly before the instant the nodes idle then, in the trace's order,
  were dealt out by equal share (`apportion.instances.gap_filling.schema`), each job a run of
  consecutive nodes. A node that left since is lost to its job; a job may thus hold fewer than its minimum.
- *Nodes*: those idle at the instant, in the trace's order.
- *Curves*: by what follows the first ``-`` of the job's id, letter case ignored.

Traces and job tables of any known format are read, by the look of the file.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from apportion.cluster.simulation.idle_trace import IdleTrace, read_idle_trace
from apportion.cluster.simulation.job_table import SubmittedJob, read_job_table
from apportion.core.errors import InvalidInstance, InvalidOption, Problem, one_of, quoted_names, reason
from apportion.core.files import LARGEST, unpacked
from apportion.instances.fields import normalise
from apportion.instances.gap_filling import GapFillingInstance, GapFillingJob, ScalingCurve
from apportion.instances.gap_filling.schema import PUBLISHED_CURVES, check_curve, equal_share

__all__ = [
    "Workload",
    "curve_of_jobs",
    "read_curves",
    "read_trace",
    "snapshot",
    "snapshot_from_files",
    "workload",
]


def read_trace(
    path: str | Path,
    nodes: int | None = None,
    cores_per_node: int | None = None,
    most_cut: float | None = None,
) -> IdleTrace:
    """Read a trace of idle nodes from ``.npz``, an SWF log or ``sacct -P`` text.

    Parameters
    ----------
    path
        ``*.npz``; else a job log, plain or gzipped, in SWF (``*.swf``, or text that begins with ``;``) or
        of ``sacct -P``; ``-`` reads one from standard input.
    nodes
        Nodes of the machine of a job log; by default what the log says.
    cores_per_node
        Cores that a job log counts as one node; see `read_swf` and `read_sacct`.
    most_cut
        Share of a job log's node hours that may not fit the machine, 0.01 by default.

    Raises
    ------
    InvalidInstance
        If the file cannot be read or holds no such thing.
    """
    path = Path(path)
    name = path.name.lower().removesuffix(".gz")
    raw = None
    if str(path) == "-":
        raw = sys.stdin.buffer.read(LARGEST + 1)
    elif not path.is_file():
        raise InvalidInstance(Problem(str(path), "cannot be read: there is no such file"))
    if name.endswith(".npz"):
        return read_idle_trace(path)
    if name.endswith((".pkl", ".pickle", ".tar", ".tgz")):
        how = "python -m paper_repro.pickled_frame FRAME.pkl TRACE.npz, in a checkout, makes an archive of it"
        raise InvalidInstance(Problem(str(path), f"pickled frames are not read: {how}"))
    from apportion.cluster.simulation.job_logs import read_sacct, read_swf
    from apportion.cluster.simulation.placement import MOST_CUT, idle_trace_of_jobs

    try:
        raw = unpacked(path.read_bytes() if raw is None else raw)
    except (OSError, ValueError) as error:
        raise InvalidInstance(Problem(str(path), f"cannot be read: {reason(error)}")) from error
    swf = name.endswith(".swf") or raw.lstrip()[:1] == b";"
    log = (read_swf if swf else read_sacct)(path, cores_per_node, raw)
    return idle_trace_of_jobs(log, nodes, MOST_CUT if most_cut is None else most_cut)


def snapshot(
    trace: IdleTrace,
    jobs: Sequence[SubmittedJob],
    curves: Mapping[str, ScalingCurve],
    at_s: float,
    trainers: int,
    horizon_s: float = 120.0,
) -> GapFillingInstance:
    """Return the instance an allocator would face at one instant of a trace; the module says by which rules.

    Parameters
    ----------
    trace
        The intervals in which every node is idle.
    jobs
        The submitted jobs.
    curves
        Throughput curves by the name in the job's id.
    at_s
        The instant, seconds since the trace's t0.
    trainers
        How many jobs there are.
    horizon_s
        Forward-looking time of the instance, seconds.

    Raises
    ------
    InvalidOption
        If the instant is outside the trace, or `trainers` is not from 1 to the number of jobs.
    InvalidInstance
        If a job names no curve, or its curve does not reach its maximum, or the horizon is not positive.
    """
    idle = trace.idle_at(at_s).tolist()
    admitted = _admitted(jobs, trainers)
    event_s = trace.previous_event(at_s)
    before: list[int] = [] if event_s is None else trace.idle_at(event_s).tolist()
    shares = equal_share(
        len(before), [job.min_nodes for job in admitted], [job.max_nodes for job in admitted]
    )
    ends = accumulate(shares)
    remaining = set(idle)
    held = [
        tuple(trace.names[node] for node in before[end - share : end] if node in remaining)
        for share, end in zip(shares, ends, strict=True)
    ]
    scaling = curve_of_jobs(admitted, curves)
    since = f" of {trace.t0}" if trace.t0 else ""
    return GapFillingInstance(
        schema_version="1",
        horizon_s=float(horizon_s),
        nodes=tuple(trace.names[node] for node in idle),
        jobs=tuple(
            GapFillingJob(
                id=job.id,
                min_nodes=job.min_nodes,
                max_nodes=job.max_nodes,
                scaling=curve,
                rescale_up_s=job.rescale_up_s,
                rescale_down_s=job.rescale_down_s,
                current_nodes=nodes,
            )
            for job, curve, nodes in zip(admitted, scaling, held, strict=True)
        ),
        name=f"{trace.name} at {at_s:.12g} s{since}",
    )


def snapshot_from_files(
    trace_path: str | Path,
    jobs_path: str | Path,
    at_s: float,
    trainers: int,
    horizon_s: float = 120.0,
    curves_path: str | Path | None = None,
    machine_nodes: int | None = None,
    cores_per_node: int | None = None,
    most_cut: float | None = None,
) -> GapFillingInstance:
    """Read a trace, a job table (``.csv``) and, if given, a curves file, and take a snapshot.

    The trace is of any format that `read_trace` knows; `machine_nodes`, `cores_per_node` and `most_cut` are
    for job logs.

    Without a curves file the published curves are used; a curves file replaces them altogether. What is
    raised is what `read_trace`, `read_job_table`, `read_curves` and `snapshot` raise.
    """
    curves = PUBLISHED_CURVES if curves_path is None else read_curves(curves_path)
    trace = read_trace(trace_path, machine_nodes, cores_per_node, most_cut)
    return snapshot(trace, read_job_table(jobs_path), curves, at_s, trainers, horizon_s)


def read_curves(path: str | Path) -> dict[str, ScalingCurve]:
    """Read throughput curves from JSON: ``{"name": {"nodes": [0, 1, ...], "rate": [0, ...]}, ...}``.

    Raises
    ------
    InvalidInstance
        If the file cannot be read or does not hold that, or a curve breaks a rule of instances' curves; the
        message has the JSON path.
    """
    try:
        curves = msgspec.json.decode(Path(path).read_bytes(), type=dict[str, ScalingCurve])
    except OSError as error:
        raise InvalidInstance(Problem(str(path), f"cannot be read: {reason(error)}")) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInstance(Problem(str(path), f"is no table of curves: {error}")) from error
    problems: list[Problem] = []
    for name, curve in curves.items():
        where = f"{path}, $.{name}"
        wrong = normalise(curve, where)
        problems += wrong
        if not wrong:
            check_curve(where, curve, 0, problems)
    if problems:
        raise InvalidInstance(problems[:50])
    return curves


def _admitted(jobs: Sequence[SubmittedJob], trainers: int) -> list[SubmittedJob]:
    if isinstance(trainers, bool) or not isinstance(trainers, int) or not 1 <= trainers <= len(jobs):
        raise InvalidOption(f"trainers must be from 1 to the number of jobs, {len(jobs)}, not {trainers}")
    return sorted(jobs, key=lambda job: job.submitted_s)[:trainers]


def curve_of_jobs(
    jobs: Sequence[SubmittedJob], curves: Mapping[str, ScalingCurve], curve: str | None = None
) -> list[ScalingCurve]:
    """Return the curve of every job: the one named after the first ``-`` of its id, letter case ignored.

    Parameters
    ----------
    jobs
        The jobs.
    curves
        Curves by name.
    curve
        The one that all jobs have, whatever their ids say: they train the same network.

    Raises
    ------
    InvalidInstance
        If a job names no curve, or two curves differ only by letter case.
    InvalidOption
        If there is no curve of the name that all jobs are to have.
    """
    by_name: dict[str, ScalingCurve] = {}
    problems: list[Problem] = []
    for name, known in curves.items():
        if name.casefold() in by_name:
            problems.append(Problem(f"curve {name!r}", "differs from another only by letter case"))
        by_name[name.casefold()] = known
    if curve is not None:
        if curve.casefold() not in by_name:
            one_of("curve", curve, curves)
        return [by_name[curve.casefold()]] * len(jobs)
    named = [by_name.get(job.id.partition("-")[2].casefold()) for job in jobs]
    nameless = [job.id for job, found in zip(jobs, named, strict=True) if found is None]
    if nameless:
        wrong = (
            f"{len(nameless)} of {len(jobs)} jobs have no name of a curve after the first '-' of their id "
            f"({quoted_names(nameless)}); the curves are {', '.join(curves) or 'none'}. "
            "Where all jobs train one network, name its curve (--curve NAME)"
        )
        problems.append(Problem("jobs", wrong))
    if problems:
        raise InvalidInstance(problems)
    return [found for found in named if found is not None]


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """Malleable jobs, first come first served.

    Attributes
    ----------
    ids
        Name of every job.
    curve
        int64 [jobs]: row of `rates` and `believed`.
    rates
        float64 [curves, counts]: true samples per second on 0, 1, 2, ... nodes.
    believed
        float64 [curves, counts]: what the policy is told instead; the same by default.
    min_nodes, max_nodes
        int64 [jobs].
    up_s, down_s
        float64 [jobs]: seconds of standstill after growing or shrinking.
    work
        float64 [jobs]: samples until the job is done.
    submitted_s
        float64 [jobs], never falling.
    endless
        Whether the jobs are submitted again and again, so that the queue never runs dry.
    """

    ids: tuple[str, ...]
    curve: NDArray[np.int64]
    rates: NDArray[np.float64]
    believed: NDArray[np.float64]
    min_nodes: NDArray[np.int64]
    max_nodes: NDArray[np.int64]
    up_s: NDArray[np.float64]
    down_s: NDArray[np.float64]
    work: NDArray[np.float64]
    submitted_s: NDArray[np.float64]
    endless: bool = False

    def __repr__(self) -> str:
        endless = ", endless" if self.endless else ""
        return f"<Workload: {len(self.ids)} jobs, {len(self.rates)} curves{endless}>"

    @property
    def num_jobs(self) -> int:
        """How many jobs there are, one round of an endless workload."""
        return len(self.ids)

    def repeated(self) -> Workload:
        """Return the same jobs, submitted again and again."""
        return replace(self, endless=True)

    def submitted(self, at_s: float) -> int:
        """Return how many jobs of a round are submitted by then."""
        return int(np.searchsorted(self.submitted_s, at_s, side="right"))

    def speedups(self) -> NDArray[np.float64]:
        """Return float64 [curves, counts]: rates divided by the least positive rate, that on one node."""
        unit = np.where(self.rates > 0, self.rates, np.inf).min(axis=1, keepdims=True)
        return self.rates / np.where(np.isfinite(unit), unit, 1.0)

    def believing(self, believed: NDArray[np.float64]) -> Workload:
        """Return the same jobs with other rates shown to the policy.

        Raises
        ------
        InvalidOption
            If the table has not the shape of `rates`, or is not finite and at least 0.
        """
        if believed.shape != self.rates.shape or not (np.isfinite(believed).all() and (believed >= 0).all()):
            raise InvalidOption(f"believed rates must be finite, at least 0 and of shape {self.rates.shape}")
        return replace(self, believed=believed)


def workload(
    jobs: Sequence[SubmittedJob],
    curves: Mapping[str, ScalingCurve],
    endless: bool = False,
    curve: str | None = None,
) -> Workload:
    """Return submitted jobs as arrays, ordered by submission (the given order among equals).

    Parameters
    ----------
    jobs
        At least one.
    curves
        Throughput curves by what follows the first ``-`` of a job's id, letter case ignored.
    endless
        Whether the jobs are submitted again and again.
    curve
        The name of the curve that all jobs have, whatever their ids say.

    Raises
    ------
    InvalidInstance
        If there is no job, a job names no curve, or its curve does not reach its maximum.
    """
    if not jobs:
        raise InvalidInstance(Problem("jobs", "there is no job"))
    ordered = sorted(jobs, key=lambda job: job.submitted_s)
    found = curve_of_jobs(ordered, curves, curve)
    short = [
        Problem(f"job {job.id!r}", f"its curve ends at {known.nodes[-1]} nodes, Jmax is {job.max_nodes}")
        for job, known in zip(ordered, found, strict=True)
        if known.nodes[-1] < job.max_nodes
    ]
    if short:
        raise InvalidInstance(short)
    counts = np.arange(max(job.max_nodes for job in ordered) + 1)
    index: dict[tuple[tuple[int, ...], tuple[float, ...]], int] = {}
    row = [index.setdefault((curve.nodes, curve.rate), len(index)) for curve in found]
    rates = np.array([np.interp(counts, nodes, rate) for nodes, rate in index])
    return Workload(
        ids=tuple(job.id for job in ordered),
        curve=np.array(row, dtype=np.int64),
        rates=rates,
        believed=rates,
        min_nodes=np.array([job.min_nodes for job in ordered], dtype=np.int64),
        max_nodes=np.array([job.max_nodes for job in ordered], dtype=np.int64),
        up_s=np.array([job.rescale_up_s for job in ordered], dtype=np.float64),
        down_s=np.array([job.rescale_down_s for job in ordered], dtype=np.float64),
        work=np.array([job.work_samples for job in ordered], dtype=np.float64),
        submitted_s=np.array([job.submitted_s for job in ordered], dtype=np.float64),
        endless=endless,
    )
