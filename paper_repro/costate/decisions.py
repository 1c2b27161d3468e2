"""How long a decision takes: all jobs of a workload at once on one GPU type, thousands on three."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from apportion.cluster.policies.names import CLUSTER_POLICIES
from apportion.cluster.policies.rounds.cluster_view import ClusterPlan, ClusterPolicy, ClusterView
from apportion.cluster.policies.rounds.remaining_work import knowing
from apportion.cluster.simulation.rounds.job_states import RoundRules, SimulatedJobs
from apportion.cluster.simulation.rounds.scenario import Scenario, parse_nodes, read_workload
from apportion.cluster.simulation.rounds.simulator import run_cluster
from paper_repro.icefrog.cases import Case, prepared
from paper_repro.joint.ablation import known_profiles
from paper_repro.progress import Progress

__all__ = ["decision_rows"]

MACHINES = "aws:188x4,rtx:94x8,dgx-ext:62x8"
"""Sia's three types, about as many times larger as 2,000 is than 64."""
POLICIES: tuple[tuple[str, str], ...] = (("sia", "true"), ("costate", "true"), ("costate", "attained"))


@dataclass(slots=True)
class _Timed:
    """A policy and the processor time of its decisions."""

    policy: ClusterPolicy
    seconds: list[float] = field(default_factory=list)

    def __call__(self, view: ClusterView) -> ClusterPlan:
        begun = time.process_time()
        plan = self.policy(view)
        self.seconds.append(time.process_time() - begun)
        return plan


def _one_type(data: Path) -> Scenario:
    return prepared(data, Case("philly-1", "costate"))


def _three_types(data: Path, count: int = 2000) -> Scenario:
    profiles, folder = known_profiles(data), data / "sia" / "workloads" / "philly"
    jobs = [job for at in range(1, 9) for job in read_workload(folder / f"workload-{at}.csv", profiles)]
    many = [replace(jobs[at % len(jobs)], name=f"job-{at}") for at in range(count)]
    return Scenario.of(many, profiles, parse_nodes(MACHINES))


CASES: Mapping[str, Any] = MappingProxyType(
    {"160 jobs, 64 GPUs": (_one_type, 20), "2,000 jobs, 2,000 GPUs of three types": (_three_types, 5)}
)
"""What makes the jobs, and how many rounds are timed after a first one, which looks up what was measured."""


def decision_rows(data: Path) -> list[dict[str, Any]]:
    """Time every policy's decisions on both clusters and return a row each."""
    found = []
    progress = Progress("clusters by policy", len(CASES) * len(POLICIES))
    for name, (make, rounds) in CASES.items():
        made: Scenario = make(data)
        at_once = np.zeros(len(made.jobs))
        for policy, remaining in POLICIES:
            named = CLUSTER_POLICIES[policy]
            timed = _Timed(knowing(remaining, named.make(0)))
            jobs = SimulatedJobs(
                made.ground_truth(named.adaptive), at_once, made.requested_gpus, made.beliefs(named.adaptive)
            )
            # a first round decides nothing yet, a second looks up what was measured
            run_cluster(timed, made.nodes, jobs, RoundRules(limit_s=60.0 * (rounds + 2)))
            own = 1000.0 * np.array(timed.seconds[1:])
            found.append(
                {
                    "cluster": name,
                    "policy": policy,
                    "remaining work": remaining,
                    "CPU ms a decision, median": round(float(np.median(own)), 1),
                    "CPU ms a decision, most": round(float(own.max()), 1),
                    "decisions": own.size,
                }
            )
            progress.step()
    return found
