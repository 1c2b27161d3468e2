"""Sia as here beside Sia as its published simulator has it: what three of its habits are worth."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from apportion.cluster.policies.names import believing
from apportion.cluster.policies.rounds.cluster_view import ClusterPolicy
from apportion.cluster.policies.rounds.sia import Sia
from apportion.cluster.simulation.rounds.accounts import summarise_cluster
from paper_repro.joint.ablation import ablation_run
from paper_repro.joint.tasks import Result, Task

__all__ = ["SIA", "run_sia", "sia_tasks"]

_SLOWDOWNS: Mapping[str, float] = MappingProxyType(
    {"cifar10": 1.8, "imagenet": 1.2, "yolov3": 1.2, "bert": 1.2, "deepspeech2": 1.2, "ncf": 1.5}
)
"""Calibration of Sia's published simulator: by how much its real cluster was slower than its profiles."""


@dataclass(frozen=True, slots=True)
class _Case:
    first_start_counts: bool = True
    belief: str = "true"
    calibrated: bool = False


SIA: Mapping[str, _Case] = MappingProxyType(
    {
        "as here": _Case(),
        "a first start is no restart": _Case(first_start_counts=False),
        "one-GPU profiles, scaling learnt": _Case(belief="bootstrapped"),
        "slow-downs of its calibration": _Case(calibrated=True),
        "all three": _Case(first_start_counts=False, belief="bootstrapped", calibrated=True),
    }
)


def sia_tasks(workloads: range, quick: bool) -> list[Task]:
    """Return the runs of this part."""
    return [Task("sia", "Sia", case, workload) for case in SIA for workload in workloads]


def run_sia(data: Path, task: Task) -> Result:
    """Simulate one."""
    case = SIA[task.case]
    begun = time.process_time()

    def make(types: tuple[str, ...], used: frozenset[str]) -> ClusterPolicy:
        policy = Sia(first_start_counts=case.first_start_counts)
        return believing(case.belief, policy, dict)

    run = ablation_run(
        data,
        task.seed,
        make,
        gap=False,
        theta=1.0,
        freezes=False,
        slowdowns=_SLOWDOWNS if case.calibrated else {},
    )
    return Result(task, summarise_cluster(run, task.case, time.process_time() - begun))
