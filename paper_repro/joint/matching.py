"""Policies and beliefs on jobs known by their measured speeds."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from apportion.cluster.policies.rounds.cluster_view import ClusterPolicy
from apportion.cluster.policies.rounds.gavel import Gavel
from apportion.cluster.policies.rounds.learned_speeds import ObservedSpeeds
from apportion.cluster.policies.rounds.matching import Matching, longest_first
from apportion.cluster.simulation.rounds.accounts import summarise_cluster
from apportion.cluster.simulation.rounds.job_states import RoundRules, SimulatedJobs
from apportion.cluster.simulation.rounds.simulator import run_cluster
from paper_repro.joint.drawn_jobs import drawn, machines, predicted
from paper_repro.joint.policies.in_turn import in_turn
from paper_repro.joint.tasks import Result, Task

__all__ = [
    "LONGEST_GAP",
    "MATCHING",
    "RESTART_S",
    "ROUND_S",
    "MatchingCase",
    "matching_tasks",
    "run_case",
    "run_matching",
]

ROUND_S = 360.0
"""Gavel's rounds."""
RESTART_S = 30.0
LONGEST_GAP = 0.05
"""Many jobs are worth the same per GPU there: a proof of 1 % takes ten times as long and changes nothing."""
_LOADS: Mapping[str, float | None] = MappingProxyType(
    {"all at once": None, "Poisson, load 0.7": 0.7, "Poisson, load 1.4": 1.4}
)
_OTHER = "pytorch-gpu-benchmark, all at once"


@dataclass(frozen=True, slots=True)
class MatchingCase:
    """How a policy is made, and what it believes of the speeds."""

    make: Callable[[], ClusterPolicy]
    believes: str


MATCHING: Mapping[str, MatchingCase] = MappingProxyType(
    {
        "first come, first served": MatchingCase(lambda: in_turn, "agnostic"),
        "in turn, by similarity": MatchingCase(lambda: in_turn, "similarity"),
        "in turn, oracle": MatchingCase(lambda: in_turn, "oracle"),
        "shortest first, agnostic": MatchingCase(Matching, "agnostic"),
        "shortest first, agnostic + observed": MatchingCase(lambda: ObservedSpeeds(Matching()), "agnostic"),
        "shortest first, by similarity": MatchingCase(Matching, "similarity"),
        "shortest first, similarity + observed": MatchingCase(
            lambda: ObservedSpeeds(Matching()), "similarity"
        ),
        "shortest first, one profile": MatchingCase(Matching, "one profile"),
        "shortest first, profile + observed": MatchingCase(lambda: ObservedSpeeds(Matching()), "one profile"),
        "shortest first, oracle": MatchingCase(Matching, "oracle"),
        "longest first, by similarity": MatchingCase(
            lambda: Matching(longest_first, gap=LONGEST_GAP), "similarity"
        ),
        "longest first, one profile": MatchingCase(
            lambda: Matching(longest_first, gap=LONGEST_GAP), "one profile"
        ),
        "longest first, oracle": MatchingCase(lambda: Matching(longest_first, gap=LONGEST_GAP), "oracle"),
        "Gavel max-min, one profile": MatchingCase(Gavel, "one profile"),
        "Gavel max-min, oracle": MatchingCase(Gavel, "oracle"),
        "Gavel makespan, one profile": MatchingCase(lambda: Gavel("makespan"), "one profile"),
        "Gavel makespan, oracle": MatchingCase(lambda: Gavel("makespan"), "oracle"),
    }
)


def matching_tasks(seeds: range, quick: bool, source: str = "Gavel") -> list[Task]:
    """Return the runs of this part; the quick ones on a source of `SOURCES`."""
    settings = [f"{source}, Poisson, load 1.4"] if quick else [*(f"Gavel, {name}" for name in _LOADS), _OTHER]
    return [
        Task("matching", setting, case, seed)
        for setting in settings
        for case in MATCHING
        # a makespan is an objective where no more jobs come
        if setting.endswith("at once") or not case.startswith("longest")
        for seed in seeds
    ]


def run_matching(data: Path, task: Task) -> Result:
    """Simulate one."""
    return run_case(data, task, MATCHING[task.case])


def run_case(data: Path, task: Task, case: MatchingCase) -> Result:
    """Simulate the jobs that a task's setting and seed draw, under a case."""
    source, arrivals = task.setting.split(", ", 1)
    jobs = drawn(data, source, task.seed, _LOADS[arrivals], widest=8, slots=1)
    begun = time.process_time()
    run = run_cluster(
        case.make(),
        machines(predicted(data, source)[0], slots=1),
        SimulatedJobs(
            jobs.table,
            jobs.table.submitted_s,
            jobs.table.requested_slots,
            jobs.table.believed(jobs.believed[case.believes]),
        ),
        RoundRules(round_s=ROUND_S, restart_s=RESTART_S),
    )
    return Result(task, summarise_cluster(run, task.case, time.process_time() - begun))
