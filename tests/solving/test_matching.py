"""Matching end to end: optimal against enumeration, bounded, certified, and the laws any makespan keeps."""

from __future__ import annotations

import heapq
import json
from itertools import permutations, product
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import apportion
from apportion.core.options import SolveOptions, Start
from apportion.core.outcome import Outcome, Termination
from apportion.formulations.matching.by_machine import MatchingByMachine
from apportion.instances import MatchingEntry, MatchingInstance, MatchingJob, MatchingMachine
from apportion.instances.kinds import kind_of
from apportion.io import stored
from apportion.models.assignment import Assignment
from apportion.solvers.compiled import SWITCH
from apportion.solving.registry import Backend
from tests.budgets import examples
from tests.patience import patience
from tests.solving.test_liars import LIES, told
from tests.strategies import matchings
from tests.test_api import assert_certified, close


def shortest(entries: list[MatchingEntry], count: int) -> float:
    """Return the shortest schedule of rigid tasks on identical machines: some order of starts gives it."""
    best = float("inf") if entries else 0.0
    for order in permutations(entries):
        free = [0.0] * count
        for entry in order:
            held = [heapq.heappop(free) for _ in range(entry.gpus)]
            end = held[-1] + (entry.time_s or 0.0)
            for _ in held:
                heapq.heappush(free, end)
        best = min(best, max(free))
    return best


def fits(uses: list[int], count: int, capacity: int) -> bool:
    """Return whether items fit into identical bins, by trying every placement."""
    for places in product(range(count), repeat=len(uses)):
        load = [0] * count
        for use, place in zip(uses, places, strict=True):
            load[place] += use
        if max(load) <= capacity:
            return True
    return not uses


def oracle(instance: MatchingInstance) -> float | None:
    """Return the optimum by trying every assignment of jobs to pools."""
    best: float | None = None
    sign = 1.0 if instance.objective == "value" else -1.0
    menus = [[*job.on] if job.required else [None, *job.on] for job in instance.jobs]
    for chosen in product(*menus):
        on: dict[str, list[MatchingEntry]] = {machine.id: [] for machine in instance.machines}
        for job, pool in zip(instance.jobs, chosen, strict=True):
            if pool is not None:
                on[pool].append(job.on[pool])
        if instance.objective == "makespan":
            value = max(shortest(on[m.id], m.count) for m in instance.machines)
        else:
            if not all(
                m.capacity is None or fits([entry.uses for entry in on[m.id]], m.count, m.capacity)
                for m in instance.machines
            ):
                continue
            value = sum(getattr(entry, instance.field) for pool in on.values() for entry in pool)
        if best is None or sign * value > sign * best:
            best = value
    return best


@given(matchings())
@settings(max_examples=examples(250))
def test_matchings_are_optimal_checked_and_certified(instance: MatchingInstance) -> None:
    best = oracle(instance)
    solution = apportion.solve(instance, time_limit=20.0)
    if best is None:
        assert solution.termination is Termination.INFEASIBLE
        return
    assert solution.objective is not None
    gangs = any(entry.gpus > 1 for job in instance.jobs for entry in job.on.values())
    if gangs:  # rigid tasks are list scheduled: never below the optimum, and honest about it
        assert solution.objective >= best - 1e-9
        assert solution.bound is not None
        assert solution.bound <= best + 1e-9 * max(1.0, best)
        assert solution.termination is not Termination.OPTIMAL or close(solution.objective, best)
    else:
        assert solution.termination is Termination.OPTIMAL
        assert close(solution.objective, best)
    assert_certified(solution)


@given(matchings())
@settings(max_examples=examples(100))
def test_every_matching_solution_verifies(instance: MatchingInstance) -> None:
    told = json.loads(stored.encode(stored.document(apportion.solve(instance))))
    verification = stored.verify(instance, told)
    assert verification.ok, [check for check in verification.checks if not check[1]]


@given(matchings(objectives=("makespan",)))
@settings(max_examples=examples(60))
def test_laws_of_the_makespan(instance: MatchingInstance) -> None:
    """Twice the time, twice the makespan; one more machine never hurts the optimum; order is irrelevant."""
    single = msgspec.structs.replace(
        instance,
        machines=tuple(MatchingMachine(machine.id) for machine in instance.machines),
        jobs=tuple(
            MatchingJob(
                job.id, {name: msgspec.structs.replace(entry, gpus=1) for name, entry in job.on.items()}
            )
            for job in instance.jobs
            if job.on
        ),
    )
    first = apportion.solve(single)
    assert first.objective is not None
    doubled = tuple(
        MatchingJob(
            job.id,
            {n: msgspec.structs.replace(e, time_s=2 * (e.time_s or 0.0)) for n, e in job.on.items()},
        )
        for job in single.jobs
    )
    second = apportion.solve(msgspec.structs.replace(single, jobs=doubled))
    assert second.objective == 2 * first.objective
    more = (*single.machines, MatchingMachine("more"))
    wider = apportion.solve(
        msgspec.structs.replace(
            single,
            machines=more,
            jobs=tuple(MatchingJob(j.id, {**j.on, "more": next(iter(j.on.values()))}) for j in single.jobs),
        )
    )
    assert wider.objective is not None
    assert wider.objective <= first.objective
    turned = msgspec.structs.replace(single, machines=single.machines[::-1], jobs=single.jobs[::-1])
    assert apportion.solve(turned).objective == first.objective


@given(matchings(objectives=("makespan",)))
@settings(max_examples=examples(60))
def test_shares_are_optimal_by_their_own_prices(instance: MatchingInstance) -> None:
    jobs = tuple(
        MatchingJob(
            job.id,
            {n: msgspec.structs.replace(e, time_s=1.0 + (e.time_s or 0.0)) for n, e in job.on.items()},
        )
        for job in instance.jobs
        if job.on
    )
    shared = msgspec.structs.replace(instance, jobs=jobs, divisible=True)
    solution = apportion.solve(shared)
    assert solution.termination is Termination.OPTIMAL
    certificate = solution.certificate
    assert certificate.verified_bound is not None
    assert solution.objective is not None
    assert certificate.verified_bound == pytest.approx(solution.objective, rel=1e-7)
    whole = apportion.solve(msgspec.structs.replace(instance, jobs=jobs))
    assert whole.objective is not None
    assert solution.objective <= whole.objective * (1 + 1e-9)


@pytest.mark.parametrize("goal", ["cost", "value"])
@pytest.mark.parametrize("shape", [(30, 30), (25, 40)])
def test_prices_prove_linear_assignments(goal: Any, shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(7)
    for _ in range(10):
        matrix = rng.integers(-50, 100, shape).astype(float)
        model = Assignment.from_matrix(goal, matrix, capacities=1)
        solution = apportion.solve(model)
        assert solution.termination is Termination.OPTIMAL
        assert solution.certificate.verified_bound == pytest.approx(solution.objective, rel=1e-9)


def test_sparse_assignments_go_the_sparse_road() -> None:
    rng = np.random.default_rng(3)
    dense = rng.integers(1, 1000, (600, 600)).astype(float)
    dense[rng.random(dense.shape) > 0.05] = np.nan
    np.fill_diagonal(dense, 2000.0)
    solution = apportion.solve(Assignment.from_matrix("cost", dense, capacities=1))
    assert solution.termination is Termination.OPTIMAL
    assert solution.certificate.verified_bound == pytest.approx(solution.objective, rel=1e-9)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("backend", ["highs", "cp-sat", "scip"])
def test_general_solvers_agree(backend: str) -> None:
    rng = np.random.default_rng(11)
    for objective in ("makespan", "cost", "value"):
        field = "time_s" if objective == "makespan" else objective
        machines = tuple(
            MatchingMachine(f"m{i}", capacity=None if objective == "makespan" else 9) for i in range(3)
        )
        jobs = tuple(
            MatchingJob(
                f"j{j}",
                {
                    m.id: MatchingEntry(uses=int(rng.integers(1, 5)), **{field: float(rng.integers(1, 30))})
                    for m in machines
                },
            )
            for j in range(7)
        )
        instance = MatchingInstance("1", objective, machines, jobs)
        own = apportion.solve(instance)
        other = apportion.solve(instance, backend=backend, time_limit=patience(20.0))
        assert own.termination is Termination.OPTIMAL
        assert other.termination is Termination.OPTIMAL, (other.notes, other.times)
        assert other.objective == own.objective == oracle(instance)


@pytest.mark.slow
def test_ten_thousand_jobs_on_five_pools_stay_small() -> None:
    rng = np.random.default_rng(5)
    machines = tuple(MatchingMachine(f"gpu{i}", count=500) for i in range(5))
    jobs = tuple(
        MatchingJob(
            f"j{j}",
            {
                m.id: MatchingEntry(time_s=round(float(base * speed), 3), gpus=int(gpus))
                for m, speed in zip(machines, rng.uniform(0.5, 2.0, 5), strict=True)
            },
        )
        for j, (base, gpus) in enumerate(
            zip(rng.lognormal(7.0, 1.0, 10_000), rng.choice([1, 1, 1, 2, 4, 8], 10_000), strict=True)
        )
    )
    solution = apportion.solve(MatchingInstance("1", "makespan", machines, jobs), gap=0.05, time_limit=20.0)
    assert solution.gap is not None
    assert solution.gap <= 0.05
    assert_certified(solution)


def test_a_warm_start_is_kept() -> None:
    rng = np.random.default_rng(2)
    model = Assignment.from_matrix("makespan", rng.integers(10, 100, (40, 4)).astype(float))
    first = apportion.solve(model, time_limit=1.0)
    second = apportion.solve(model, time_limit=0.2, warm_start=first)
    assert first.objective is not None
    assert second.objective is not None
    assert second.objective <= first.objective


def test_equal_seeds_give_equal_answers_without_a_clock() -> None:
    rng = np.random.default_rng(4)
    model = Assignment.from_matrix("makespan", rng.integers(10, 100, (30, 4)).astype(float))
    runs = [apportion.solve(model, deterministic=True, work_limit=5, seed=1) for _ in range(2)]
    assert runs[0].plan.tolist() == runs[1].plan.tolist()  # type: ignore[union-attr]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("goal", ["makespan", "cost"])
def test_a_work_limit_holds_without_compiled_parts(goal: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A local search and HiGHS's nodes are what is limited there; unlimited, they prove the optimum."""
    rng = np.random.default_rng(4)
    values, uses = rng.integers(50, 90, (24, 7)).astype(float), rng.integers(1, 101, (24, 7))
    limits = {} if goal == "makespan" else {"uses": uses, "capacities": np.full(7, uses.sum() // 60)}
    model = Assignment.from_matrix(goal, values, **limits)
    compiled = apportion.solve(model, time_limit=None)
    monkeypatch.setenv(SWITCH, "1")
    few, more = (
        apportion.solve(model, time_limit=None, deterministic=True, work_limit=work) for work in (1, 12)
    )
    proven = apportion.solve(model, time_limit=None, deterministic=True)
    assert few.termination is Termination.NODE_LIMIT
    assert few.plan is not None
    assert more.objective is not None
    assert few.objective is not None
    assert more.objective <= few.objective
    assert proven.termination is Termination.OPTIMAL
    assert proven.objective == compiled.objective


def test_the_kind_is_known() -> None:
    instance = MatchingInstance("1", "makespan", (), ())
    assert kind_of(instance).name == "matching"
    assert apportion.solve(instance).objective == 0.0


@given(matchings(max_jobs=3), st.sampled_from(LIES), st.integers(0, 9))
@settings(max_examples=examples(150))
def test_no_lie_about_a_matching_reaches_the_caller(instance: MatchingInstance, lie: str, seed: int) -> None:
    def solve(model: Assignment, options: SolveOptions, start: Start) -> Outcome:
        rng = np.random.default_rng(seed)
        none = np.full(model.num_jobs, -1, dtype=np.int64)
        bad = np.full(model.num_jobs, model.num_options + 5, dtype=np.int64)
        random = rng.integers(-1, max(model.num_options, 1), model.num_jobs)
        return told(lie, seed, none if start.point is None else start.point, bad, random)

    best = oracle(instance)
    solution = apportion.solve(instance, backend=Backend("liar", "assignment", solve))
    if solution.plan is not None:
        assert best is not None
        report = kind_of(instance).check(instance, solution.plan)
        assert report.feasible
        assert report.objective == solution.objective
        sign = 1.0 if instance.objective == "value" else -1.0
        assert sign * (best - report.objective) >= -1e-9 * max(1.0, abs(best))
        if solution.termination is Termination.OPTIMAL and solution.certificate.source == "multipliers":
            assert close(report.objective, best)


@given(matchings(max_jobs=3))
@settings(max_examples=examples(60))
def test_plans_survive_the_way_into_the_model_and_back(instance: MatchingInstance) -> None:
    solution = apportion.solve(instance)
    if solution.plan is None:
        return
    compiled = MatchingByMachine(instance)
    point = compiled.choice(solution.plan)
    assert point is not None
    again = kind_of(instance).check(instance, compiled.plan(point))
    assert again.feasible
    assert close(again.objective or 0.0, solution.objective or 0.0)


def test_a_plan_packed_from_a_relaxation_is_an_incumbent_and_no_failure(root: Path) -> None:
    """Of gangs on pools HiGHS sees the loads alone; its optimum was called a numerical error, exit code 1."""
    solution = apportion.solve(apportion.read(root / "examples" / "matching_gangs.json"), backend="highs")
    assert solution.termination is Termination.SOLUTION_LIMIT
    assert solution.plan is not None and apportion.check(solution.instance, solution.plan).feasible
    assert solution.gap is not None and solution.gap > 0.01
    assert any("relaxation" in note for note in solution.notes)
