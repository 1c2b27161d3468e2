"""One replay of the sweep, where processes can import it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from apportion.cluster.policies.names import policy
from apportion.cluster.simulation.idle_trace import (
    NodeChanges,
    generated_trace,
    node_changes,
    read_idle_trace,
)
from apportion.cluster.simulation.job_table import generated_jobs, read_job_table
from apportion.cluster.simulation.replay import Replay
from apportion.cluster.simulation.run_record import RunRecord, record_of
from apportion.cluster.simulation.snapshot import Workload, workload
from apportion.instances.gap_filling.schema import PUBLISHED_CURVES

__all__ = ["inputs", "replayed"]


def replayed(
    data: Path | None, seed: int, quick: bool, name: str, trainers: int, horizon_s: float
) -> RunRecord:
    """Replay one policy; each process reads or generates the inputs once."""
    changes, jobs, _ = inputs(data, seed, quick)
    replay = Replay(changes, jobs, policy(name, horizon_s), trainers)
    replay.run()
    seen = horizon_s if name.startswith("freetrain") else None
    return record_of(replay, name, seen, None if data else seed)


@cache
def inputs(data: Path | None, seed: int, quick: bool) -> tuple[NodeChanges, Workload, str]:
    """Return the idle nodes, the jobs, and what to call them."""
    if data is None:
        nodes, count, days = (128, 21, 7.0) if quick else (512, 301, 14.0)
        trace = generated_trace(seed, nodes, days)
        jobs = workload(generated_jobs(seed, count), PUBLISHED_CURVES)
        return node_changes(trace), jobs, f"{count} jobs on a generated machine of {nodes} nodes, seed {seed}"
    trace = read_idle_trace(data / "summit_idle_intervals.npz")
    jobs = workload(read_job_table(data / "ImageNet-imgps-jobs.csv"), PUBLISHED_CURVES)
    title = f"{jobs.num_jobs} ImageNet jobs on the first 1,024 nodes of Summit"
    return node_changes(trace, 1024, float(jobs.submitted_s[0])), jobs, title
