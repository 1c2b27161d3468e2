"""Mean completion time against the worst finish-time ratio, beside policies made for fairness."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from apportion.cluster.policies.rounds.cluster_view import ClusterPolicy
from apportion.cluster.policies.rounds.costate import Costate
from apportion.cluster.policies.rounds.names import CLUSTER_POLICIES
from apportion.cluster.policies.rounds.remaining_work import knowing
from apportion.cluster.simulation.rounds.accounts import FairnessAccount, summarise_fairness
from apportion.cluster.simulation.rounds.conditions import RoundRules, SimulatedJobs
from apportion.cluster.simulation.rounds.simulator import run_cluster
from paper_repro.icefrog.cases import WORKLOADS, Case, prepared
from paper_repro.intervals import Mean
from paper_repro.progress import Progress

__all__ = ["fairness_rows"]


def _named(name: str) -> Callable[[], ClusterPolicy]:
    return partial(CLUSTER_POLICIES[name].make, 0)


def _costate(fairness: float, remaining: str = "true") -> Callable[[], ClusterPolicy]:
    return lambda: knowing(remaining, Costate(fairness=fairness))


POLICIES: Mapping[str, tuple[str, Callable[[], ClusterPolicy]]] = MappingProxyType(
    {
        "afs": ("afs", _named("afs")),
        "sia": ("sia", _named("sia")),
        "themis": ("themis", _named("themis")),
        "shockwave": ("shockwave", _named("shockwave")),
        "costate": ("costate", _costate(0.0)),
        "costate, power 1": ("costate", _costate(1.0)),
        "costate-fair, power 2": ("costate", _costate(2.0)),
        "costate, power 4": ("costate", _costate(4.0)),
        "costate, attained": ("costate", _costate(0.0, "attained")),
        "costate-fair, attained": ("costate", _costate(2.0, "attained")),
    }
)
"""By name of the row: whose rounds and batches, and the policy."""


def fairness_rows(data: Path, gpus: int = 48) -> list[dict[str, Any]]:
    """Run every policy on the ten workloads and return a row each."""
    found: list[dict[str, Any]] = []
    first: list[float] = []
    progress = Progress("runs", len(POLICIES) * len(WORKLOADS))
    for name, (base, make) in POLICIES.items():
        named = CLUSTER_POLICIES[base]
        means, worst, above = [], [], []
        for workload in WORKLOADS:
            made = prepared(data, Case(workload, base, gpus=gpus))
            beliefs = made.beliefs(named.adaptive)
            account = FairnessAccount(made.nodes, beliefs, made.requested_gpus, None)
            jobs = SimulatedJobs(
                made.ground_truth(named.adaptive), made.submitted_s, made.requested_gpus, beliefs
            )
            run = run_cluster(make(), made.nodes, jobs, RoundRules(round_s=named.round_s), account=account)
            fair = summarise_fairness(run, account)
            means.append(float((run.completed_s - run.submitted_s).mean()))
            worst.append(fair.worst_finish_time_ratio or np.nan)
            above.append(fair.share_above_1 or 0.0)
            progress.step()
        first = first or means
        less = [1.0 - one / other for one, other in zip(means, first, strict=True)]
        found.append(
            {
                "policy": name,
                "average, s": Mean.of(means).words(),
                "less than afs, per cent": Mean.of(less).words(100.0, 1),
                "worst finish-time ratio": Mean.of(worst).words(1.0, 2),
                "jobs above 1, per cent": Mean.of(above).words(100.0, 1),
            }
        )
    return found
