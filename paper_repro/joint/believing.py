"""IceFrog and the joint policy under what they may know of GPU types: the truth, likeness, sight, nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from apportion.cluster.policies.names import BELIEFS, believing
from apportion.cluster.policies.rounds.cluster_view import ClusterPolicy
from apportion.cluster.policies.rounds.joint import Joint
from apportion.cluster.policies.rounds.learned_speeds import similar_speeds
from apportion.cluster.simulation.rounds.accounts import summarise_cluster
from paper_repro.joint.ablation import POOL, ablation_run, known_profiles
from paper_repro.joint.policies.lifetime_discount import LifetimeDiscount
from paper_repro.joint.tasks import Result, Task

__all__ = ["BELIEVERS", "belief_tasks", "run_beliefs"]

BELIEVERS: Mapping[str, tuple[Callable[[], ClusterPolicy], bool]] = MappingProxyType(
    {
        "IceFrog": (Joint, False),
        "joint, with gap nodes": (lambda: LifetimeDiscount(Joint(), POOL), True),
    }
)
"""How the policy is made, and whether there are gap nodes. Without them the joint policy is IceFrog."""
_THETA = 1.0


def belief_tasks(workloads: range, quick: bool) -> list[Task]:
    """Return the runs of this part."""
    names = list(BELIEVERS)[: 1 if quick else None]
    return [
        Task("beliefs", name, belief, workload)
        for name in names
        for belief in BELIEFS
        for workload in workloads
    ]


def run_beliefs(data: Path, task: Task) -> Result:
    """Simulate one; what is similar is told by all applications of the workload but the job's own."""
    make, gap = BELIEVERS[task.setting]
    begun = time.process_time()

    def believed(types: tuple[str, ...], used: frozenset[str]) -> ClusterPolicy:
        profiles = {name: profile for name, profile in known_profiles(data).items() if name in used}
        return believing(task.case, make(), lambda: similar_speeds(profiles, types, {}))

    run = ablation_run(data, task.seed, believed, gap=gap, theta=_THETA, freezes=True)
    return Result(task, summarise_cluster(run, f"{task.setting}, {task.case}", time.process_time() - begun))
