"""A round of 2,000 jobs of 100 tenants: every level proved, then the best sum, in about 0.6 CPU seconds."""

from __future__ import annotations

import time

import pytest

import apportion
from apportion import MultipleChoiceKnapsackInstance, Solution
from apportion.instances.multiple_choice_knapsack.generator import generate_tenants
from apportion.instances.tenants.schema import Fairness
from apportion.io.stored import document, verify


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 9))
def test_what_is_told_of_two_thousand_jobs_checks(seed: int) -> None:
    instance, solution = solved(seed)
    assert verify(instance, document(solution)).ok


@pytest.mark.one_in(8)
@pytest.mark.parametrize("seed", range(1, 9))
def test_two_thousand_jobs_of_a_hundred_tenants(seed: int) -> None:
    solved(seed)


def solved(seed: int) -> tuple[MultipleChoiceKnapsackInstance, Solution]:
    apportion.solve(generate_tenants(1, 20, 4, 16, Fairness()), gap=2e-3)  # imports
    instance = generate_tenants(seed, 2000, 100, 384, Fairness())
    began = time.process_time()
    solution = apportion.solve(instance, gap=2e-3, time_limit=60.0)
    spent = time.process_time() - began
    print(f"seed {seed}: {spent:.2f} CPU s, {len(solution.levels)} levels, gap {solution.gap:.1e}")
    assert len(solution.levels) == 75
    assert all(level.evidence == "by_search" and level.bound == level.share for level in solution.levels)
    assert solution.gap is not None and solution.gap <= 2e-3
    assert solution.evidence in ("by_multipliers", "by_search")
    assert solution.objective is not None and solution.fair_bound is not None
    assert 0 <= solution.fair_bound - solution.objective <= 2e-3 * solution.objective
    assert spent < 3.0  # about 0.6 on a core that is not shared
    return instance, solution
