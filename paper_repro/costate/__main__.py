"""Mean completion time under prices of work and under published policies: ``python -m paper_repro.costate``.

Ten workloads of 160 jobs, as in `paper_repro.icefrog`, on 48 and 64 GPUs. Writes ``costate_48.json`` and
``costate_64.json``: a row a policy and what it is told of remaining work, with how much less the average
completion time is than that of AFS and Sia as published; intervals are 95 % by Student's t over pairs on the
same workload.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from apportion.cli.running import in_one_line
from paper_repro.icefrog.cases import WORKLOADS, Case, prepared
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


def rows_of(runs: Runs, gpus: int) -> list[dict[str, Any]]:
    """Return the table's rows for so many GPUs."""
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
        found = rows_of(runs, gpus)
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
