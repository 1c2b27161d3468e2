"""Prices of work on GPUs of three types: Sia's cluster, restarts and eight workloads."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from apportion.cluster.policies.names import CLUSTER_POLICIES
from apportion.cluster.policies.rounds.cluster_view import ClusterPolicy
from apportion.cluster.policies.rounds.remaining_work import knowing
from apportion.cluster.simulation.rounds.accounts import ClusterSummary, summarise_cluster
from apportion.cluster.simulation.rounds.completion_bound import completion_bound
from apportion.cluster.simulation.rounds.job_states import RoundRules
from paper_repro.costate.bounds import above, way_gone
from paper_repro.intervals import Mean
from paper_repro.joint.ablation import ablation_run, ablation_scenario, restarts_s
from paper_repro.progress import Progress

__all__ = ["three_types_rows"]

WORKLOADS = range(1, 9)
POLICIES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "sia": ("sia", "true"),
        "costate": ("costate", "true"),
        "costate, by-application": ("costate", "by-application"),
        "costate, attained": ("costate", "attained"),
        "costate-fair": ("costate-fair", "true"),
    }
)
"""By name of the row: the policy, and what it is told of remaining work."""


def _made(policy: str, remaining: str, _types: tuple[str, ...], _used: frozenset[str]) -> ClusterPolicy:
    return knowing(remaining, CLUSTER_POLICIES[policy].make(0))


def three_types_rows(data: Path) -> list[dict[str, Any]]:
    """Run every policy on the eight workloads and return a row each."""
    ends: dict[str, list[ClusterSummary]] = {}
    undercut = []  # what no policy undercuts, searched from the completions under the first row of costate
    progress = Progress("runs", len(POLICIES) * len(WORKLOADS))
    for name, (policy, remaining) in POLICIES.items():
        ends[name] = []
        for workload in WORKLOADS:
            begun = time.process_time()
            run = ablation_run(
                data, workload, partial(_made, policy, remaining), gap=False, theta=1.0, freezes=False
            )
            ends[name].append(summarise_cluster(run, name, time.process_time() - begun))
            if name == "costate":
                made = ablation_scenario(data, workload)
                rules = RoundRules(restart_s=restarts_s(made))
                undercut.append(completion_bound(made, [rules], run.completed_s).mean_s / 3600.0)
            progress.step()
    first = [_hours(one.avg_jct_s) for one in ends["sia"]]
    return [_row(name, own, first, undercut) for name, own in ends.items()]


def _hours(seconds: float | None) -> float:
    assert seconds is not None, "a job never ended"
    return seconds / 3600.0


def _row(
    name: str, own: Sequence[ClusterSummary], first: Sequence[float], undercut: Sequence[float]
) -> dict[str, Any]:
    means = [_hours(one.avg_jct_s) for one in own]
    less = [1.0 - one / other for one, other in zip(means, first, strict=True)]
    return {
        "policy": name,
        "average, h": Mean.of(means).words(1.0, 2),
        "less than sia, per cent": Mean.of(less).words(100.0, 1),
        "above the bound, per cent": above(means, undercut),
        "of the way from sia to the bound, per cent": way_gone(first, means, undercut),
        "99th percentile, h": Mean.of([_hours(one.p99_jct_s) for one in own]).words(1.0, 1),
        "GPU-hours": Mean.of([one.gpu_hours for one in own]).words(),
    }
