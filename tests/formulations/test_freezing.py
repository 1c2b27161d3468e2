"""Layer freezing solved: exact engine, HiGHS and enumeration agree; one depth is Sia's problem."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import apportion
from apportion.core.outcome import Termination
from apportion.formulations.freezing.by_configuration import FreezingByConfiguration
from apportion.instances import FreezingInstance, FreezingJob, FreezingRow, kind_of
from apportion.instances.freezing.check import check
from apportion.instances.freezing.generator import generate
from apportion.models import MultipleChoiceKnapsack
from tests.budgets import examples
from tests.oracles import enumerate_knapsack
from tests.strategies import freezing_instances, freezing_on_nodes
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
@settings(max_examples=examples(200))
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
@settings(max_examples=examples(100))
def test_dropping_depths_loses_nothing(instance: FreezingInstance) -> None:
    few = FreezingByConfiguration(instance).model
    every = FreezingByConfiguration(instance, separate_depth=False).model
    assert few.values.size <= every.values.size
    short, full = enumerate_knapsack(few), enumerate_knapsack(every)
    assert (short is None) == (full is None)
    assert short is None or full is None or close(short[0], full[0])


@given(freezing_instances(max_jobs=2))
@settings(max_examples=examples(15))
def test_highs_on_the_lowered_model_agrees(instance: FreezingInstance) -> None:
    ours = apportion.solve(instance)
    highs = apportion.solve(instance, backend="highs", formulation="all_depths")
    assert ours.termination is highs.termination
    if ours.objective is not None:
        assert highs.objective is not None and close(ours.objective, highs.objective)


@given(freezing_instances())
@settings(max_examples=examples(100))
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


@pytest.mark.one_in(5)
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


@given(st.one_of(freezing_instances(), freezing_on_nodes(max_jobs=4)), st.integers(0, 99))
@settings(max_examples=examples(150))
def test_the_order_of_jobs_rows_and_types_changes_no_byte(instance: FreezingInstance, seed: int) -> None:
    rng = np.random.default_rng(seed)

    def mixed(listed: Any) -> tuple[Any, ...]:
        return tuple(listed[place] for place in rng.permutation(len(listed)))

    jobs = tuple(msgspec.structs.replace(job, menu=mixed(job.menu)) for job in instance.jobs)
    gpus = dict(mixed(list(instance.gpus.items())))
    other = msgspec.structs.replace(instance, jobs=mixed(jobs), gpus=gpus)
    answers = []
    for one in (instance, other):
        solution = apportion.solve(one, deterministic=True)
        told = [solution.plan, solution.objective, solution.certificate.multipliers, solution.bound]
        answers.append(msgspec.json.encode(told, order="sorted"))
    assert answers[0] == answers[1]


@given(freezing_instances(max_jobs=4))
@settings(max_examples=examples(100))
def test_no_plan_exceeds_a_budget_a_gate_or_the_cap(instance: FreezingInstance) -> None:
    solution = apportion.solve(instance)
    if solution.plan is None:
        return
    spent = 0
    for job in instance.jobs:
        told = solution.plan["configuration"].get(job.id)
        if told is None:
            continue
        seconds = Fraction(told["depth"], job.layers) * Fraction(instance.round_s)
        assert job.budget_frozen_s is None or seconds <= Fraction(job.budget_frozen_s)
        assert job.max_depth is None or told["depth"] <= job.max_depth
        place = (told["gpu_type"], told["gpus"])
        row = next(row for row in job.menu if (row.gpu_type, row.gpus) == place)
        if row.penalty_millionths:
            spent += row.penalty_millionths[row.depths.index(told["depth"])]
    assert instance.penalty_cap_millionths is None or spent <= instance.penalty_cap_millionths


@given(freezing_instances(max_jobs=3))
@settings(max_examples=examples(100))
def test_where_no_depth_gains_progress_none_is_frozen(instance: FreezingInstance) -> None:
    """Progress that strictly falls with depth: a running job keeps its depth only to save the rebuild."""
    jobs = []
    for job in instance.jobs:
        menu = tuple(
            msgspec.structs.replace(
                row,
                depths=tuple(range(len(row.depths))),
                effective_progress=tuple(8.0 * row.gpus / (1.0 + place) for place in range(len(row.depths))),
            )
            for row in job.menu
        )
        fresh = {"layers": 9, "current": None, "budget_frozen_s": None, "max_depth": None, "weight": 1.0}
        jobs.append(msgspec.structs.replace(job, menu=menu, **fresh))
    solution = apportion.solve(msgspec.structs.replace(instance, jobs=tuple(jobs)))
    if solution.plan is not None and instance.penalty_cap_millionths is None:
        assert all(told["depth"] == 0 for told in solution.plan["configuration"].values())


@given(freezing_instances(max_jobs=3))
@settings(max_examples=examples(60))
def test_a_cap_by_its_multiplier_never_beats_the_capped_optimum(instance: FreezingInstance) -> None:
    """Section 5.4 (ii): with a price per millionth depth separates again, and bounds the capped problem."""
    free = msgspec.structs.replace(instance, penalty_cap_millionths=None)
    capped = msgspec.structs.replace(instance, penalty_cap_millionths=400_000)
    exact, without = apportion.solve(capped), apportion.solve(free)
    if exact.objective is None:
        return
    assert without.objective is not None
    sign = 1.0 if instance.power > 0 else -1.0
    slack = 1e-9 * max(1.0, abs(exact.objective))
    assert sign * (without.objective - exact.objective) >= -slack
    names = dict.fromkeys(instance.gpus, 0.0)
    for price in (0.0, 1e-7, 1e-6, 1e-5):
        bound = kind_of(capped).exact_bound(capped, {**names, "frozen_penalty": price})
        assert bound is not None
        assert sign * (float(bound) - exact.objective) >= -slack
    verified = exact.certificate.verified_bound
    if verified is not None:
        assert sign * (verified - exact.objective) >= -slack


@given(freezing_instances(max_jobs=3))
@settings(max_examples=examples(60))
def test_nothing_but_depth_zero_is_pollux(instance: FreezingInstance) -> None:
    """Menus cut to depth 0: effective progress is goodput, and every way to solve the round says the same."""
    jobs = []
    for job in instance.jobs:
        menu = tuple(
            FreezingRow(row.gpu_type, row.gpus, (0,), row.effective_progress[:1])
            for row in job.menu
            if row.depths
        )
        jobs.append(msgspec.structs.replace(job, menu=menu))
    goodput = msgspec.structs.replace(instance, jobs=tuple(jobs), penalty_cap_millionths=None)
    with_cap = msgspec.structs.replace(goodput, penalty_cap_millionths=0)
    ours, capped = apportion.solve(goodput), apportion.solve(with_cap)
    assert ours.objective == capped.objective or close(ours.objective or 0.0, capped.objective or 0.0)
    best = _best(goodput)
    assert (best is None) == (ours.objective is None)
    assert best is None or ours.objective is None or close(best, ours.objective)


@given(freezing_instances(max_jobs=2))
@settings(max_examples=8)
def test_exact_milp_and_enumeration_are_one(instance: FreezingInstance) -> None:
    best, found = _best(instance), []
    for backend in ("exact", "highs", "cp-sat"):
        for formulation in ("by_configuration", "all_depths"):
            found.append(apportion.solve(instance, backend=backend, formulation=formulation).objective)
    if best is None:
        assert found == [None] * 6
    else:
        assert all(objective is not None and close(objective, best) for objective in found)
