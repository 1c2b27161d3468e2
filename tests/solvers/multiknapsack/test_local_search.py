"""The local search: its twins step alike, and what it offers is checked and never worse."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.suite.making import make
from numpy.typing import NDArray
from tests.budgets import examples
from tests.oracles import enumerate_knapsack
from tests.solvers.multiknapsack.test_implied_rows import sparse
from tests.solvers.multiknapsack.test_limits import racks

from apportion.core.options import SolveOptions
from apportion.models import MultipleChoiceKnapsack
from apportion.solvers.clock import Clock
from apportion.solvers.compiled import load
from apportion.solvers.multiknapsack import anytime
from apportion.solvers.multiknapsack import local_search as module
from apportion.solvers.multiknapsack.dual import solve_dual
from apportion.solvers.multiknapsack.local_search import LocalSearch
from apportion.solvers.multiknapsack.option_table import ChoiceIncumbent, OptionTable, build
from apportion.solvers.multiknapsack.proving import CoreAnswer
from apportion.solvers.multiknapsack.repair import by_density, cheapest
from apportion.solvers.multiknapsack.several_capacities import solve


def begun(
    model: MultipleChoiceKnapsack, seed: int, options: SolveOptions
) -> tuple[LocalSearch, ChoiceIncumbent] | None:
    """Return a search that begins at a choice by density, and its incumbent."""
    menus, clock = build(model), Clock(options)
    if menus is None or not menus.num_jobs or not menus.num_capacities:
        return None
    best = ChoiceIncumbent(model, options, clock)
    first = by_density(menus, cheapest(menus))
    if first is None:
        return None
    best.take(menus.rows[first])
    prices = solve_dual(menus).multipliers
    return LocalSearch(menus, menus.loss(prices), prices, best, clock, seed), best


@pytest.mark.parametrize("name", ["eject", "anneal"])
def test_the_twins_make_the_same_steps(name: str) -> None:
    compiled = load("multiknapsack.local_search_c")
    if compiled is None:
        pytest.skip("the compiled part is not built")
    changed = exceeded = 0
    special, firmer = (3.0, 1.0) if name == "eject" else (0.02, 1.01)
    for seed in range(examples(60)):
        made = begun(racks(12, 4, seed) if seed % 2 == 0 else sparse(seed), seed, SolveOptions())
        if made is None:
            continue
        search, best = made
        among = best.among(search._menus)
        assert among is not None
        choice = search._place[among]
        ends: list[tuple[float, NDArray[np.int64], NDArray[np.int64], int]] = []
        for run in (getattr(compiled, name), getattr(module, f"{name}_in_python")):
            now, found, word = choice.copy(), choice.copy(), np.array([seed + 1], dtype=np.uint64)
            value = run(*search._arrays, now, found, word, 400, special, 2.0, 0.99, firmer)
            ends.append((value, now, found, int(word[0])))
        assert ends[0][0] == ends[1][0] and ends[0][3] == ends[1][3], seed
        assert (ends[0][1] == ends[1][1]).all() and (ends[0][2] == ends[1][2]).all(), seed
        changed += bool((ends[0][1] != choice).any())
        used = search._menus.used(np.argsort(search._place)[ends[0][1]])
        exceeded += bool((used > search._menus.capacities).any())
    assert changed >= 3 and (exceeded > 0) is (name == "anneal")


@pytest.mark.parametrize("uncompiled", [False, True])
def test_it_ends_at_optima_of_small_menus_and_at_nothing_that_does_not_fit(
    uncompiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if uncompiled:
        monkeypatch.setattr(module, "load", lambda _: None)
    wanted = found = 0.0
    for seed in range(examples(100)):
        model = sparse(seed)
        made, best = begun(model, seed, SolveOptions(deterministic=True)), enumerate_knapsack(model)
        if made is None or best is None:
            continue
        search, incumbent = made
        search.run(0.01)
        assert incumbent.point is not None and model.check(incumbent.point).feasible
        assert incumbent.objective is not None and incumbent.objective <= best[0] * (1 + 1e-12)
        wanted, found = wanted + best[0], found + incumbent.objective
    assert found >= 0.99 * wanted


def test_arrays_that_do_not_fit_together_are_refused() -> None:
    compiled = load("multiknapsack.local_search_c")
    if compiled is None:
        pytest.skip("the compiled part is not built")
    made = begun(racks(12, 4, 0), 0, SolveOptions())
    assert made is not None
    search, best = made
    choice, word = best.among(search._menus), np.array([1], dtype=np.uint64)
    assert choice is not None
    for at in range(len(search._arrays)):
        for broken in (
            search._arrays[at][:-1],
            np.full_like(search._arrays[at], 1 << 30),
        ):
            arrays = [*search._arrays[:at], broken, *search._arrays[at + 1 :]]
            if at in (0, 3, 5, 6) and broken.size == search._arrays[at].size:
                continue  # any number will do
            with pytest.raises(ValueError, match="do not fit together"):
                compiled.eject(*arrays, choice.copy(), choice.copy(), word, 10, 3.0, 1.0, 0.9, 1.0)
    with pytest.raises(ValueError, match="do not fit together"):
        compiled.anneal(*search._arrays, choice + (1 << 30), choice.copy(), word, 10, 3.0, 1.0, 0.9, 1.0)


def test_lists_of_some_options_hold_the_incumbent_that_others_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where time is short only options of least loss are listed, those that use nothing, and its own."""
    monkeypatch.setattr(module, "_READ", 20)
    short = listed_anew = 0
    for seed in range(40):
        model = racks(12, 4, seed)
        search, best = begun(model, seed, SolveOptions(time_limit=1.0, deterministic=True)) or (None, None)
        if search is None or best is None:
            continue
        menus, (every, _) = search._menus, search._all
        short += menus.num_options < every.num_options
        optimum = solve(model, SolveOptions()).point
        assert optimum is not None
        best.take(optimum)
        missing = best.among(menus) is None
        before = best.value
        search.run(0.01)
        listed_anew += missing and best.among(search._menus) is not None
        assert best.among(search._menus) is not None
        assert before is not None and best.value is not None and best.value >= before
    assert short >= 20 and listed_anew >= 1, (short, listed_anew)


def full_pools(seed: int) -> tuple[MultipleChoiceKnapsack, NDArray[np.int64]]:
    """Return pools that a start fills, two owners who keep all their shares of them, and the start.

    What an owner's jobs have of a pool is a share of it; both have as much as they can together.
    """
    rng, jobs, rooms = np.random.default_rng(seed), 120, np.array([160, 91, 135])
    used = rng.integers(1, 7, (jobs, 3))
    share = used * (np.lcm.reduce(rooms) // rooms)
    taken, left = np.full(jobs, 3), rooms.copy()
    for job in np.argsort(-share.max(axis=1)):
        pool = int(np.argmax(share[job]))
        if used[job, pool] <= left[pool]:
            taken[job] = pool
            left[pool] -= used[job, pool]
    owner = rng.integers(0, 2, jobs)
    share = np.hstack((share, np.zeros((jobs, 1), dtype=np.int64)))  # the last option is to wait
    forgone = share.max(axis=1, keepdims=True) - share
    uses = np.zeros((jobs, 4, 5), dtype=np.int64)
    for pool in range(3):
        uses[:, pool, pool] = used[:, pool]
    for one in range(2):
        uses[owner == one, :, 3 + one] = forgone[owner == one]
    values = np.hstack((rng.integers(100, 5000, (jobs, 3)), np.zeros((jobs, 1))))
    limits = uses[np.arange(jobs), taken].sum(axis=0)
    model = MultipleChoiceKnapsack.from_arrays(
        values.ravel(), uses.reshape(-1, 5), np.arange(jobs + 1) * 4, limits
    )
    return model, np.arange(jobs) * 4 + taken


@pytest.mark.parametrize("seed", [1, 3])
def test_jobs_that_must_run_in_little_room_come_near_the_bound(seed: int) -> None:
    """Steps between choices that fit, and cores, end 17 and 19 % from it."""
    if load("multiknapsack.local_search_c") is None:
        pytest.skip("steps take sixty times as long where they are not compiled")
    model = make("must_run", {"seed": seed, "jobs": 200, "capacities": 60, "room": 0.7}, None)
    outcome = solve(model, SolveOptions(time_limit=3.0, deterministic=True))
    assert outcome.point is not None and model.check(outcome.point).feasible
    assert outcome.objective is not None and outcome.bound is not None
    assert outcome.objective >= 1.15 * outcome.bound


@pytest.mark.parametrize("seed", [1, 2])
def test_an_incumbent_far_from_the_bound_under_tight_floors_comes_nearer(seed: int) -> None:
    """Neither repairs, beams nor HiGHS moved it in ten seconds: a third of the bound was all there was."""
    model, start = full_pools(seed)
    outcome = solve(model, SolveOptions(time_limit=4.0, deterministic=True), start)
    assert outcome.point is not None and model.check(outcome.point).feasible
    assert outcome.objective is not None and outcome.bound is not None
    assert model.objective(start) < 0.4 * outcome.bound
    assert outcome.objective > 0.7 * outcome.bound


def test_a_limit_of_work_leaves_no_time_for_the_local_search() -> None:
    """Places are filled under such limits: a turn of HiGHS that came in after it took two seconds for one."""
    model, start = full_pools(1)
    outcome = solve(model, SolveOptions(deterministic=True, work_limit=1e5), start)
    assert outcome.counters["mip_calls"] == 0 and outcome.objective == model.objective(start)


@pytest.mark.parametrize(("closed", "source"), [(0.5, "solver"), (0.02, "multipliers")])
def test_a_bound_of_highs_is_stated_where_it_closes_much_of_what_prices_leave_open(
    closed: float, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HiGHS had the optimum, 3e-8 short of a proof; stated was what prices show, 6 % off."""
    model, start = full_pools(2)
    menus = build(model)
    assert menus is not None
    shown = solve_dual(menus).bound

    def short(core: OptionTable, *, start: NDArray[np.int64], **_: object) -> CoreAnswer:
        value = float(core.values[start].sum())
        return CoreAnswer(start, shown - closed * (shown - value), False, 1, "Optimal")

    monkeypatch.setattr(anytime, "solve_core", short)
    outcome = solve(model, SolveOptions(time_limit=2.0, deterministic=True), start)
    assert outcome.bound_source == source and outcome.bound is not None
    assert (outcome.bound < shown * (1 - 1e-9)) is (source == "solver")
