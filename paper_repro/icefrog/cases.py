"""One simulated run: what is asked, and what came of it."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from apportion.cluster.estimation.training import HOMOGENEOUS, Application, read_applications
from apportion.cluster.estimation.training.application import GoodputTable
from apportion.cluster.estimation.training.freezing_profile import FreezingProfiles
from apportion.cluster.policies.names import cluster_policy
from apportion.cluster.policies.rounds.cluster_view import ClusterPlan, ClusterPolicy, ClusterView
from apportion.cluster.policies.rounds.icefrog import DepthGates, IceFrog, LearningIceFrog
from apportion.cluster.policies.rounds.pollux import Pollux
from apportion.cluster.policies.rounds.remaining_work import knowing
from apportion.cluster.policies.rounds.sia import Sia, Titan
from apportion.cluster.simulation.rounds.accounts import summarise_cluster
from apportion.cluster.simulation.rounds.job_states import RoundRules, SimulatedJobs
from apportion.cluster.simulation.rounds.scenario import Scenario, homogeneous, read_workload
from apportion.cluster.simulation.rounds.simulator import run_cluster
from apportion.core.errors import InvalidOption
from paper_repro.icefrog.account import FrozenAccount
from paper_repro.icefrog.freezing import freezing_of
from paper_repro.icefrog.frozen_after import FrozenAfter

__all__ = ["WORKLOADS", "Case", "Result", "prepared", "run_case"]

WORKLOADS = (*(f"philly-{n}" for n in range(1, 9)), "pollux-1", "pollux-6")
"""Sia's eight Philly workloads and the two of Pollux that are at hand, 160 jobs each."""

Observer = Callable[[ClusterView, ClusterPlan], None]

_LONGEST_S = 10 * 86400.0


class Case(msgspec.Struct, frozen=True, omit_defaults=True):
    """A run; every field that is not told is the ordinary one.

    Attributes
    ----------
    workload
        One of `WORKLOADS`.
    policy
        A name of `policies.cluster.names`, or ``NAME+depth``: its GPUs, and depths chosen afterwards.
    gpus
        GPUs of the cluster, four to a node.
    load
        Submission times are divided by it.
    adaptive
        Whether jobs choose their batch by themselves; ``None``: as the policy's jobs do.
    theta, believed_theta
        True and believed scale of the frozen penalty; ``None``: believed is the truth.
    stand_in
        Whose step times by depth stand in for cifar10's and imagenet's; ``None``: these are not frozen.
    belief
        Believed psi: ``true``, ``phase-agnostic`` or ``borrowed`` (another network's).
    noise
        Error of the believed throughput, standard deviation of its logarithm.
    deepest, warm_up, budget, penalty_cap, weigh_restarts
        As of `IceFrog`.
    rebuild_s
        Standstill where depth alone changes, true and believed.
    round_s
        Seconds between decisions; ``None``: as the policy's authors set them.
    power
        The knob p of Sia, Pollux and Titan; ``None``: as published.
    remaining
        What the policy is told of remaining work; see `apportion simulate --remaining`.
    spread
        Standard deviation of the logarithm of a job's work over its application's.
    early
        Share of the jobs that end after a tenth to all of their epochs, drawn evenly.
    restart_s
        Standstill after a restart.
    jobs
        80: every second one of the 160; 320: those of the next of `WORKLOADS` too, in the same hours.
    """

    workload: str
    policy: str
    gpus: int = 64
    load: float = 1.0
    adaptive: bool | None = None
    theta: float = 1.0
    believed_theta: float | None = None
    stand_in: str | None = "yolov3"
    belief: str = "true"
    noise: float = 0.0
    deepest: float = 0.7
    warm_up: float = 0.1
    budget: float | None = None
    penalty_cap: float | None = None
    weigh_restarts: bool = True
    rebuild_s: float = 5.0
    round_s: float | None = None
    power: float | None = None
    remaining: str = "true"
    spread: float = 0.0
    early: float = 0.0
    restart_s: float = 30.0
    jobs: int = 160


class Result(msgspec.Struct, frozen=True):
    """What came of it.

    Attributes
    ----------
    avg_jct_s, p99_jct_s, makespan_s, restarts, mean_frozen_fraction
        As of `ClusterSummary`.
    lost_progress
        Share of the statistical progress, in what the jobs processed, that frozen layers cost.
    worst_frozen
        Greatest frozen share of a job, averaged over its running time (A_j).
    deep_jobs
        Share of the jobs with A_j above 0.65, beyond which ViT loses accuracy (PipeTransformer, ICML 2021).
    jobs_done
        Jobs complete; 160 of 160 unless a wrong belief starved some.
    seconds
        CPU seconds of the simulation.
    jct_s
        Completion times.
    gpu_hours
        GPU-hours that jobs held.
    """

    avg_jct_s: float
    p99_jct_s: float
    makespan_s: float
    restarts: int
    mean_frozen_fraction: float
    lost_progress: float
    worst_frozen: float
    deep_jobs: float
    jobs_done: int
    seconds: float
    jct_s: tuple[int, ...]
    gpu_hours: float


@lru_cache(maxsize=1)
def _profiles(data: Path) -> tuple[Mapping[str, Application], Mapping[str, GoodputTable]]:
    applications = read_applications(data / "pollux")
    return applications, {name: GoodputTable(one) for name, one in applications.items()}


def _file(data: Path, workload: str) -> Path:
    kind, number = workload.split("-")
    folder = data / "pollux" / "workloads" if kind == "pollux" else data / "sia" / "workloads" / kind
    return folder / f"workload-{number}.csv"


def prepared(data: Path, case: Case) -> Scenario:
    """Return the scenario of a case; what is known of the applications is shared within a process."""
    applications, tables = _profiles(data)
    at, rng = WORKLOADS.index(case.workload), np.random.default_rng(zlib.crc32(case.workload.encode()))
    names = (case.workload, WORKLOADS[(at + 1) % len(WORKLOADS)])[: max(1, case.jobs // 160)]
    published = [
        replace(job, name=f"{name}, {job.name}" if len(names) > 1 else job.name)
        for name in names
        for job in read_workload(_file(data, name), applications)
    ]
    published.sort(key=lambda job: job.submitted_s)
    jobs = []
    for job in published[:: 160 * len(names) // case.jobs]:
        work = float(np.exp(case.spread * rng.normal()))
        ends, share = rng.random() < case.early, rng.uniform(0.1, 1.0)
        most = applications[job.application].epochs
        epochs = max(1, round(share * most)) if ends else most
        jobs.append(replace(job, submitted_s=job.submitted_s / case.load, epochs=epochs, work=work))
    made = Scenario.of(jobs, applications, homogeneous(case.gpus // 4, 4, HOMOGENEOUS))
    return Scenario(made.jobs, made.applications, made.nodes, tables)


def _policy(case: Case) -> ClusterPolicy:
    own = IceFrog(
        warm_up=case.warm_up,
        deepest=case.deepest,
        budget=case.budget,
        rebuild_s=case.rebuild_s,
        weigh_restarts=case.weigh_restarts,
        penalty_cap=case.penalty_cap,
    )
    if case.policy == "icefrog":
        return own
    if case.policy == "icefrog-learning":
        return LearningIceFrog(own, rebuild_s=case.rebuild_s)
    name, _, after = case.policy.partition("+")
    made: Any = cluster_policy(name).make(0)
    if case.power is not None:
        if not isinstance(made, Sia | Pollux | Titan):
            raise InvalidOption(f"{name} has no power")
        made = replace(made, power=case.power)
    gates = DepthGates(case.warm_up, case.deepest, case.budget)
    if cluster_policy(name).freezes:
        made = replace(made, gates=gates)
    made = knowing(case.remaining, made)
    return FrozenAfter(made, gates, case.rebuild_s) if after else made


def _believed(case: Case) -> FreezingProfiles:
    known = freezing_of(case.stand_in)
    if case.belief == "phase-agnostic":
        return {name: one.phase_agnostic() for name, one in known.items()}
    if case.belief == "borrowed":
        # ResNet18's penalty for all CNNs but itself and BERT's for it: as wrong as the tables at hand allow
        other = {"cifar10": "bert", "imagenet": "cifar10", "yolov3": "cifar10", "bert": "imagenet"}
        return {name: one.with_penalty_of(known[other[name]]) for name, one in known.items()}
    return known


def _both(one: Observer, other: Observer | None) -> Observer:
    def note(view: ClusterView, plan: ClusterPlan) -> None:
        one(view, plan)
        if other is not None:
            other(view, plan)

    return note


def run_case(data: Path, case: Case, watch: Observer | None = None) -> Result:
    """Simulate a case; `watch` is shown every decision."""
    made = prepared(data, case)
    name = case.policy.partition("+")[0]
    freezes = cluster_policy(name).freezes or "+" in case.policy
    adaptive = cluster_policy(name).adaptive if case.adaptive is None else case.adaptive
    believed = case.theta if case.believed_theta is None else case.believed_theta
    ground_truth = made.ground_truth(adaptive, freezing_of(case.stand_in) if freezes else {}, case.theta)
    account = FrozenAccount(ground_truth, len(made.jobs))
    begun = time.process_time()
    run = run_cluster(
        _policy(case),
        made.nodes,
        SimulatedJobs(
            ground_truth,
            made.submitted_s,
            made.requested_gpus,
            made.beliefs(adaptive, _believed(case) if freezes else {}, believed, case.noise),
        ),
        RoundRules(
            round_s=cluster_policy(name).round_s if case.round_s is None else case.round_s,
            rebuild_s=case.rebuild_s,
            restart_s=case.restart_s,
            limit_s=_LONGEST_S,
        ),
        observe=_both(account, watch) if freezes else watch,
    )
    seconds = time.process_time() - begun
    summary = summarise_cluster(run, case.policy, seconds)
    totals = np.array([application.progress[-1] for application in made.applications])
    share = run.frozen_s / np.maximum(run.attained_s, 1e-9)
    done = ~np.isnan(run.completed_s)
    jct = np.where(done, run.completed_s, _LONGEST_S) - run.submitted_s
    return Result(
        avg_jct_s=float(jct.mean()),
        p99_jct_s=float(np.percentile(jct, 99)),
        makespan_s=float((jct + run.submitted_s).max() - run.submitted_s.min()),
        restarts=summary.restarts,
        mean_frozen_fraction=summary.mean_frozen_fraction,
        lost_progress=account.lost(totals) if freezes else 0.0,
        worst_frozen=float(share.max()),
        deep_jobs=float((share > 0.65).mean()),
        jobs_done=summary.jobs_done,
        seconds=seconds,
        jct_s=tuple(int(value) for value in jct),
        gpu_hours=summary.gpu_hours,
    )
