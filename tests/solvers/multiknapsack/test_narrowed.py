"""Of many jobs those that a sample leaves undecided are left to the simplex: the prices are the same."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from benchmarks.suite.making import MAKERS
from scipy.sparse import csr_array

import apportion
from apportion.models import MultipleChoiceKnapsack
from apportion.solvers.multiknapsack import linear_dual, proving
from apportion.solvers.multiknapsack.option_table import OptionTable, bound_at, build


def racks(jobs: int, racks: int, seed: int) -> MultipleChoiceKnapsack:
    """Return a round of the suite: three options a job, each of which uses two racks."""
    made: MultipleChoiceKnapsack = MAKERS["pairs_of_racks"](seed=seed, jobs=jobs, racks=racks)
    return made


def queues(jobs: int, tenants: int, seed: int) -> MultipleChoiceKnapsack:
    """Return jobs on three GPU types, within limits of their queue, some of them small, and of its group."""
    rng = np.random.default_rng(seed)
    weight = 1.0 / np.arange(1, tenants + 1)
    queue = np.repeat(rng.choice(tenants, jobs, p=weight / weight.sum()), 3)
    count = rng.choice([1, 2, 4, 8], 3 * jobs)
    groups = tenants // 10 + 1
    columns = np.column_stack((rng.integers(0, 3, 3 * jobs), 3 + queue, 3 + tenants + queue // 10)).ravel()
    total = float(count.sum()) / 3
    amounts = total * rng.uniform(0.3, 1.2, tenants) * weight / weight.sum()
    room = np.concatenate(
        (np.full(3, total / 5), np.maximum(8, amounts), np.full(groups, 0.7 * total / groups + 8))
    )
    return MultipleChoiceKnapsack.from_arrays(
        np.round(10 * count**0.8 * rng.uniform(1, 9, 3 * jobs)),
        csr_array(
            (np.repeat(count, 3), (np.repeat(np.arange(3 * jobs), 3), columns)),
            shape=(3 * jobs, 3 + tenants + groups),
        ),
        np.arange(0, 3 * jobs + 1, 3),
        room.astype(np.int64),
        required=False,
    )


def table(model: MultipleChoiceKnapsack) -> OptionTable:
    made = build(model)
    assert made is not None and made.has_sparse_rows
    return made


def unlimited() -> None:
    """Say that there is no limit of time."""


@pytest.mark.parametrize("make", [racks, queues])
@pytest.mark.parametrize("large", [200_000, 60], ids=["of a sample", "of a sample of a sample"])
@pytest.mark.parametrize("seed", range(6))
def test_the_prices_are_those_of_the_relaxation_of_all_jobs(
    make: Any, seed: int, large: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linear_dual, "_SAMPLED", 150)
    monkeypatch.setattr(linear_dual, "_LARGE", large)
    menus = table(make(600, 30, seed))
    whole, found = linear_dual._solved(menus, None), linear_dual.narrowed(menus, unlimited)
    assert whole is not None and found is not None and found[1] is not None
    assert math.isclose(bound_at(menus, found[0]), bound_at(menus, whole[0]), rel_tol=1e-9)
    assert (menus.job[found[1]] == np.arange(menus.num_jobs)).all()
    loss = menus.loss(found[0])[found[1]]
    assert loss.max() <= 1e-6 * menus.values.max(), "of a point of the relaxation no option loses anything"


def test_prices_at_hand_are_taken_and_a_limit_returns_the_best_ones() -> None:
    menus = table(racks(500, 20, 3))
    whole = linear_dual._solved(menus, None)
    assert whole is not None
    near = linear_dual.narrowed(menus, unlimited, whole[0])
    assert near is not None and math.isclose(
        bound_at(menus, near[0]), bound_at(menus, whole[0]), rel_tol=1e-9
    )
    late = linear_dual.narrowed(menus, lambda: 0.0, whole[0])
    assert late is not None and late[1] is not None
    assert (late[0] == whole[0]).all() and (menus.job[late[1]] == np.arange(500)).all()


@pytest.mark.slow
def test_many_jobs_on_many_capacities_have_a_good_plan_in_time() -> None:
    """The relaxation of 60,000 jobs by itself took all of ten seconds, and the plan was 18 % off."""
    model = racks(60_000, 60, 1)
    found = apportion.solve(model, gap=0.001, time_limit=60.0)
    assert found.termination.value == "gap_reached" and model.check(found.plan).feasible
    assert found.certificate.source == "multipliers"


def test_highs_shifts_no_points_of_large_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is asked for a third of a second, of 81,000 options that took it a minute and a half."""
    asked = []

    def call(model: Any, settings: Any, *_: Any, **__: Any) -> Any:
        asked.append((model.cost.size, settings["mip_heuristic_run_shifting"]))
        raise proving.BackendUnavailable("highs", "not here")

    monkeypatch.setattr(proving, "call", call)
    limits = {"start": None, "seconds": 1.0, "nodes": 9, "step": 1.0, "threads": 1, "seed": 0}
    for jobs in (4_000, 8_000):
        proving.solve_core(table(racks(jobs, 30, 1)), reduced=True, **limits)  # type: ignore[arg-type]
    assert [shifted for _, shifted in asked] == [True, False]
    assert asked[0][0] < 20_000 < asked[1][0]
