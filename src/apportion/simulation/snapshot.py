"""One instant of a trace of idle nodes as a gap-filling instance.

The rules, in full:

- *Jobs*: the first `trainers` by submission (the table's order among equals), whether or not the table has
  them submitted by then: a snapshot asks for an instant of the machine under a standing backlog.
- *Current nodes*: at the last event strictly before the instant the nodes idle then, in the trace's order,
  were dealt out by equal share (`apportion.instances.gap_filling.equal_share`), each job a run of
  consecutive nodes. A node that left since is lost to its job; a job may thus hold fewer than its minimum.
- *Nodes*: those idle at the instant, in the trace's order.
- *Curves*: by what follows the first ``-`` of the job's id, letter case ignored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path

import msgspec

from apportion.choices import one_of
from apportion.errors import InvalidInstance, InvalidOption, Problem, listed, reason
from apportion.instances.gap_filling import GapFillingInstance, GapFillingJob, ScalingCurve
from apportion.instances.gap_filling.equal_share import equal_share
from apportion.instances.gap_filling.published_curves import PUBLISHED_CURVES
from apportion.simulation.idle_trace import IdleTrace
from apportion.simulation.inputs import read_trace
from apportion.simulation.job_table import SubmittedJob, read_job_table

__all__ = ["curve_of_jobs", "read_curves", "snapshot", "snapshot_from_files"]


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
    cores_per_node: int = 1,
) -> GapFillingInstance:
    """Read a trace, a job table (``.csv``) and, if given, a curves file, and take a snapshot.

    The trace is of any format that `read_trace` knows; `machine_nodes` and `cores_per_node` are for job logs.

    Without a curves file the published curves are used; a curves file replaces them altogether. What is
    raised is what `read_trace`, `read_job_table`, `read_curves` and `snapshot` raise.
    """
    curves = PUBLISHED_CURVES if curves_path is None else read_curves(curves_path)
    trace = read_trace(trace_path, machine_nodes, cores_per_node)
    return snapshot(trace, read_job_table(jobs_path), curves, at_s, trainers, horizon_s)


def read_curves(path: str | Path) -> dict[str, ScalingCurve]:
    """Read throughput curves from JSON: ``{"name": {"nodes": [0, 1, ...], "rate": [0, ...]}, ...}``.

    Raises
    ------
    InvalidInstance
        If the file cannot be read or does not hold that; the message has the JSON path.
    """
    try:
        return msgspec.json.decode(Path(path).read_bytes(), type=dict[str, ScalingCurve])
    except OSError as error:
        raise InvalidInstance(Problem(str(path), f"cannot be read: {reason(error)}")) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInstance(Problem(str(path), f"is no table of curves: {error}")) from error


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
            f"({listed(nameless)}); the curves are {', '.join(curves) or 'none'}. "
            "Where all jobs train one network, name its curve (--curve NAME)"
        )
        problems.append(Problem("jobs", wrong))
    if problems:
        raise InvalidInstance(problems)
    return [found for found in named if found is not None]
