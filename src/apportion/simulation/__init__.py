"""Traces, workloads and replays of them: what happened, and what would have under another policy."""

from apportion.simulation.bound import makespan_bound
from apportion.simulation.generated import generated_jobs, generated_trace
from apportion.simulation.idle_trace import IdleTrace, read_idle_trace
from apportion.simulation.job_table import SubmittedJob, read_job_table
from apportion.simulation.node_changes import NodeChanges, node_changes
from apportion.simulation.replay import Replay
from apportion.simulation.snapshot import read_curves, snapshot, snapshot_from_files
from apportion.simulation.summary import Summary, summarise
from apportion.simulation.workload import Workload, workload

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
