"""A limit returns the incumbent: no less than a plain greedy reaches in the same time, and never nothing."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import apportion
from apportion.instances.freezing.generator import generate as freezing_round
from apportion.instances.gap_filling.generator import generate as gap_filling_event
from apportion.instances.matching.generator import generate_assignment
from apportion.models.multiple_choice import MultipleChoiceKnapsack


def menus(jobs: int, capacities: int, alike: bool) -> MultipleChoiceKnapsack:
    """Return optional jobs of three options, worth 1 each or anything."""
    rng = np.random.default_rng(jobs)
    uses = rng.integers(1, 20, (3 * jobs, capacities))
    values = np.ones(3 * jobs) if alike else rng.random(3 * jobs)
    offsets = np.arange(0, 3 * jobs + 1, 3)
    return MultipleChoiceKnapsack.from_arrays(values, uses, offsets, uses.sum(0) // 9, required=False)


def greedy(model: MultipleChoiceKnapsack) -> tuple[float, float]:
    """Return what options in the order of value per use reach until one does not fit, and the seconds."""
    began = time.perf_counter()
    share: NDArray[np.float64] = (model.uses / np.maximum(model.capacities, 1)).sum(1)
    order = np.argsort(-model.values / np.maximum(share, 1e-12), kind="stable")
    _, first = np.unique(model.job_of_option()[order], return_index=True)
    order = order[np.sort(first)]
    fits = (np.cumsum(model.uses[order], axis=0) <= model.capacities).all(1)
    taken = order[: order.size if fits.all() else int(fits.argmin())]
    return float(model.values[taken].sum()), time.perf_counter() - began


@pytest.mark.one_in(5)
@pytest.mark.parametrize("alike", [True, False])
@pytest.mark.parametrize("capacities", [1, 2, 3, 9])
@pytest.mark.parametrize(
    "jobs",
    [10, 1_000, 30_000, *(pytest.param(many, marks=pytest.mark.slow) for many in (300_000, 1_000_000))],
)
def test_a_limit_returns_no_less_than_a_plain_greedy(jobs: int, capacities: int, alike: bool) -> None:
    model = menus(jobs, capacities, alike)
    reached, seconds = greedy(model)
    for limit in (0.001, 0.01, 0.05, 0.3, *((0.6, 1.0) if jobs > 30_000 else ())):
        solution = apportion.solve(model, time_limit=limit)
        assert solution.plan is not None and (solution.objective or 0.0) > 0.0, limit
        if seconds <= limit:
            assert (solution.objective or 0.0) >= reached * (1 - 1e-12), limit


_COLD = """
import sys
import apportion
from tests.solvers.test_promises import greedy, menus
jobs, capacities, alike, limit = (float(word) for word in sys.argv[1:])
model = menus(int(jobs), int(capacities), bool(alike))
solution = apportion.solve(model, time_limit=limit)
reached, seconds = greedy(model)
assert solution.plan is not None and solution.objective > 0.0
assert 2 * seconds > limit or solution.objective >= reached * (1 - 1e-12), (solution.objective, reached)
"""


@pytest.mark.one_in(29)
@pytest.mark.parametrize("limit", [0.001, 0.05, 0.3, 1.0])
@pytest.mark.parametrize("alike", [1, 0])
@pytest.mark.parametrize("capacities", [1, 2, 9])
@pytest.mark.parametrize("jobs", [10, 30_000, pytest.param(300_000, marks=pytest.mark.slow)])
def test_the_first_call_of_a_process_keeps_it_too(
    jobs: int, capacities: int, alike: int, limit: float, root: Path
) -> None:
    words = [str(word) for word in (jobs, capacities, alike, limit)]
    subprocess.run([sys.executable, "-c", _COLD, *words], cwd=root, check=True, timeout=300)


def test_a_limit_that_is_over_hands_nothing_more_to_highs() -> None:
    """It took 5 seconds of 80,000 options under a limit of none, and does not look at the clock."""
    model = menus(30_000, 2, alike=True)
    began = time.process_time()
    assert apportion.solve(model, time_limit=1.0).plan is not None
    assert time.process_time() - began < 3.0


def test_the_first_that_fit_are_taken_where_the_limit_is_over_at_once() -> None:
    """300,000 jobs worth the same under one capacity: nobody had anything after a millisecond."""
    model = menus(300_000, 1, alike=True)
    solution = apportion.solve(model, time_limit=1e-3)
    assert solution.objective is not None and solution.objective > 0.9 * greedy(model)[0]


@pytest.mark.parametrize(
    ("instance", "limit"),
    [
        (gap_filling_event(seed=1, jobs=30, nodes=300), 0.001),
        (freezing_round(1, 20, {"v100": 64}), 0.001),
        (generate_assignment(1, 60, 10), 0.3),  # that everybody fits is a question of its own there
    ],
    ids=["gap_filling", "freezing", "matching"],
)
def test_every_kind_returns_a_plan(instance: apportion.Instance, limit: float) -> None:
    """What keeps as few changes as possible was then asked with no time at all, which was an error."""
    solution = apportion.solve(instance, time_limit=limit)
    assert solution.plan is not None and apportion.check(instance, solution.plan).feasible
