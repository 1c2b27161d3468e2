"""Layer freezing solved: exact engine, HiGHS and enumeration agree; one depth is Sia's problem."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings

import apportion
from apportion.formulations.freezing.by_configuration import FreezingByConfiguration
from apportion.instances import FreezingInstance, FreezingJob, FreezingRow
from apportion.instances.freezing.generator import generate
from apportion.instances.freezing.meaning import check
from apportion.models import MultipleChoiceKnapsack
from apportion.outcome import Termination
from tests.oracles import enumerate_knapsack
from tests.strategies import freezing_instances
from tests.test_api import assert_certified, close


def _plans(instance: FreezingInstance) -> Iterator[dict[str, Any]]:
    menus = [
        [None]
        + [
            {"gpu_type": row.gpu_type, "gpus": row.gpus, "depth": depth}
            for row in job.menu
            for depth in row.depths
        ]
        for job in instance.jobs
    ]
    for told in product(*menus):
        pairs = zip(instance.jobs, told, strict=True)
        yield {"configuration": {job.id: one for job, one in pairs if one is not None}}


def _counts(plan: Any) -> dict[str, Any]:
    """The plan without nodes."""
    told = plan["configuration"].items()
    return {
        "configuration": {job: {key: one[key] for key in ("gpu_type", "gpus", "depth")} for job, one in told}
    }


def _best(instance: FreezingInstance) -> float | None:
    """The best objective by the checker alone, over every plan there is."""
    reports = (check(instance, plan) for plan in _plans(instance))
    objectives = [report.objective for report in reports if report.feasible and report.objective is not None]
    return (max if instance.power > 0 else min)(objectives, default=None)


@given(freezing_instances())
@settings(max_examples=200)
def test_the_answer_is_the_best_of_all_plans_and_is_certified(instance: FreezingInstance) -> None:
    best = _best(instance)
    solution = apportion.solve(instance)
    if best is None:
        assert solution.termination is Termination.INFEASIBLE
        return
    assert solution.termination is Termination.OPTIMAL
    assert solution.objective is not None and close(solution.objective, best)
    assert_certified(solution)


@given(freezing_instances())
@settings(max_examples=100)
def test_dropping_depths_loses_nothing(instance: FreezingInstance) -> None:
    few = FreezingByConfiguration(instance).knapsack
    every = FreezingByConfiguration(instance, separate_depth=False).knapsack
    assert few.values.size <= every.values.size
    short, full = enumerate_knapsack(few), enumerate_knapsack(every)
    assert (short is None) == (full is None)
    assert short is None or full is None or close(short[0], full[0])


@given(freezing_instances(max_jobs=2))
@settings(max_examples=15)
def test_highs_on_the_lowered_model_agrees(instance: FreezingInstance) -> None:
    ours = apportion.solve(instance)
    highs = apportion.solve(instance, backend="highs", formulation="all_depths")
    assert ours.termination is highs.termination
    if ours.objective is not None:
        assert highs.objective is not None and close(ours.objective, highs.objective)


@given(freezing_instances())
@settings(max_examples=100)
def test_plans_survive_the_round_trip(instance: FreezingInstance) -> None:
    solution = apportion.solve(instance)
    if solution.plan is None:
        return
    formulation = FreezingByConfiguration(instance, separate_depth=False)
    choice = formulation.choice(solution.plan)
    assert choice is not None and (choice >= 0).all()
    assert formulation.plan(choice) == _counts(solution.plan)
    assert FreezingByConfiguration(instance).choice({"nonsense": 1}) is None


def _sia(instance: FreezingInstance) -> MultipleChoiceKnapsack:
    """Sia's problem (SOSP 2023, 3.3), from its own words: rows over their minimum, r, p, lambda."""
    types = list(instance.gpus)
    values, uses, offsets = [], [], [0]
    for job in instance.jobs:
        goodput = np.array([row.effective_progress[0] for row in job.menu])
        normal = goodput / goodput.min()
        for row, entry in zip(job.menu, normal, strict=True):
            same = job.current is not None and (job.current.gpu_type, job.current.gpus) == (
                row.gpu_type,
                row.gpus,
            )
            r = 1.0
            if job.current is not None and not same:
                r = max(0.0, (job.age_s - job.restarts * job.restart_s) / (job.age_s + job.restart_s))
            # a job that gets nothing pays lambda: so an option is worth its value less lambda
            values.append((r * entry) ** instance.power - instance.queue_penalty)
            uses.append([row.gpus if name == row.gpu_type else 0 for name in types])
        offsets.append(len(values))
    return MultipleChoiceKnapsack.from_arrays(
        values, uses, offsets, list(instance.gpus.values()), required=False, sense="minimize"
    )


@pytest.mark.parametrize("seed", range(5))
def test_with_one_depth_it_decides_as_sia(seed: int) -> None:
    instance = generate(seed, 6, {"t4": 8, "a100": 4}, depths=1, counts=3)
    free = tuple(msgspec.structs.replace(job, budget_frozen_s=None) for job in instance.jobs)
    instance = msgspec.structs.replace(instance, jobs=free)
    sia = enumerate_knapsack(_sia(instance))
    assert sia is not None
    solution = apportion.solve(instance)
    assert solution.objective is not None
    assert close(solution.objective, sia[0] + instance.queue_penalty * len(instance.jobs))
    rows = [(job.id, row) for job in instance.jobs for row in job.menu]
    decided = {rows[option][0]: rows[option][1] for option in sia[1].tolist() if option >= 0}
    assert _counts(solution.plan) == {
        "configuration": {
            job: {"gpu_type": row.gpu_type, "gpus": row.gpus, "depth": 0} for job, row in decided.items()
        }
    }


def test_nothing_is_frozen_where_the_penalty_says_it_never_pays() -> None:
    throughput, penalty = np.array([10.0, 12.0, 15.0]), np.array([0.0, 0.2, 0.4])
    menu = (FreezingRow("v100", 1, (0, 4, 8), tuple((throughput * (1 - penalty)).tolist())),)
    job = FreezingJob("a", 10, menu)
    for power in (-0.5, 1.0):
        instance = FreezingInstance("1", {"v100": 1}, 60.0, (job,), power=power, queue_penalty=power * -10.0)
        plan = apportion.solve(instance).require()
        assert plan["configuration"]["a"]["depth"] == 0


def test_a_penalty_cap_trades_depth_between_jobs() -> None:
    """Both would freeze; the cap admits one, and it is the one that gains more."""
    jobs = tuple(
        FreezingJob(name, 10, (FreezingRow("v100", 1, (0, 5), (10.0, gain), (0, 300_000)),))
        for name, gain in (("a", 12.0), ("b", 15.0))
    )
    instance = FreezingInstance("1", {"v100": 2}, 60.0, jobs, power=1.0, queue_penalty=0.0)
    depths = {name: told["depth"] for name, told in apportion.solve(instance).plan["configuration"].items()}
    assert depths == {"a": 5, "b": 5}
    capped = msgspec.structs.replace(instance, penalty_cap_millionths=599_999)
    depths = {name: told["depth"] for name, told in apportion.solve(capped).plan["configuration"].items()}
    assert depths == {"a": 0, "b": 5}


@pytest.mark.parametrize("cap", [None, 0.05])
def test_a_generated_round_is_solved_and_certified(cap: float | None) -> None:
    instance = generate(3, 12, {"t4": 16, "a100": 8}, depths=5, penalty_cap=cap)
    solution = apportion.solve(instance, gap=1e-4, time_limit=20)
    highs = apportion.solve(instance, backend="highs", gap=1e-6, time_limit=20)
    assert solution.objective is not None and highs.objective is not None
    assert solution.objective <= highs.objective * (1 + 1e-4)
    assert_certified(solution)
