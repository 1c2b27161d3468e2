"""Rows that follow from capacities: kept by every choice, and enough for racks of powers of two."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.suite.making import make
from tests.budgets import examples
from tests.oracles import enumerate_knapsack
from tests.solvers.multiknapsack.test_limits import racks

import apportion
from apportion.core.options import SolveOptions
from apportion.models import MultipleChoiceKnapsack
from apportion.solvers.multiknapsack import option_table
from apportion.solvers.multiknapsack.option_table import build
from apportion.solvers.multiknapsack.proven_bound import with_implied_rows
from apportion.solvers.multiknapsack.several_capacities import solve


def sparse(seed: int) -> MultipleChoiceKnapsack:
    """Return jobs whose options use one or two of several places."""
    rng = np.random.default_rng(seed)
    jobs, places = int(rng.integers(2, 6)), int(rng.integers(2, 5))
    sizes = rng.integers(1, 4, jobs)
    uses = np.zeros((int(sizes.sum()), places), dtype=np.int64)
    for _ in range(2):
        np.put_along_axis(
            uses, rng.integers(0, places, (len(uses), 1)), rng.choice([1, 2, 3, 4, 6], (len(uses), 1)), axis=1
        )
    return MultipleChoiceKnapsack.from_arrays(
        rng.integers(1, 30, len(uses)) / (1 if seed % 2 else 3),
        uses,
        np.concatenate(([0], np.cumsum(sizes))),
        rng.integers(3, 12, places),
        required=rng.random(jobs) < 0.2,
    )


def test_every_choice_that_keeps_the_capacities_keeps_the_rows() -> None:
    rows = tight = 0
    for seed in range(examples(300)):
        model = sparse(seed)
        menus = build(model)
        if menus is None or not menus.num_jobs or not menus.num_capacities:
            continue
        under, rng = with_implied_rows(menus), np.random.default_rng(seed)
        rows += under.capacities.size - menus.capacities.size
        assert (under.capacities[: menus.capacities.size] <= menus.capacities).all()
        for _ in range(30):
            choice = menus.offsets[:-1] + rng.integers(0, np.diff(menus.offsets))
            if (menus.used(choice) <= menus.capacities).all():
                assert (under.used(choice) <= under.capacities).all(), seed
                tight += bool((under.used(choice) == under.capacities).any())
    assert rows > 10 and tight > 10


def test_answers_under_implied_rows_are_those_of_enumeration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(option_table, "_MANY_CAPACITIES", 0)
    monkeypatch.setattr(option_table, "_DENSITY", 1.0)
    for seed in range(examples(300)):
        model = sparse(seed)
        monkeypatch.setattr(option_table, "_CELLS", seed % 2 * 10**9)
        outcome, best = solve(model, SolveOptions()), enumerate_knapsack(model)
        if best is None:
            assert outcome.termination.value == "infeasible", seed
            continue
        assert outcome.objective == pytest.approx(best[0], rel=1e-9), seed
        assert outcome.bound is not None and outcome.bound >= best[0] * (1 - 1e-9), seed


@pytest.mark.parametrize("seed", range(3))
def test_few_racks_are_searched_under_the_rows_that_follow(seed: int) -> None:
    """Of 40 jobs on 6 racks this took a second, and was HiGHS's word."""
    model = make("racks", {"seed": seed, "jobs": 40, "racks": 6}, None)
    found = apportion.solve(model, work_limit=3_000_000)
    told = apportion.solve(model, backend="highs", deterministic=True)
    assert found.termination.value == told.termination.value == "optimal"
    assert found.objective == pytest.approx(told.objective, rel=1e-9) and found.evidence == "by_search"


@pytest.mark.parametrize("seed", range(3))
def test_prices_of_racks_and_of_the_rows_that_follow_are_a_proof(seed: int) -> None:
    """Of 60 jobs on 40 racks a search of 20 s had left 5 % open."""
    solution = apportion.solve(racks(60, 40, seed), work_limit=1_000)
    assert solution.termination.value == "optimal"
    assert solution.bound == pytest.approx(solution.objective, rel=1e-9)
