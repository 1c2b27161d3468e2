"""Gangs of few jobs: CP-SAT's bound against every order of starts, and proofs where the packing meets it."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings

import apportion
from apportion.core.options import SolveOptions
from apportion.core.outcome import Outcome, Termination
from apportion.formulations.matching.by_machine import MatchingByMachine
from apportion.instances import MatchingInstance
from apportion.instances.matching.check import check
from apportion.instances.matching.generator import generate_cluster
from apportion.models.assignment import Assignment
from apportion.solvers.assignment.mip import repaired
from apportion.solvers.isolation import isolated
from apportion.solvers.makespan import by_pools, gang_sets
from apportion.solvers.makespan.by_pools import small_enough
from tests.budgets import examples
from tests.patience import patience
from tests.solving.test_matching import oracle
from tests.strategies import matchings

BADLY = "tests.solvers.endless_schedules"


@given(matchings(objectives=("makespan",)))
@settings(max_examples=examples(80), deadline=None)
def test_the_cumulative_bound_is_the_optimum(instance: MatchingInstance) -> None:
    model = MatchingByMachine(instance).model
    best = oracle(instance)
    if best is None or not model.num_jobs or not small_enough(model):
        return
    start = repaired(model, np.full(model.num_jobs, -1, dtype=np.int64))
    assert start is not None
    found = by_pools.solve(model, SolveOptions(), start, 0.0)
    assert found.bound == pytest.approx(best, rel=1e-9)
    if found.point is not None:
        assert model.check(found.point).feasible
        assert model.objective(found.point) == pytest.approx(best, rel=1e-9)
    solution = apportion.solve(instance, time_limit=None)
    assert solution.bound is not None
    assert solution.bound <= best * (1 + 1e-9)


@pytest.mark.one_in(7)
@pytest.mark.parametrize("seed", range(30))
def test_a_schedule_that_no_list_by_length_or_width_gives_is_kept(seed: int) -> None:
    """Starts of a search were thrown away: only whom it placed where was kept."""
    rng = np.random.default_rng(seed)
    jobs = int(rng.integers(5, 8))
    model = Assignment.from_arrays(
        "makespan",
        rng.integers(1, 12, jobs).astype(float) / 10,
        np.zeros(jobs, dtype=np.int64),
        np.arange(jobs + 1),
        1,
        gpus=rng.integers(1, 5, jobs),
        counts=[5],
    )
    choice = np.arange(jobs)
    lists = [np.stack((choice, np.array(order))) for order in permutations(range(jobs))]
    best = min(model.objective(point) for point in lists)
    found = by_pools.solve(model, SolveOptions(), choice, 0.0)
    assert found.bound is not None
    assert best * (1 - 1e-9) <= found.bound <= best * (1 + 1e-12)
    own = choice if found.point is None else found.point
    assert model.objective(own) == pytest.approx(best, rel=1e-12)


def test_a_plan_with_starts_comes_back_with_its_turns() -> None:
    instance = generate_cluster(1, 24, {"a": 8, "b": 8}, wide=0.6)
    formulation = MatchingByMachine(instance)
    model = formulation.model
    rng = np.random.default_rng(0)
    for _ in range(50):
        rows = model.offsets[:-1] + rng.integers(0, np.diff(model.offsets))
        point = np.stack((rows, rng.permutation(model.num_jobs)))
        plan = formulation.plan(point)
        assert check(instance, plan).feasible
        back = formulation.choice(plan)
        assert back is not None
        assert model.objective(back) <= model.objective(point)
        assert check(instance, formulation.plan(back)).objective == pytest.approx(model.objective(back))


def test_twelve_gangs_on_two_pools_are_proven() -> None:
    for seed in range(2):
        drawn = generate_cluster(seed, 12, {"a": 8, "b": 8}, wide=0.6)
        instance = msgspec.structs.replace(
            drawn,
            jobs=tuple(
                msgspec.structs.replace(
                    job,
                    on={
                        name: msgspec.structs.replace(entry, time_s=float(np.ceil(entry.time_s or 0.0)))
                        for name, entry in job.on.items()
                    },
                )
                for job in drawn.jobs
            ),
        )
        solution = apportion.solve(instance, deterministic=True)
        assert solution.termination is Termination.OPTIMAL
        assert solution.bound == pytest.approx(solution.objective, rel=1e-12)


def _nine_gangs() -> tuple[MatchingInstance, Assignment]:
    """Return nine jobs whose best schedule no list by length or width gives: CP-SAT finds it, 2022.1."""
    instance = generate_cluster(7, 9, {"a": 8, "b": 8}, wide=0.6)
    return instance, MatchingByMachine(instance).model


def test_under_a_time_limit_cp_sat_runs_in_a_process_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process nothing ends a search that overruns its limit."""
    instance, model = _nine_gangs()
    free = by_pools.solve(model, SolveOptions(), model.offsets[:-1].copy(), 0.0)
    monkeypatch.setattr(gang_sets, "call", None)  # would fail here
    told: list[float] = []
    limit = patience(30.0)
    held = apportion.solve(
        instance, time_limit=limit, on_incumbent=lambda found: told.append(found.objective)
    )
    assert free.termination is Termination.OPTIMAL
    assert held.termination is Termination.OPTIMAL
    assert held.objective == pytest.approx(free.objective, rel=1e-12)
    assert held.bound == pytest.approx(free.bound, rel=1e-9)
    assert told == sorted(set(told), reverse=True)
    assert told[-1] == held.objective


def test_a_search_that_never_ends_is_ended_and_its_best_schedule_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a busy machine CP-SAT once came back 12 seconds after a limit of 10."""
    instance, model = _nine_gangs()
    start = model.offsets[:-1].copy()
    child = isolated.Child()
    # loads CP-SAT there, so that the limit below is left for the search, whatever else the machine does
    monkeypatch.setattr(by_pools, "_LOADED", 0.0)
    best = child.solve(f"{BADLY}:solve", model, SolveOptions(time_limit=patience(60.0)), start, (0.0,))
    asked, outlived = [], []

    def ended(entry: str, *given: Any) -> Outcome:
        asked.append(entry)
        outcome = child.solve(f"{BADLY}:endless", *given)
        outlived.append(child.pid)
        return outcome

    monkeypatch.setattr(isolated, "solve", ended)
    found = apportion.solve(instance, time_limit=patience(0.7))
    child.close()
    assert best.termination is Termination.OPTIMAL
    assert asked == [by_pools.ENTRY]
    assert outlived == [None]
    assert found.termination is Termination.TIME_LIMIT
    assert found.objective == pytest.approx(best.objective, rel=1e-12)
    assert found.bound is not None and found.objective is not None
    assert found.bound < found.objective


def test_a_process_that_dies_leaves_the_schedules_of_the_local_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    instance, _ = _nine_gangs()
    monkeypatch.setattr(by_pools, "_LOADED", 0.0)
    monkeypatch.setattr(by_pools, "ENTRY", f"{BADLY}:crashing")
    found = apportion.solve(instance, time_limit=patience(0.7))
    assert found.plan is not None and check(instance, found.plan).feasible
    assert found.termination is not Termination.OPTIMAL
    assert "SIGSEGV" in found.outcome.raw_status
