"""Small random traces and workloads for the tests of replays."""

from __future__ import annotations

import numpy as np

from apportion.cluster.simulation.idle_trace import IdleTrace
from apportion.cluster.simulation.job_table import SubmittedJob
from apportion.cluster.simulation.snapshot import Workload, workload
from apportion.instances.gap_filling import ScalingCurve

__all__ = ["random_jobs", "random_trace"]


def random_trace(rng: np.random.Generator, nodes: int = 9, rows: int = 40) -> IdleTrace:
    """Nodes that come and go on a grid of instants, several at a time."""
    times = np.unique(rng.integers(0, 4000, rows)).astype(float)
    idle = rng.random((nodes, times.size)) < 0.6
    for row in range(1, times.size):
        keep = rng.random(nodes) < 0.7
        idle[keep, row] = idle[keep, row - 1]
    node, start, end = [], [], []
    for index in range(nodes):
        for row in range(times.size - 1):
            if idle[index, row] and (row == 0 or not idle[index, row - 1]):
                stop = row
                while stop < times.size - 1 and idle[index, stop]:
                    stop += 1
                node.append(index)
                start.append(times[row])
                end.append(times[stop])
    return IdleTrace.from_arrays(node, start, end, times, [f"n{index}" for index in range(nodes)])


def random_jobs(rng: np.random.Generator, count: int = 8, reach: int = 6) -> Workload:
    """Jobs with three curves, not all concave, minima above one, and work for a few hundred seconds."""
    curves = {
        f"c{k}": ScalingCurve(
            nodes=tuple(range(reach + 1)),
            rate=(0.0, *np.sort(rng.integers(1, 90, reach)).astype(float).tolist()),
        )
        for k in range(3)
    }
    jobs = []
    for job in range(count):
        low = int(rng.integers(1, 3))
        jobs.append(
            SubmittedJob(
                f"j{job}-c{job % 3}",
                float(rng.integers(5, 30)),
                float(rng.integers(3, 20)),
                low,
                int(rng.integers(low, reach + 1)),
                float(rng.integers(1000, 30_000)),
                float(rng.integers(0, 1500)),
            )
        )
    return workload(jobs, curves)
