"""The joint policy on a heterogeneous cluster with gap nodes: what each ingredient adds."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from apportion.cluster.estimation.training import Application, read_applications
from apportion.cluster.estimation.training.application import GoodputTable
from apportion.cluster.policies.rounds.cluster_view import ClusterPolicy
from apportion.cluster.policies.rounds.icefrog import DepthGates
from apportion.cluster.policies.rounds.joint import Joint, as_requested
from apportion.cluster.policies.rounds.learned_speeds import TypeAgnostic
from apportion.cluster.simulation.idle_trace import generated_trace
from apportion.cluster.simulation.rounds.accounts import summarise_cluster
from apportion.cluster.simulation.rounds.job_states import RoundRules, SimulatedJobs
from apportion.cluster.simulation.rounds.scenario import Scenario, parse_nodes, read_workload
from apportion.cluster.simulation.rounds.simulator import ClusterRun, run_cluster
from paper_repro.icefrog.freezing import freezing_of
from paper_repro.joint.gap_nodes import GapNodes
from paper_repro.joint.policies.lifetime_discount import LifetimeDiscount
from paper_repro.joint.tasks import Result, Task

__all__ = [
    "ABLATION",
    "FULL",
    "POOL",
    "ablation_run",
    "ablation_scenario",
    "ablation_tasks",
    "known_profiles",
    "restarts_s",
    "run_ablation",
]

MACHINES = "aws:6x4,rtx:3x8,dgx-ext:2x8"
POOL, POOL_GPUS, POOL_TYPE = "gap", 4, "azure"
POOL_NODES, POOL_DAYS = 64, 3.0
RESTART_S: Mapping[str, float] = MappingProxyType(
    {"deepspeech2": 25.0, "imagenet": 250.0, "cifar10": 30.0, "bert": 120.0, "yolov3": 45.0, "ncf": 30.0}
)
"""As in Sia's published code; ncf, which it does not name, as in Pollux."""
_THETAS = (0.5, 1.0)
_NEVER = DepthGates(deepest=0.0)


@dataclass(frozen=True, slots=True)
class _Case:
    """A row: how its policy is made, and whether there are gap nodes and frozen layers."""

    make: Callable[[], ClusterPolicy]
    gap: bool
    freezes: bool


FULL = "all of it"
ABLATION: Mapping[str, _Case] = MappingProxyType(
    {
        "GPUs as asked for, types alike": _Case(
            lambda: TypeAgnostic(Joint(as_requested, _NEVER)), False, False
        ),
        "+ architecture": _Case(lambda: Joint(as_requested, _NEVER), False, False),
        "+ elastic GPU counts": _Case(lambda: Joint(gates=_NEVER), False, False),
        "+ frozen depth": _Case(Joint, False, True),
        "+ gap nodes": _Case(Joint, True, True),
        FULL: _Case(lambda: LifetimeDiscount(Joint(), POOL), True, True),
        "without architecture": _Case(lambda: TypeAgnostic(LifetimeDiscount(Joint(), POOL)), True, True),
        "without elastic GPU counts": _Case(lambda: LifetimeDiscount(Joint(as_requested), POOL), True, True),
        "without frozen depth": _Case(lambda: LifetimeDiscount(Joint(gates=_NEVER), POOL), True, False),
    }
)
"""Without gap nodes is the row ``+ frozen depth``, without the discount ``+ gap nodes``."""


def ablation_tasks(workloads: range, quick: bool) -> list[Task]:
    """Return the runs of this part; what freezes nothing runs once for all thetas."""
    names = [name for name in ABLATION if not quick or name.startswith("+") or name == FULL]
    names = [
        name for name in names if not quick or ABLATION[name].make is not ABLATION["+ architecture"].make
    ]
    return [
        Task("joint", f"theta {theta:g}", name, workload)
        for name in names
        for theta in (_THETAS if ABLATION[name].freezes else _THETAS[-1:])
        if not quick or theta == _THETAS[-1]
        for workload in workloads
    ]


def run_ablation(data: Path, task: Task) -> Result:
    """Simulate one."""
    case, theta = ABLATION[task.case], float(task.setting.split(" ")[1])
    begun = time.process_time()
    run = ablation_run(
        data, task.seed, lambda types, used: case.make(), gap=case.gap, theta=theta, freezes=case.freezes
    )
    return Result(task, summarise_cluster(run, task.case, time.process_time() - begun))


def ablation_run(
    data: Path,
    workload: int,
    make: Callable[[tuple[str, ...], frozenset[str]], ClusterPolicy],
    *,
    gap: bool,
    theta: float,
    freezes: bool,
    slowdowns: Mapping[str, float] = MappingProxyType({}),
) -> ClusterRun:
    """Simulate a Philly workload of Sia's artifact on the study's cluster.

    Parameters
    ----------
    data
        The data folder.
    workload
        1 to 8; the seed of the gap nodes too.
    make
        Given GPU types and the applications of the workload, the policy.
    gap
        Whether there are gap nodes.
    theta
        Scale of the frozen penalty, true and believed.
    freezes
        Whether layers may be frozen.
    slowdowns
        By how much jobs run slower than was measured, by application.
    """
    scenario, present = ablation_scenario(data, workload), None
    nodes = scenario.nodes
    if gap:
        pool = _gap(workload)
        nodes, present = pool.joined(nodes), pool.present(nodes)
        scenario = replace(scenario, nodes=nodes)
    freezing = freezing_of() if freezes else {}
    return run_cluster(
        make(nodes.types, frozenset(job.application for job in scenario.jobs)),
        nodes,
        SimulatedJobs(
            scenario.ground_truth(True, freezing, theta, slowdowns),
            scenario.submitted_s,
            scenario.requested_gpus,
            scenario.beliefs(True, freezing, theta),
        ),
        RoundRules(restart_s=restarts_s(scenario), rebuild_s=5.0, present=present),
    )


def ablation_scenario(data: Path, workload: int) -> Scenario:
    """Return a Philly workload of Sia's artifact on the study's cluster, without gap nodes."""
    profiles, tables = _profiles(data)
    jobs = read_workload(data / "sia" / "workloads" / "philly" / f"workload-{workload}.csv", profiles)
    return Scenario(jobs, tuple(profiles[job.application] for job in jobs), parse_nodes(MACHINES), tables)


def restarts_s(scenario: Scenario) -> NDArray[np.float64]:
    """Return float64 [jobs]: the standstill after a restart."""
    return np.array([RESTART_S[job.application] for job in scenario.jobs])


def known_profiles(data: Path) -> Mapping[str, Application]:
    """Return the measured profiles, gap nodes' type among them."""
    return _profiles(data)[0]


def _gap(seed: int) -> GapNodes:
    return GapNodes(generated_trace(seed, POOL_NODES, POOL_DAYS), POOL_GPUS, POOL, POOL_TYPE)


@cache
def _profiles(data: Path) -> tuple[Mapping[str, Application], Mapping[str, GoodputTable]]:
    """Return profiles and goodput tables, shared by all runs of a process: filling them takes seconds."""
    profiles = _gap(0).measured(read_applications(data / "sia"))
    return profiles, {name: GoodputTable(profile) for name, profile in profiles.items()}
