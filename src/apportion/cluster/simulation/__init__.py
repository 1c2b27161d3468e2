"""Traces, workloads and replays of them: what happened, and what would have under another policy."""

from apportion.cluster.simulation.idle_trace import (
    IdleTrace,
    NodeChanges,
    generated_trace,
    node_changes,
    read_idle_trace,
)
from apportion.cluster.simulation.job_table import SubmittedJob, generated_jobs, read_job_table
from apportion.cluster.simulation.replay import Replay
from apportion.cluster.simulation.snapshot import (
    Workload,
    read_curves,
    snapshot,
    snapshot_from_files,
    workload,
)
from apportion.cluster.simulation.summary import Summary, makespan_bound, summarise

__all__ = [
    "IdleTrace",
    "NodeChanges",
    "Replay",
    "SubmittedJob",
    "Summary",
    "Workload",
    "generated_jobs",
    "generated_trace",
    "makespan_bound",
    "node_changes",
    "read_curves",
    "read_idle_trace",
    "read_job_table",
    "snapshot",
    "snapshot_from_files",
    "summarise",
    "workload",
]
