"""Where rules are replayed: blocks of the authors' trace, windows of a log, generated machines; the jobs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from apportion.cluster.simulation.idle_trace import (
    IdleTrace,
    NodeChanges,
    generated_trace,
    node_changes,
    read_idle_trace,
)
from apportion.cluster.simulation.job_table import generated_jobs, read_job_table
from apportion.cluster.simulation.snapshot import Workload, read_trace, workload
from apportion.instances.gap_filling.schema import PUBLISHED_CURVES

__all__ = ["Jobs", "Place", "blocks", "generated", "windows"]

_BLOCK = 1024
_HPO_JOBS, _HPO_HOURS, _BEGUN_S = 1000, 10.0 * 1000 / 999, 72_743.0
Jobs = Literal["imagenet", "hpo"]
"""The published job sets.

``imagenet``: the table of 1,001 trainings. ``hpo``: 1,000 trainings of ShuffleNet, one every 36.04 s over ten
hours from row 1,000 of the trace on, rescaled in 18 and 12 s; that table is not at hand, but is this.
"""
Place = tuple[str, NodeChanges, Workload]
"""What it is called, its idle nodes, and the jobs."""


def generated(seeds: Sequence[int], kind: Jobs = "imagenet") -> Iterator[Place]:
    """Yield machines of 1,024 nodes over 14 days by seed."""
    for seed in seeds:
        trace = generated_trace(seed, _BLOCK, 14.0)
        jobs = workload(generated_jobs(seed, 1001, kind), PUBLISHED_CURVES)
        yield f"generated, seed {seed}", node_changes(trace), jobs


def blocks(data: Path, numbers: Sequence[int], kind: Jobs = "imagenet") -> Iterator[Place]:
    """Yield blocks of 1,024 nodes of the authors' trace."""
    trace, jobs = read_idle_trace(data / "summit_idle_intervals.npz"), _jobs(data, kind)
    for block in numbers:
        yield f"block {block}", _block(trace, block, jobs), jobs


def windows(data: Path, log: Path, count: int, kind: Jobs = "imagenet") -> Iterator[Place]:
    """Yield the whole machine of a log with the authors' jobs, begun at equal distances over the record.

    Every replay goes on until its jobs are done or the record ends; windows after which less of it is left
    than the distance between them do not occur.
    """
    trace, jobs = read_trace(log), _jobs(data, kind)
    step_s = (trace.last_s - trace.first_s) / count
    for number in range(count):
        start_s = trace.first_s + number * step_s
        moved = replace(jobs, submitted_s=jobs.submitted_s - float(jobs.submitted_s[0]) + start_s)
        yield f"{trace.name}, window {number + 1} of {count}", node_changes(trace, None, start_s), moved


def _jobs(data: Path, kind: Jobs) -> Workload:
    if kind == "hpo":
        trials = workload(generated_jobs(0, _HPO_JOBS, kind, _HPO_HOURS), PUBLISHED_CURVES)
        return replace(trials, submitted_s=trials.submitted_s + _BEGUN_S)
    return workload(read_job_table(data / "ImageNet-imgps-jobs.csv"), PUBLISHED_CURVES)


def _block(trace: IdleTrace, block: int, jobs: Workload) -> NodeChanges:
    """Return the changes of the nodes of one block."""
    first = block * _BLOCK
    own = (trace.node >= first) & (trace.node < first + _BLOCK)
    moved = replace(
        trace,
        node=trace.node[own] - first,
        start_s=trace.start_s[own],
        end_s=trace.end_s[own],
        names=trace.names[first : first + _BLOCK],
    )
    return node_changes(moved, _BLOCK, float(jobs.submitted_s[0]))
