"""Relaxations and growing cores of many capacities that few jobs touch, against enumeration and HiGHS."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from tests.oracles import enumerate_knapsack
from tests.strategies import knapsacks

from apportion.models import MultipleChoiceKnapsack
from apportion.models.lowering import lower
from apportion.options import SolveOptions
from apportion.outcome import Termination
from apportion.solvers.general.highs_call import call
from apportion.solvers.multiknapsack import dual, linear_dual
from apportion.solvers.multiknapsack.option_table import build
from apportion.solvers.multiknapsack.several_capacities import solve


def of_many_owners(seed: int, jobs: int, owners: int) -> MultipleChoiceKnapsack:
    """Menus of three shared capacities and, for every owner, a limit on what its jobs use of the first."""
    rng = np.random.default_rng(seed)
    options = 4
    shared = rng.integers(0, 6, (jobs * options, 3))
    owner = np.repeat(rng.integers(0, owners, jobs), options)
    own = np.where(owner[:, None] == np.arange(owners), shared[:, :1], 0)
    values = shared.sum(axis=1) * 10 + rng.integers(1, 20, jobs * options)
    limits = np.concatenate((np.full(3, 2 * jobs), np.full(owners, max(2, jobs // owners))))
    return MultipleChoiceKnapsack.from_arrays(
        values, np.hstack([shared, own]), np.arange(jobs + 1) * options, limits, required=False
    )


@settings(max_examples=100)
@given(model=knapsacks(min_capacities=2))
def test_small_menus_agree_with_enumeration(model: MultipleChoiceKnapsack) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(linear_dual, "_MANY", 0)
        patched.setattr(linear_dual, "_DENSITY", 1.0)
        patched.setattr(linear_dual, "_FIRST", 0)
        outcome = solve(model, SolveOptions(time_limit=None), None)
    truth = enumerate_knapsack(model)
    if truth is None:
        assert outcome.termination is Termination.INFEASIBLE
        return
    assert outcome.objective == pytest.approx(truth[0])
    assert outcome.bound == pytest.approx(truth[0], rel=2e-6)


@pytest.mark.parametrize("seed", range(3))
def test_sixty_owners_agree_with_highs_and_the_bound_is_that_of_the_relaxation(seed: int) -> None:
    model = of_many_owners(seed, 300, 60)
    menus = build(model)
    assert menus is not None and linear_dual.has_sparse_rows(menus)
    outcome = solve(model, SolveOptions(time_limit=None, deterministic=True), None)
    peer = call(lower(model).model, {"mip_rel_gap": 0.0, "threads": 1})
    assert peer.point is not None
    assert outcome.point is not None and model.check(outcome.point).feasible
    assert outcome.objective == pytest.approx(lower(model).model.objective(peer.point))
    assert outcome.termination is Termination.OPTIMAL
    prices = linear_dual.relaxed(menus, None)
    assert prices is not None
    assert dual.bound_at(menus, prices[0]) <= dual.solve_dual(menus).bound * (1 + 1e-9)
    whole = lower(model).model
    relaxation = call(replace(whole, integer=np.zeros_like(whole.integer)), {"threads": 1})
    assert dual.bound_at(menus, prices[0]) == pytest.approx(relaxation.bound, rel=1e-6)


def test_a_relaxation_without_time_concludes_nothing() -> None:
    menus = build(of_many_owners(1, 2000, 60))
    assert menus is not None
    assert linear_dual.relaxed(menus, 0.0) is None


@pytest.mark.parametrize("first", [0, 1, 3])
@pytest.mark.parametrize("seed", range(3))
def test_portions_of_columns_come_to_the_bound_of_all(
    seed: int, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    menus = build(of_many_owners(seed, 300, 60))
    assert menus is not None
    monkeypatch.setattr(linear_dual, "_FIRST", first)
    nothing = menus.offsets[:-1]  # *none* stands first in every menu
    whole, portions = linear_dual.relaxed(menus, None), linear_dual.relaxed(menus, None, nothing)
    assert whole is not None and portions is not None
    assert dual.bound_at(menus, portions[0]) == pytest.approx(dual.bound_at(menus, whole[0]), rel=1e-8)
    assert (menus.job[portions[1]] == np.arange(menus.num_jobs)).all()
    assert linear_dual._sifted(menus, lambda: None, nothing) is not None
