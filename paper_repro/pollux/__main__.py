"""Pollux' exact search beside the published one: ``python -m paper_repro.pollux --data FOLDER``.

FOLDER holds ``pollux/traces`` (profiles of six applications) and ``philly/philly_jobs.csv.gz``, from which
the eight workloads are drawn. Writes ``published.json`` (``costate.json`` with ``--search costate``): average
completion times as published (genetic search; ``results-jobload/pollux-1.0/summary.json`` of the artifact)
and those of a search or policy of ours, on the same 16 nodes of 4 GPUs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from apportion.cli.running import in_one_line
from apportion.cluster.estimation.training import HOMOGENEOUS, read_applications
from apportion.cluster.policies.names import REMAINING, cluster_policy
from apportion.cluster.policies.rounds.remaining_work import knowing
from apportion.cluster.simulation.rounds.accounts import summarise_cluster
from apportion.cluster.simulation.rounds.job_states import SimulatedJobs
from apportion.cluster.simulation.rounds.scenario import Scenario, homogeneous
from apportion.cluster.simulation.rounds.simulator import run_cluster
from paper_repro.intervals import Mean
from paper_repro.pollux.drawn_workloads import drawn, read_philly
from paper_repro.progress import Progress
from paper_repro.shipped import NEEDS_DATA, average_completion
from paper_repro.tables import Table, markdown, write_table

PUBLISHED_S: Mapping[int, float] = MappingProxyType(
    {
        1: 2088.76875,
        2: 3322.94375,
        3: 2188.49375,
        4: 2720.98125,
        5: 2673.7,
        6: 2446.13125,
        7: 3616.14375,
        8: 2951.90625,
    }
)
"""Average completion times of Pollux' published simulator, by workload."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the workloads, print and write the table after each."""
    parser = argparse.ArgumentParser(prog="python -m paper_repro.pollux")
    parser.add_argument("--data", type=Path, help="folder with pollux and philly")
    parser.add_argument("--out", type=Path, default=Path("pollux-out"))
    parser.add_argument("--workloads", type=int, nargs="+", default=list(PUBLISHED_S), choices=PUBLISHED_S)
    parser.add_argument("--search", choices=("pollux", "genetic", "costate"), default="pollux")
    parser.add_argument(
        "--remaining", choices=REMAINING, default="true", help="what is known of remaining work"
    )
    parser.add_argument(
        "--quick", action="store_true", help="both searches on the example's jobs, without data"
    )
    given = parser.parse_args(arguments)
    if given.quick:
        print("\n".join(markdown(average_completion(("pollux", "genetic"), {}))))
        return
    if given.data is None:
        parser.error(NEEDS_DATA)
    profiles = read_applications(given.data / "pollux")
    jobs = read_philly(given.data / "philly" / "philly_jobs.csv.gz")
    nodes, named = homogeneous(16, 4, HOMOGENEOUS), cluster_policy(given.search)
    rows: list[dict[str, Any]] = []
    name = given.search if given.remaining == "true" else f"{given.search}, {given.remaining}"
    file = "published" if name == "pollux" else name.replace(", ", "_")
    progress = Progress("workloads", len(given.workloads))
    for number in given.workloads:
        scenario = Scenario.of(drawn(jobs, number), profiles, nodes)
        begun = time.process_time()
        run = run_cluster(
            knowing(given.remaining, named.make(0)),
            nodes,
            SimulatedJobs(
                scenario.ground_truth(named.adaptive),
                scenario.submitted_s,
                scenario.requested_gpus,
                scenario.beliefs(named.adaptive),
            ),
        )
        own = summarise_cluster(run, given.search, time.process_time() - begun)
        row = {"workload": number, "jobs done": own.jobs_done, "published, s": PUBLISHED_S[number]}
        over = own.avg_jct_s / PUBLISHED_S[number]
        row |= {"search": name, "average, s": own.avg_jct_s, "over published": over}
        rows.append(row | {"CPU seconds": own.seconds})
        progress.step()
        print(list(markdown(rows[-1:]))[-1], flush=True)
        told = [*rows, _mean(name, [one["over published"] for one in rows])]
        seeds = f"workloads {', '.join(str(row['workload']) for row in rows)}; seed of the genetic search 0"
        write_table(given.out / f"{file}.json", Table("paper_repro.pollux", told, seeds))
    print("\n".join(markdown(rows)))


def _mean(search: str, ratios: Sequence[float]) -> dict[str, Any]:
    mean = Mean.of(ratios)
    found = {"workload": "all", "search": search, "over published": mean.value, "half-width": mean.half}
    return found | {"least": min(ratios), "most": max(ratios)}


if __name__ == "__main__":
    with in_one_line("python -m paper_repro.pollux"):
        main()
