"""A thousand consecutive events of an idle-node trace: solved cold, and warm from the event before.

At every event the nodes idle then are shared anew among the same jobs; each job holds what it was given at
the event before, less the nodes that left. Each instance is solved twice, without and with ``warm_start``;
the answers must agree. The MILP runs on fewer events, because it is slower.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Generator
from pathlib import Path

import msgspec
import numpy as np

from apportion.cli.running import in_one_line
from apportion.cluster.simulation.idle_trace import read_idle_trace
from apportion.cluster.simulation.snapshot import snapshot_from_files
from apportion.instances import GapFillingInstance
from benchmarks.solved import solved
from benchmarks.timing import provenance


def events(
    folder: Path, first_row: int, count: int, trainers: int
) -> Generator[GapFillingInstance, dict[str, list[str]], None]:
    """Yield the instance of every event; its plan is sent back in and shapes the next."""
    trace = read_idle_trace(folder / "summit_idle_intervals.npz")
    instants = np.asarray(trace.event_s)[first_row : first_row + count]
    first = snapshot_from_files(
        folder / "summit_idle_intervals.npz",
        folder / "ImageNet-imgps-jobs.csv",
        float(instants[0]),
        trainers,
        120.0,
    )
    plan: dict[str, list[str]] = {}
    for instant in instants.tolist():
        nodes = tuple(trace.names[node] for node in trace.idle_at(instant))
        idle = set(nodes)
        jobs = tuple(
            msgspec.structs.replace(
                job, current_nodes=tuple(node for node in plan.get(job.id, ()) if node in idle)
            )
            for job in first.jobs
        )
        plan = yield msgspec.structs.replace(first, nodes=nodes, jobs=jobs, name=f"event at {instant:g} s")


def compare(
    folder: Path, first_row: int, count: int, trainers: int, backend: str
) -> tuple[float, float, int]:
    """Return the summed seconds of cold and of warm calls, and how many events had a warm start to use."""
    stream = events(folder, first_row, count, trainers)
    cold_seconds = warm_seconds = 0.0
    used, before = 0, None
    instance = next(stream)
    while True:
        began = time.perf_counter()
        cold = solved(instance, backend=backend, time_limit=60.0)
        between = time.perf_counter()
        warm = solved(instance, backend=backend, time_limit=60.0, warm_start=before)
        warm_seconds += time.perf_counter() - between
        cold_seconds += between - began
        used += before is not None
        assert cold.objective is not None
        assert warm.objective is not None
        assert abs(cold.objective - warm.objective) <= 1e-6 * max(1.0, abs(cold.objective)), instance.name
        before = warm
        try:
            instance = stream.send(warm.require()["allocation"])
        except StopIteration:
            return cold_seconds, warm_seconds, used


def main() -> None:
    """Print cold and warm seconds per event and their ratio, per backend."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with the Summit trace and job table")
    parser.add_argument("--events", type=int, default=1000)
    parser.add_argument("--milp-events", type=int, default=100)
    parser.add_argument("--first-row", type=int, default=1000)
    parser.add_argument("--trainers", type=int, default=20)
    arguments = parser.parse_args()
    print(f"{arguments.trainers} trainers, events from row {arguments.first_row} of the trace")
    for backend, count in (("exact", arguments.events), ("highs", arguments.milp_events)):
        cold, warm, used = compare(arguments.data, arguments.first_row, count, arguments.trainers, backend)
        print(
            f"{backend:<6} {count:>5} events, {used} warm: cold {cold / count * 1e3:.2f} ms, "
            f"warm {warm / count * 1e3:.2f} ms per event, warm/cold {warm / cold:.2f}"
        )
    print(provenance("highspy"))


if __name__ == "__main__":
    with in_one_line("python -m benchmarks.warm_start_events"):
        main()
