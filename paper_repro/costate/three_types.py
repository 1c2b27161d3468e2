"""Prices of work on GPUs of three types: Sia's cluster, restarts and eight workloads."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from apportion.cluster.policies.rounds.cluster_view import ClusterPolicy
from apportion.cluster.policies.rounds.names import CLUSTER_POLICIES
from apportion.cluster.policies.rounds.remaining_work import knowing
from paper_repro.intervals import Mean
from paper_repro.joint.ablation import ablation_run
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
    found: list[dict[str, Any]] = []
    first: list[float] = []
    progress = Progress("runs", len(POLICIES) * len(WORKLOADS))
    for name, (policy, remaining) in POLICIES.items():
        make = partial(_made, policy, remaining)
        means, p99, hours = [], [], []
        for workload in WORKLOADS:
            begun = time.process_time()
            summary = ablation_run(data, workload, make, gap=False, theta=1.0, freezes=False)(
                name, time.process_time() - begun
            )
            assert summary.avg_jct_s is not None and summary.p99_jct_s is not None
            means.append(summary.avg_jct_s / 3600.0)
            p99.append(summary.p99_jct_s / 3600.0)
            hours.append(summary.gpu_hours)
            progress.step()
        first = first or means
        less = [1.0 - one / other for one, other in zip(means, first, strict=True)]
        found.append(
            {
                "policy": name,
                "average, h": Mean.of(means).words(1.0, 2),
                "less than sia, per cent": Mean.of(less).words(100.0, 1),
                "99th percentile, h": Mean.of(p99).words(1.0, 1),
                "GPU-hours": Mean.of(hours).words(),
            }
        )
    return found
