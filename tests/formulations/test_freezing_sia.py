"""With one depth the round is Sia's: its ILP (SOSP 2023, section 3.3), written down literally, decides alike.

The ILP here shares nothing with the package: G row-normalised by its minimum times the job's least GPUs, r on
changed configurations, the elementwise power, A binary with ||A_i|| <= 1, GPUs per type; scipy's HiGHS solves
it, and once more without its own decision, to learn whether that is the only optimal one.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import apportion
from apportion.core.outcome import Termination
from apportion.instances import FreezingConfiguration, FreezingInstance, FreezingJob, FreezingRow
from tests.test_api import assert_certified, close

CLUSTER = {"aws": (4, 24), "rtx": (8, 24), "dgx-ext": (8, 16)}
"""Sia's heterogeneous cluster: GPUs of a node and in all, by the names of its profiles."""
RESTART_S = {
    "cifar10": 30.0,
    "ncf": 30.0,
    "bert": 120.0,
    "deepspeech2": 25.0,
    "yolov3": 45.0,
    "imagenet": 250.0,
}
LAMBDA = 1.1


@dataclass(frozen=True)
class Job:
    """A job as Sia sees it: goodput by configuration, and what it lived through."""

    goodput: dict[tuple[str, int], float]
    least_gpus: int
    current: tuple[str, int] | None
    age_s: float
    restarts: int
    restart_s: float


def _configurations(per_node: int, total: int) -> list[int]:
    """C = {(1, 2^i) up to R} and {(n, n R)}."""
    return [2**i for i in range(per_node.bit_length()) if 2**i < per_node] + list(
        range(per_node, total + 1, per_node)
    )


def _sia(jobs: list[Job], power: float) -> tuple[float, list[tuple[str, int] | None], bool]:
    """Objective, decisions, and whether they are the only optimal ones."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    columns = [(index, config) for index, job in enumerate(jobs) for config in job.goodput]
    worth = []
    for index, config in columns:
        job = jobs[index]
        normal = job.goodput[config] / min(job.goodput.values()) * job.least_gpus
        r = 1.0
        if job.current is not None and config != job.current:
            r = (job.age_s - job.restarts * job.restart_s) / (job.age_s + job.restart_s)
        worth.append((r * normal) ** power)
    sign = -1.0 if power > 0 else 1.0
    cost = sign * (np.array(worth) - LAMBDA)
    once = np.zeros((len(jobs), len(columns)))
    used = np.zeros((len(CLUSTER), len(columns)))
    for column, (index, (gpu_type, gpus)) in enumerate(columns):
        once[index, column] = 1.0
        used[list(CLUSTER).index(gpu_type), column] = gpus
    rules = [
        LinearConstraint(once, ub=np.ones(len(jobs))),
        LinearConstraint(used, ub=np.array([total for _, total in CLUSTER.values()])),
    ]
    exact = {"mip_rel_gap": 0.0, "time_limit": 60.0}

    def solved(constraints: list[Any]) -> tuple[float, np.ndarray[Any, Any]]:
        found = milp(
            cost, integrality=np.ones(cost.size), bounds=Bounds(0, 1), constraints=constraints, options=exact
        )
        assert found.status == 0, found.message
        return float(found.fun), np.rint(found.x)

    best, chosen = solved(rules)
    other = np.where(chosen > 0, 1.0, -1.0)
    second, _ = solved([*rules, LinearConstraint(other, ub=chosen.sum() - 1.0)])
    decided: list[tuple[str, int] | None] = [None] * len(jobs)
    for column in np.flatnonzero(chosen):
        decided[columns[column][0]] = columns[column][1]
    return sign * best + LAMBDA * len(jobs), decided, second - best > 1e-7 * max(1.0, abs(best))


def _instance(jobs: list[Job], power: float) -> FreezingInstance:
    """The same round in our words: one depth, Sia's N_min in the reference."""
    members = []
    for index, job in enumerate(jobs):
        menu = tuple(FreezingRow(kind, gpus, (0,), (rate,)) for (kind, gpus), rate in job.goodput.items())
        members.append(
            FreezingJob(
                f"j{index:02d}",
                1,
                menu,
                current=None if job.current is None else FreezingConfiguration(*job.current),
                age_s=job.age_s,
                restarts=job.restarts,
                restart_s=job.restart_s,
                reference_progress=min(job.goodput.values()) / job.least_gpus,
            )
        )
    return FreezingInstance(
        schema_version="1",
        gpus={name: total for name, (_, total) in CLUSTER.items()},
        round_s=60.0,
        jobs=tuple(members),
        power=power,
        queue_penalty=LAMBDA,
        gpus_per_node={name: size for name, (size, _) in CLUSTER.items()},
    )


def _decides_alike(jobs: list[Job], power: float) -> bool:
    objective, decided, unique = _sia(jobs, power)
    solution = apportion.solve(_instance(jobs, power))
    assert solution.termination is Termination.OPTIMAL
    assert solution.objective is not None and close(solution.objective, objective)
    assert_certified(solution)
    told = solution.plan["configuration"]
    ours = [
        (told[job]["gpu_type"], told[job]["gpus"]) if (job := f"j{index:02d}") in told else None
        for index in range(len(jobs))
    ]
    if unique:
        assert ours == decided
    return unique


def _state(rng: np.random.Generator, goodput: dict[tuple[str, int], float], restart_s: float) -> Job:
    running = rng.random() < 0.6
    places = sorted(goodput)
    return Job(
        goodput,
        least_gpus=min(gpus for _, gpus in goodput),
        current=places[int(rng.integers(len(places)))] if running else None,
        age_s=float(rng.integers(600, 7200)) if running else 0.0,
        restarts=int(rng.integers(0, 2)) if running else 0,
        restart_s=restart_s,
    )


@pytest.mark.parametrize("power", [-0.5, 0.5, -1.0, 1.0])
def test_drawn_rounds_are_decided_as_sia_decides_them(power: float) -> None:
    rng = np.random.default_rng(round(10 * power) % 97)
    jobs = []
    for _ in range(14):
        speed = {name: float(2**kind * np.exp(rng.normal(0.0, 0.3))) for kind, name in enumerate(CLUSTER)}
        bend, least = rng.uniform(0.5, 1.0), int(rng.choice([1, 1, 2]))
        goodput = {
            (name, gpus): speed[name] * gpus**bend
            for name, (size, total) in CLUSTER.items()
            for gpus in _configurations(size, total)
            if gpus >= least
        }
        jobs.append(_state(rng, goodput, float(rng.choice([25.0, 45.0, 120.0]))))
    assert _decides_alike(jobs, power)


def _profile(path: Path, size: int) -> dict[int, float]:
    """Best measured samples per second by GPUs, on one node or on whole nodes."""
    best: dict[int, float] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            on_nodes = [int(digit) for digit in row["placement"]]
            if len(on_nodes) > 1 and set(on_nodes) != {size}:
                continue
            gpus = sum(on_nodes)
            rate = gpus * float(row["local_bsz"]) / float(row["step_time"])
            best[gpus] = max(best.get(gpus, 0.0), rate)
    return best


@pytest.mark.one_in(4)
@pytest.mark.parametrize("power", [-0.5, 0.5, -1.0, 1.0])
def test_rounds_of_sias_own_profiles_are_decided_as_sia_decides_them(data: Path, power: float) -> None:
    """Measured rates of its six applications on its three GPU types, as goodputs; states are drawn."""
    profiles: dict[str, dict[tuple[str, int], float]] = {}
    for app in RESTART_S:
        profiles[app] = {
            (name, gpus): rate
            for name, (size, total) in CLUSTER.items()
            for gpus, rate in _profile(data / "sia" / "traces" / app / f"placements-{name}.csv", size).items()
            if gpus in _configurations(size, total)
        }
        assert {name for name, _ in profiles[app]} == set(CLUSTER) and len(profiles[app]) >= 9
    unique = 0
    for seed in range(3):
        rng = np.random.default_rng(seed)
        jobs = []
        for app in rng.choice(sorted(RESTART_S), 18):
            # users' batches differ, and with them the rates: no two jobs are alike
            scaled = {
                place: rate * float(np.exp(rng.normal(0.0, 0.05))) for place, rate in profiles[app].items()
            }
            jobs.append(_state(rng, scaled, RESTART_S[app]))
        unique += _decides_alike(jobs, power)
    assert unique
