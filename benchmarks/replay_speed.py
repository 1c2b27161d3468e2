"""How fast replays are: ``python -m benchmarks.replay_speed [--data FOLDER]``, on one core.

Three runs at 35 trainers: until all jobs are done, an endless backlog over the whole record, and the first
again with node counts from a plain numpy table over capacities in place of the exact engine, the peer for
the ratio. Then where the time goes, by part of the package, from a profile of the first run.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import time
from pathlib import Path

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from apportion.cli.running import in_one_line
from apportion.cluster.policies import FreeTrain, GapFillingView, Plan, Policy
from apportion.cluster.policies.completion import complete, values_of
from apportion.cluster.simulation.idle_trace import (
    NodeChanges,
    generated_trace,
    node_changes,
    read_idle_trace,
)
from apportion.cluster.simulation.job_table import generated_jobs, read_job_table
from apportion.cluster.simulation.replay import Replay
from apportion.cluster.simulation.snapshot import Workload, workload
from apportion.instances.gap_filling.schema import PUBLISHED_CURVES
from benchmarks.timing import provenance

TRAINERS = 35


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.replay_speed", description=__doc__)
    parser.add_argument(
        "--data", type=Path, help="folder of the Summit trace; a generated machine without it"
    )
    given = parser.parse_args()
    changes, jobs = _inputs(given.data)
    print(provenance())
    print(f"{changes.name}: {changes.num_nodes} nodes, {changes.num_rows} rows, {TRAINERS} trainers\n")
    done = _run("until the jobs are done", changes, jobs, FreeTrain())
    _run("endless backlog", changes, jobs.repeated(), FreeTrain())
    peer = _run("until done, plain table", changes, jobs, by_table)
    print(f"\nratio to the plain table: {peer.seconds / done.seconds:.2f}\n")
    profile = cProfile.Profile()
    profile.runcall(Replay(changes, jobs, FreeTrain(), TRAINERS).run)
    _where(profile)


def _inputs(data: Path | None) -> tuple[NodeChanges, Workload]:
    if data is None:
        trace = generated_trace(1, 4734, 14.0)
        return node_changes(trace), workload(generated_jobs(1), PUBLISHED_CURVES)
    trace = read_idle_trace(data / "summit_idle_intervals.npz")
    jobs = workload(read_job_table(data / "ImageNet-imgps-jobs.csv"), PUBLISHED_CURVES)
    return node_changes(trace, None, float(jobs.submitted_s[0])), jobs


def _run(title: str, changes: NodeChanges, jobs: Workload, policy: Policy) -> Replay:
    replay = Replay(changes, jobs, policy, TRAINERS)
    began = time.process_time()
    totals = replay.run()
    busy = time.process_time() - began
    speed = totals.events / replay.seconds
    hours = totals.elapsed_s / 3600
    wall = f"{replay.seconds:8.2f} s ({busy:.2f} s of CPU)"
    print(f"{title:<28}{wall}{totals.events:8d} events{speed:8.0f} events/s{hours:9.2f} h replayed")
    return replay


def by_table(view: GapFillingView) -> Plan:
    """FreeTrain at 120 s by a table over capacities, job after job."""
    held, nodes = view.held(), view.nodes.size
    if not held.size or not nodes:
        return Plan(view.holder)
    values = values_of(view, held, 120.0)[:, : nodes + 1]
    width = values.shape[1]
    cap = int(min(nodes, view.max_nodes.sum()))
    best, taken = np.zeros(cap + 1), []
    for row in values:
        total = sliding_window_view(np.concatenate((np.full(width - 1, -np.inf), best)), width)[:, ::-1] + row
        taken.append(total.argmax(axis=1))
        best = total.max(axis=1)
    counts = np.zeros(held.size, dtype=np.int64)
    for job in range(held.size - 1, -1, -1):
        counts[job] = taken[job][cap]
        cap -= int(counts[job])
    return complete(view, counts, held)


def _where(profile: cProfile.Profile) -> None:
    parts: dict[str, float] = {}
    for (file, _, _), (_, _, own, *_) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        name = next(
            (
                room
                for room in ("solvers", "models", "policies", "simulation")
                if f"apportion/{room}/" in file
            ),
            "numpy and builtins",
        )
        parts[name] = parts.get(name, 0.0) + own
    total = sum(parts.values())
    for name, seconds in sorted(parts.items(), key=lambda part: -part[1]):
        print(f"{name:<22}{seconds:8.2f} s{100 * seconds / total:7.1f} %")


if __name__ == "__main__":
    with in_one_line("python -m benchmarks.replay_speed"):
        main()
