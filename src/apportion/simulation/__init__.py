"""Traces, job tables and snapshots of them: what replays start from."""

from apportion.simulation.idle_trace import IdleTrace, read_idle_trace
from apportion.simulation.job_table import SubmittedJob, read_job_table
from apportion.simulation.snapshot import read_curves, snapshot, snapshot_from_files

__all__ = [
    "IdleTrace",
    "SubmittedJob",
    "read_curves",
    "read_idle_trace",
    "read_job_table",
    "snapshot",
    "snapshot_from_files",
]
