"""All cluster policies on one workload of 160 jobs and 64 GPUs: figures and seconds, one core.

``python -m benchmarks.cluster_policies DATA [--workload 6] [--genetic]``: DATA is the folder that holds
``pollux``. The genetic search takes minutes and runs only when asked for.
"""

from __future__ import annotations

import time
from pathlib import Path

import click
from paper_repro.icefrog.freezing import freezing_of

from apportion.cli.running import in_one_line
from apportion.cluster.estimation.training import HOMOGENEOUS, read_applications
from apportion.cluster.policies.names import CLUSTER_POLICIES
from apportion.cluster.policies.rounds.remaining_work import knowing
from apportion.cluster.simulation.rounds.accounts import summarise_cluster
from apportion.cluster.simulation.rounds.job_states import RoundRules, SimulatedJobs
from apportion.cluster.simulation.rounds.scenario import Scenario, homogeneous, read_workload
from apportion.cluster.simulation.rounds.simulator import run_cluster

SLOW = ("genetic",)


@click.command()
@click.argument("data", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--workload", default=6, show_default=True)
@click.option("--genetic", is_flag=True, help="Run the genetic search too.")
def main(data: Path, workload: int, genetic: bool) -> None:
    profiles = read_applications(data / "pollux")
    jobs = read_workload(data / "pollux" / "workloads" / f"workload-{workload}.csv", profiles)
    print(
        f"{'policy':16} {'batch':9} {'avg s':>9} {'p99 s':>9} {'makespan':>9} {'restarts':>8} {'seconds':>8}"
    )
    total = 0.0
    for name, named in CLUSTER_POLICIES.items():
        if name in SLOW and not genetic:
            continue
        scenario = Scenario.of(jobs, profiles, homogeneous(16, 4, HOMOGENEOUS))
        begun = time.perf_counter()
        run = run_cluster(
            knowing(named.remaining, named.make(0)),
            scenario.nodes,
            SimulatedJobs(
                scenario.ground_truth(named.adaptive, freezing_of() if named.freezes else {}),
                scenario.submitted_s,
                scenario.requested_gpus,
                scenario.beliefs(named.adaptive, freezing_of() if named.freezes else {}),
            ),
            RoundRules(round_s=named.round_s),
        )
        row = summarise_cluster(run, name, time.perf_counter() - begun)
        total += row.seconds if name not in SLOW else 0.0
        batch = "its own" if named.adaptive else "user's"
        print(
            f"{name:16} {batch:9} {row.avg_jct_s:9.1f} {row.p99_jct_s:9.0f} {row.makespan_s:9.0f} "
            f"{row.restarts:9d} {row.seconds:9.2f}"
        )
    print(f"all but the genetic search: {total:.1f} s")


if __name__ == "__main__":
    with in_one_line("python -m benchmarks.cluster_policies"):
        main(standalone_mode=False)
