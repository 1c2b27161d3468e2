"""An earlier choice is carried over to other menus: kept where it fits, relieved where it does not."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

import apportion
from apportion.models import MultipleChoiceKnapsack
from apportion.solving.compiled_model import repaired


def drawn(seed: int, jobs: int, capacities: int, *, sparse: bool, required: float = 0.0) -> Any:
    """Return menus of three options a job, each of which uses two of the capacities, and room for a third."""
    rng = np.random.default_rng(seed)
    uses = np.zeros((3 * jobs, capacities), dtype=np.int64)
    for row in uses:
        row[rng.choice(capacities, 2, replace=False)] = rng.integers(1, 9, 2)
    room = np.maximum(uses.sum(axis=0) // 9, 1)
    given: Any = uses
    if sparse:
        from scipy.sparse import csr_array

        given = csr_array(uses)
    return MultipleChoiceKnapsack.from_arrays(
        rng.integers(1, 60, 3 * jobs).astype(float),
        given,
        np.arange(0, 3 * jobs + 1, 3),
        room,
        required=rng.random(jobs) < required,
    )


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_jobs_that_may_wait_are_always_relieved(seed: int, sparse: bool) -> None:
    model = drawn(seed, 30, 5, sparse=sparse)
    rng = np.random.default_rng(seed)
    rows = np.where(rng.random(30) < 0.8, model.offsets[:-1] + rng.integers(0, 3, 30), -1)
    assert not model.fits(rows)
    found = repaired(model, rows)
    assert found is not None and model.check(found).feasible
    assert (found[rows < 0] < 0).all(), "nobody else moves"
    again = repaired(model, found)
    assert again is not None and (again == found).all()


def test_jobs_that_must_run_have_an_option() -> None:
    found = 0
    for seed in range(30):
        model = drawn(seed, 20, 4, sparse=False, required=0.2)
        near = repaired(model, np.full(20, -1, dtype=np.int64))
        if near is not None:
            assert model.check(near).feasible and (near[model.required] >= 0).all()
            found += 1
    assert found > 20


def test_who_loses_least_for_what_is_exceeded_goes() -> None:
    """Room for three of five alike jobs, and a sixth that uses nothing of it."""
    model = MultipleChoiceKnapsack.from_arrays(
        values=[5.0, 1.0, 4.0, 2.0, 3.0, 0.5],
        uses=[[2, 0], [2, 0], [2, 0], [2, 0], [2, 0], [0, 1]],
        offsets=np.arange(7),
        capacities=[6, 1],
        required=False,
    )
    found = repaired(model, np.arange(6))
    assert found is not None and found.tolist() == [0, -1, 2, -1, 4, 5]


def test_a_move_never_takes_what_is_not_left() -> None:
    """Each could have what the other exceeds instead: they do not change places for ever."""
    model = MultipleChoiceKnapsack.from_arrays(
        values=[1.0, 1.0, 1.0, 1.0],
        uses=[[2, 0], [0, 2], [2, 0], [0, 2]],
        offsets=[0, 2, 4],
        capacities=[1, 1],
        required=True,
    )
    assert repaired(model, np.array([0, 2])) is None


def test_a_round_of_which_one_in_a_hundred_changed_is_decided_sooner_than_anew() -> None:
    """Of 20,000 jobs on 60 capacities, a repair moved one at a time, and at times to and fro for ever."""
    before = drawn(1, 20_000, 60, sparse=True)
    first = apportion.solve(before, gap=0.01, time_limit=30.0)
    values, changed = before.values.copy(), np.arange(0, 60_000, 100)
    uses = before.matrix.copy()
    rng = np.random.default_rng(2)
    values[changed] = rng.integers(1, 60, changed.size)
    uses.data[np.isin(np.repeat(np.arange(60_000), np.diff(uses.indptr)), changed)] *= 3
    model = MultipleChoiceKnapsack.from_arrays(
        values, uses, before.offsets, before.capacities, required=False
    )
    assert not model.fits(first.plan)
    began = time.process_time()
    assert repaired(model, first.plan) is not None
    repair, began = time.process_time() - began, time.process_time()
    cold = apportion.solve(model, gap=0.001, time_limit=30.0)
    anew, began = time.process_time() - began, time.process_time()
    warm = apportion.solve(model, gap=0.001, time_limit=30.0, warm_start=first)
    assert repair < anew and time.process_time() - began < anew, "its prices are near those of before"
    assert cold.termination.value == warm.termination.value == "gap_reached"
