"""Jobs alike are one job of the relaxation: the same prices show the same bound."""

from __future__ import annotations

import math

import numpy as np
import pytest
from benchmarks.suite.making import MAKERS

from apportion.models import MultipleChoiceKnapsack
from apportion.solvers.multiknapsack import alike_jobs, linear_dual
from apportion.solvers.multiknapsack.option_table import OptionTable, bound_at, build


def tasks(seed: int, shapes: int, each: int, workers: int) -> OptionTable:
    """Return tasks of the suite in search form: so many of each shape, on workers of two kinds."""
    made = build(MAKERS["tasks"](seed=seed, shapes=shapes, each=each, workers=workers))
    assert made is not None and made.has_sparse_rows
    return made


@pytest.mark.parametrize("seed", range(6))
def test_the_relaxation_of_classes_is_that_of_all_jobs(seed: int) -> None:
    menus = tasks(seed, 12, 10, 8)
    classes = alike_jobs.alike_jobs(menus)
    assert classes.counts.tolist() == [10] * 12
    found, every = linear_dual.relaxed(menus, None), linear_dual._solved(menus, None)
    assert found is not None and found[1] is not None and every is not None and every[1] is not None
    shown = bound_at(menus, every[0])
    assert math.isclose(bound_at(menus, found[0]), shown, rel_tol=1e-9)
    assert (menus.job[found[1]] == np.arange(menus.num_jobs)).all()
    assert menus.loss(found[0])[found[1]].max() <= 1e-6 * menus.values.max()


@pytest.mark.parametrize("seed", range(6))
def test_the_jobs_of_a_class_have_options_near_its_shares(seed: int) -> None:
    classes, rng = alike_jobs.alike_jobs(tasks(seed, 7, 9, 5)), np.random.default_rng(seed)
    job = classes.menus.job
    shares = rng.random(job.size) * (rng.random(job.size) < 0.4) + 1e-9
    shares /= np.bincount(job, weights=shares)[job]
    amounts = classes.inward(classes.divided(shares))
    assert np.array_equal(np.bincount(job, weights=amounts), classes.counts)
    assert (np.abs(amounts - 9 * shares) <= 1.0).all()


def test_the_same_sums_do_not_make_jobs_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    menus = tasks(1, 5, 4, 6)
    assert alike_jobs.alike_jobs(menus).counts.size == 5
    monkeypatch.setattr(alike_jobs, "_signs", lambda menus: np.zeros(menus.num_jobs, dtype=np.uint64))
    assert alike_jobs.alike_jobs(menus).counts.size == menus.num_jobs
    dense = alike_jobs.alike_jobs(menus.dense())
    assert dense.counts.tolist() == [1] * menus.num_jobs


@pytest.mark.parametrize("dense", [False, True])
def test_jobs_that_differ_in_one_use_or_value_are_not_alike(dense: bool) -> None:
    model = MAKERS["tasks"](seed=2, shapes=3, each=4, workers=6)
    for at in range(0, model.num_options, 5):
        dearer = model.values + 3.0 * (np.arange(model.num_options) == at)
        for values, more in ((dearer, 0), (model.values, 1)):
            uses = model.matrix.copy()
            uses.data[2 * at] += more
            other = MultipleChoiceKnapsack.from_arrays(
                values, uses, model.offsets, model.capacities, required=False
            )
            menus = build(other)
            assert menus is not None
            counts = alike_jobs.alike_jobs(menus.dense() if dense else menus).counts
            assert sorted(counts.tolist()) == [1, 3, 4, 4], at
