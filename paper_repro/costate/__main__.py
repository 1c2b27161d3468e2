"""Mean completion time under prices of work and under published policies: ``python -m paper_repro.costate``.

Ten workloads of 160 jobs, as in `paper_repro.icefrog`, on 48 and 64 GPUs. Writes ``costate_48.json`` and
``costate_64.json``: a row a policy and what it is told of remaining work, with how much less the average
completion time is than that of AFS and Sia as published, how far it is above what no policy undercuts
(`completion_bound`), and what it is paid with; intervals are 95 % by Student's t over pairs on the same
workload.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from apportion.cli.running import in_one_line
from apportion.cluster.policies.rounds.names import CLUSTER_POLICIES
from apportion.cluster.simulation.rounds.completion_bound import completion_bound
from apportion.cluster.simulation.rounds.conditions import RoundRules
from paper_repro.icefrog.cases import WORKLOADS, Case, Result, prepared
from paper_repro.icefrog.store import Runs
from paper_repro.intervals import Mean
from paper_repro.shipped import NEEDS_DATA, average_completion
from paper_repro.tables import Table, markdown, write_table

ROWS: tuple[tuple[str, str], ...] = (
    ("afs", "true"),
    ("sia", "true"),
    ("pollux", "true"),
    ("titan", "true"),
    ("costate", "true"),
    ("afs", "by-application"),
    ("costate", "by-application"),
    ("afs", "attained"),
    ("costate", "attained"),
    ("icefrog", "true"),
    ("afs+depth", "true"),
    ("costate+depth", "true"),
)
"""Policies, and what they are told; ``+depth``: frozen afterwards where they run, theta 1."""
AGAINST = ("afs", "sia", "pollux")
GPUS = (48, 64)
PAID: Mapping[str, Callable[[Result], float]] = MappingProxyType(
    {
        "99th percentile": lambda one: one.p99_jct_s,
        "makespan": lambda one: one.makespan_s,
        "GPU-hours": lambda one: one.gpu_hours,
    }
)
"""What a low mean is paid with."""


def bound_of(data: Path, runs: Runs, workload: str, gpus: int) -> float:
    """Return the mean completion time that no policy undercuts that freezes nothing."""
    case = _case(workload, "costate", "true", gpus)
    made = prepared(data, case)
    completed_s = made.submitted_s + np.array(runs[case].jct_s)
    rules = [RoundRules(round_s=CLUSTER_POLICIES[name].round_s) for name, _ in ROWS if "+" not in name]
    return completion_bound(made, rules, completed_s).mean_s


def rows_of(runs: Runs, gpus: int, bounds: Sequence[float]) -> list[dict[str, Any]]:
    """Return the table's rows for so many GPUs, given what no policy undercuts on every workload."""
    found = []
    for policy, remaining in ROWS:
        own = [runs[_case(workload, policy, remaining, gpus)] for workload in WORKLOADS]
        row: dict[str, Any] = {
            "policy": policy,
            "remaining work": remaining,
            "average, s": Mean.of([one.avg_jct_s for one in own]).words(),
        }
        for other in AGAINST:
            theirs = [runs[_case(workload, other, "true", gpus)] for workload in WORKLOADS]
            less = [1.0 - one.avg_jct_s / beside.avg_jct_s for one, beside in zip(own, theirs, strict=True)]
            row[f"less than {other}, per cent"] = Mean.of(less).words(100.0, 1)
        unfrozen = "+" not in policy and not CLUSTER_POLICIES[policy].freezes
        above = [one.avg_jct_s / bound - 1.0 for one, bound in zip(own, bounds, strict=True)]
        row["above the bound, per cent"] = Mean.of(above).words(100.0, 1) if unfrozen else ""
        first = [runs[_case(workload, *ROWS[0], gpus)] for workload in WORKLOADS]
        for name, figure in PAID.items():
            more = [figure(one) / figure(beside) - 1.0 for one, beside in zip(own, first, strict=True)]
            row[f"{name} more than afs, per cent"] = Mean.of(more).words(100.0, 1)
        row["restarts"] = round(Mean.of([float(one.restarts) for one in own]).value)
        found.append(row | {"CPU seconds": sum(one.seconds for one in own)})
    return found


def _case(workload: str, policy: str, remaining: str, gpus: int) -> Case:
    return Case(workload, policy, gpus=gpus, remaining=remaining)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is not known yet, print and write the tables."""
    parser = argparse.ArgumentParser(prog="python -m paper_repro.costate")
    parser.add_argument("--data", type=Path, help="folder with pollux, sia and layer_freezing")
    parser.add_argument("--out", type=Path, default=Path("costate-out"))
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--gpus", type=int, nargs="+", default=list(GPUS), choices=GPUS)
    parser.add_argument("--quick", action="store_true", help="two policies on the example's jobs")
    given = parser.parse_args(arguments)
    if given.quick:
        print("\n".join(markdown(average_completion(("afs", "costate"), {}))))
        return
    if given.data is None:
        parser.error(NEEDS_DATA)
    prepared(given.data, _case(WORKLOADS[0], "afs", "true", 48))  # what is missing is said at once
    given.out.mkdir(parents=True, exist_ok=True)
    runs = Runs(given.data, given.out / "runs.jsonl", given.workers)
    for gpus in given.gpus:
        cases = [_case(workload, *row, gpus) for workload in WORKLOADS for row in ROWS]
        runs.run(cases)
        found = rows_of(runs, gpus, [bound_of(given.data, runs, workload, gpus) for workload in WORKLOADS])
        print("\n".join(markdown(found)))
        write_table(
            given.out / f"costate_{gpus}.json",
            Table(
                f"paper_repro.costate --gpus {gpus}", found, "the ten workloads; the policies draw nothing"
            ),
        )


if __name__ == "__main__":
    with in_one_line("python -m paper_repro.costate"):
        main()
