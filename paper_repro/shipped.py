"""A small cluster study of what ships with the project: every policy on the example's 40 jobs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from apportion.cluster.estimation.training import HOMOGENEOUS, read_applications
from apportion.cluster.estimation.training.freezing_profile import FreezingProfiles
from apportion.cluster.policies.names import cluster_policy
from apportion.cluster.policies.rounds.remaining_work import knowing
from apportion.cluster.simulation.rounds.accounts import summarise_cluster
from apportion.cluster.simulation.rounds.job_states import RoundRules, SimulatedJobs
from apportion.cluster.simulation.rounds.scenario import Scenario, homogeneous, read_workload
from apportion.cluster.simulation.rounds.simulator import run_cluster
from paper_repro.progress import Progress
from paper_repro.sources import REPOSITORY

__all__ = ["NEEDS_DATA", "average_completion"]

NEEDS_DATA = "--data FOLDER is missing; --quick without it is a small table of what ships with the project"
"""What a study says that was asked for its whole self without its data."""
_EXAMPLE = REPOSITORY / "examples" / "cluster"
_NODES, _GPUS = 4, 4


def average_completion(policies: Sequence[str], freezing: FreezingProfiles) -> list[dict[str, Any]]:
    """Return a row a policy: average completion time and its ratio to the first one's.

    Parameters
    ----------
    policies
        Names as `apportion simulate --policy` knows them.
    freezing
        By application of the example, what freezing saves and costs; empty: none is frozen.
    """
    applications = read_applications(_EXAMPLE / "profiles")
    jobs = read_workload(_EXAMPLE / "workload.csv", applications)
    scenario = Scenario.of(jobs, applications, homogeneous(_NODES, _GPUS, HOMOGENEOUS))
    progress, rows = Progress("policies", len(policies)), list[dict[str, Any]]()
    for name in policies:
        named = cluster_policy(name)
        begun = time.process_time()
        run = run_cluster(
            knowing(named.remaining, named.make(0)),
            scenario.nodes,
            SimulatedJobs(
                scenario.ground_truth(named.adaptive, freezing),
                scenario.submitted_s,
                scenario.requested_gpus,
                scenario.beliefs(named.adaptive, freezing),
            ),
            RoundRules(round_s=named.round_s),
        )
        own = summarise_cluster(run, name, time.process_time() - begun)
        first = float(rows[0]["average, s"]) if rows else own.avg_jct_s
        row = {"policy": name, "jobs done": own.jobs_done, "average, s": own.avg_jct_s}
        rows.append(row | {"to the first": own.avg_jct_s / first})
        progress.step()
    return rows
