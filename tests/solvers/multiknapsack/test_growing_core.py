"""Relaxations and growing cores of many capacities that few jobs touch, against enumeration and HiGHS."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.budgets import examples
from tests.oracles import enumerate_knapsack
from tests.strategies import knapsacks

from apportion.core.options import SolveOptions
from apportion.core.outcome import Termination
from apportion.models import MultipleChoiceKnapsack
from apportion.models.lowering import lower
from apportion.solvers.clock import Clock
from apportion.solvers.general.highs_call import call
from apportion.solvers.multiknapsack import dual, linear_dual, option_table, several_capacities
from apportion.solvers.multiknapsack.expanding_core import Neighbourhoods
from apportion.solvers.multiknapsack.linear_dual import beside_divided, residual_core
from apportion.solvers.multiknapsack.option_table import bound_at, build
from apportion.solvers.multiknapsack.several_capacities import PartlyConstrained, solve


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


@settings(max_examples=examples(100))
@given(model=knapsacks(min_capacities=2), sparse=st.booleans())
def test_small_menus_agree_with_enumeration(model: MultipleChoiceKnapsack, sparse: bool) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(option_table, "_MANY_CAPACITIES", 0)
        patched.setattr(option_table, "_DENSITY", 1.0)
        patched.setattr(option_table, "_CELLS", 0 if sparse else 10**9)
        patched.setattr(linear_dual, "_WORTH", 0)
        patched.setattr(linear_dual, "_FIRST", 0)
        outcome = solve(model, SolveOptions(time_limit=None), None)
    truth = enumerate_knapsack(model)
    if truth is None:
        assert outcome.termination is Termination.INFEASIBLE
        return
    assert outcome.objective == pytest.approx(truth[0])
    assert outcome.bound == pytest.approx(truth[0], rel=2e-6)


@pytest.mark.parametrize("seed", range(3))
def test_neighbourhoods_come_near_the_optimum_and_limits_they_exceed_join_them(seed: int) -> None:
    model, options = of_many_owners(seed, 40, 6), SolveOptions(deterministic=True, work_limit=1e5)
    menus = build(model)
    assert menus is not None
    clock = Clock(options)
    best = PartlyConstrained(model, options, clock)
    best.take(np.full(model.num_jobs, -1, dtype=np.int64))
    shared = np.arange(menus.num_capacities) < 3
    best.searched, best.every = menus.binding[shared], (menus, shared)
    optimum = solve(model, SolveOptions()).objective
    assert optimum is not None
    counters = {"mip_calls": 0.0, "mip_nodes": 0.0}
    near_by = Neighbourhoods(menus.under(shared), optimum, best, options, clock, counters)
    near_by.run(1e9)
    assert best.point is not None and model.fits(best.point) and best.value is not None
    assert 0.96 * optimum <= best.value <= optimum
    assert counters["mip_calls"] > 0
    assert not near_by.is_far() and shared.sum() > 3  # some limits of owners are looked at by now


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_sixty_owners_agree_with_highs_and_the_bound_is_that_of_the_relaxation(seed: int) -> None:
    model = of_many_owners(seed, 300, 60)
    menus = build(model)
    assert menus is not None and menus.has_sparse_rows
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
    late = linear_dual.relaxed(menus, 0.0)
    assert late is not None and late[1] is not None
    prices, bound = late[0], linear_dual.relaxed(menus, None)
    assert bound is not None and (prices >= 0.0).all()
    assert bound_at(menus, prices) >= bound_at(menus, bound[0])


def here_or_there(room: int) -> MultipleChoiceKnapsack:
    """Three hundred jobs that take one of two capacities, at most two of each owner's the first."""
    owner = np.arange(300) % 100
    uses = np.zeros((600, 102), dtype=np.int64)
    uses[0::2, 0] = uses[1::2, 1] = 1
    uses[np.arange(0, 600, 2), 2 + owner] = 1
    limits = np.concatenate((np.array([room, room]), np.full(100, 2)))
    return MultipleChoiceKnapsack.from_arrays(np.zeros(600), uses, np.arange(0, 601, 2), limits)


def test_prices_of_an_infeasible_relaxation_refute_it(monkeypatch: pytest.MonkeyPatch) -> None:
    menus = build(here_or_there(149))
    assert menus is not None and menus.has_sparse_rows
    found = linear_dual.relaxed(menus, None)
    assert found is not None and found[1] is None
    assert (found[0] >= 0).all() and dual.overdrawn_by_all(menus, found[0])
    assert not dual.overdrawn_by_all(menus, np.zeros(menus.num_capacities))
    options = SolveOptions(time_limit=None)
    with monkeypatch.context() as patched:
        patched.setattr(several_capacities, "alike_prices", lambda menus, _: np.zeros(menus.num_capacities))
        patched.delattr(dual, "solve_dual")  # nothing else is priced
        assert solve(here_or_there(149), options, None).termination is Termination.INFEASIBLE
    assert solve(here_or_there(150), options, None).point is not None
    wrong = np.zeros(menus.num_capacities), None
    monkeypatch.setattr(dual, "relaxed", lambda *_: wrong)  # what does not refute concludes nothing
    assert solve(here_or_there(149), options, None).termination is Termination.INFEASIBLE
    assert solve(here_or_there(150), options, None).point is not None


def test_portions_are_of_so_many_where_all_are_worth_the_same() -> None:
    """Options on alike racks exceed their jobs' best by the same: none was taken, a hundred times."""
    excess = np.concatenate((np.full(50, 2.0), np.full(5, 3.0), np.zeros(20), np.full(20, -1.0)))
    taken = linear_dual._greatest(excess, 12)
    assert taken.sum() == 12 and taken[50:55].all() and not taken[55:].any()
    assert np.array_equal(linear_dual._greatest(excess, 100), excess > 0.0)


@pytest.mark.parametrize("first", [0, 1, 3])
@pytest.mark.parametrize("seed", range(3))
def test_portions_of_columns_come_to_the_bound_of_all(
    seed: int, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    menus = build(of_many_owners(seed, 300, 60))
    assert menus is not None
    monkeypatch.setattr(linear_dual, "_WORTH", 1)
    monkeypatch.setattr(linear_dual, "_FIRST", first)
    nothing = menus.offsets[:-1]  # *none* stands first in every menu
    whole, portions = linear_dual.relaxed(menus, None), linear_dual.relaxed(menus, None, nothing)
    assert whole is not None and portions is not None
    assert dual.bound_at(menus, portions[0]) == pytest.approx(dual.bound_at(menus, whole[0]), rel=1e-8)
    assert (menus.job[portions[1]] == np.arange(menus.num_jobs)).all()
    assert linear_dual.sifted(menus, lambda: None, nothing, linear_dual._agree) is not None


def test_what_does_not_fit_is_not_in_the_bound() -> None:
    # the only job of the last owner must have 4 of its 8: multipliers let it pay for more with less
    model = of_many_owners(2, 300, 60)
    uses = np.hstack([model.uses, np.zeros((model.num_options, 1), dtype=np.int64)])
    uses[:4, -1] = [8, 7, 6, 3]
    values = model.values.copy()
    values[:4] = [500.0, 400.0, 300.0, 1.0]
    tight = MultipleChoiceKnapsack.from_arrays(
        values, uses, model.offsets, np.append(model.capacities, 4), required=False
    )
    outcome = solve(tight, SolveOptions(time_limit=None, gap=1e-2), None)
    menus = build(tight)
    assert menus is not None and menus.num_options < tight.num_options + tight.num_jobs
    assert outcome.bound is not None and outcome.objective is not None
    assert outcome.bound_source == "branch_and_bound"
    assert outcome.objective <= outcome.bound <= 1.01 * outcome.objective
    assert outcome.multipliers is not None
    by_prices = dual.model_bound(tight, outcome.multipliers)
    assert by_prices is not None and by_prices > outcome.bound
    peer = call(lower(tight).model, {"mip_rel_gap": 0.0, "threads": 1})
    assert peer.point is not None
    assert lower(tight).model.objective(peer.point) <= outcome.bound


def test_settled_jobs_are_taken_out_and_put_back() -> None:
    menus = build(of_many_owners(3, 300, 60))
    assert menus is not None
    kept = np.ones(menus.num_options, dtype=np.bool_)
    for job in range(0, menus.num_jobs, 2):  # every other job keeps its last option alone
        kept[menus.offsets[job] : menus.offsets[job + 1] - 1] = False
    core = menus.keep(kept)
    part = residual_core(core)
    assert part.menus.num_jobs == (np.diff(core.offsets) > 1).sum() > 100
    inside = part.menus.offsets[:-1] + 1
    choice = part.outward(inside)
    assert (core.job[choice] == np.arange(core.num_jobs)).all()
    assert (part.inward(choice) == inside).all()
    assert part.value + part.menus.values[inside].sum() == pytest.approx(core.values[choice].sum())
    left = part.menus.capacities - part.menus.used(inside)
    assert left == pytest.approx(core.capacities - core.used(choice))


def test_the_options_beside_divided_jobs_are_those_of_least_loss_for_every_amount() -> None:
    menus = build(of_many_owners(1, 60, 40))
    assert menus is not None
    prices = linear_dual.relaxed(menus, None)
    assert prices is not None
    loss = menus.loss(prices[0])
    found = beside_divided(menus, loss)
    tiny = 1e-9 * menus.values.max()
    divided = [job for job in range(menus.num_jobs) if ((menus.job == job) & (loss <= tiny)).sum() > 1]
    wanted = np.zeros(menus.num_options, dtype=np.bool_)
    for limit in range(menus.num_capacities):
        touched = [job for job in divided if menus.uses[limit, (menus.job == job) & (loss <= tiny)].any()]
        if touched:
            for amount in np.unique(menus.uses[limit][menus.uses[limit] > 0]):
                same = np.flatnonzero(menus.uses[limit] == amount)
                wanted[same[np.argsort(loss[same], kind="stable")[:3]]] = True
    assert divided and (found == wanted).all()
