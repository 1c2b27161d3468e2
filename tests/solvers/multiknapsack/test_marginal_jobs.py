"""The jobs at the margin: what a core and the settled jobs say together is true of all, and is near."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.sparse import csr_array
from tests.solvers.multiknapsack.test_parts import relaxation
from tests.solvers.multiknapsack.test_several_capacities import random_mmkp
from tests.strategies import knapsacks

from apportion.core.options import SolveOptions
from apportion.core.outcome import Outcome, Termination
from apportion.models import MultipleChoiceKnapsack
from apportion.solvers.multiknapsack import marginal_jobs
from apportion.solvers.multiknapsack.dual import Dual, model_bound
from apportion.solvers.multiknapsack.marginal_jobs import core_of
from apportion.solvers.multiknapsack.option_table import OptionTable, bound_at
from apportion.solvers.multiknapsack.several_capacities import solve


@given(model=knapsacks(), size=st.integers(0, 12), data=st.data())
def test_a_core_and_the_decided_jobs_have_the_bound_of_the_model(
    model: MultipleChoiceKnapsack, size: int, data: st.DataObject
) -> None:
    price = st.floats(0.0, 30.0)
    caps = model.num_capacities
    prices = np.array(data.draw(st.lists(price, min_size=caps, max_size=caps)), dtype=np.float64)
    whole = model_bound(model, prices)
    if whole is None:
        return
    core = core_of(model, prices, size)
    if core is None:
        return
    sign = 1.0 if model.sense == "maximize" else -1.0
    settled = sign * model.objective(core.settled)
    tiny = 1e-9 * max(1.0, abs(whole))
    assert abs(core.bound - sign * whole) <= tiny
    # every job's best option is in the core or settled: the two bounds are one
    assert abs(bound_at(core.menus, prices) + settled - sign * whole) <= tiny
    sizes = np.diff(core.menus.offsets)
    assert (sizes > 1).all() and (core.settled[core.jobs] == -1).all()
    choice = core.menus.offsets[:-1] + np.array([data.draw(st.integers(0, int(n) - 1)) for n in sizes])
    rows = core.completed(choice)
    kept = (core.menus.used(choice) <= core.menus.capacities).all()
    assert kept == (model.used(rows) <= model.capacities).all()
    rules = {violation.rule for violation in model.check(rows).violations}
    assert "option" not in rules and "required" not in rules
    assert sign * model.objective(rows) == pytest.approx(settled + core.menus.values[choice].sum(), abs=tiny)


def _near(outcome: Outcome, model: MultipleChoiceKnapsack, gap: float) -> None:
    """Assert that a choice fits, and that the multipliers alone show it to be so near the optimum."""
    assert outcome.point is not None and outcome.multipliers is not None and outcome.bound is not None
    report = model.check(outcome.point)
    assert report.feasible and report.objective == outcome.objective
    bound = model_bound(model, outcome.multipliers)
    assert bound == outcome.bound
    assert abs(bound - report.objective) <= gap * abs(bound)


def _changed(model: MultipleChoiceKnapsack, share: float, seed: int) -> MultipleChoiceKnapsack:
    """Return a model in which a share of the jobs have other values and uses."""
    rng = np.random.default_rng(seed)
    other = np.repeat(rng.random(model.num_jobs), np.diff(model.offsets)) < share
    values = np.where(other, rng.permutation(model.values), model.values)
    uses = np.where(other[:, None], rng.permutation(model.uses), model.uses)
    return replace(model, values=values, matrix=uses)


@pytest.mark.parametrize("required", [False, True])
@pytest.mark.parametrize("capacities", [2, 6])
def test_large_models_end_at_the_margin(capacities: int, required: bool) -> None:
    model = random_mmkp(9_000, 5, capacities, seed=capacities, required=required)
    found = solve(model, SolveOptions(time_limit=60.0, gap=1e-4))
    assert found.termination is Termination.GAP_REACHED
    # with two capacities and all required prices tie most jobs: the whole model is looked at after all
    assert "build" not in found.seconds or (capacities == 2 and required)
    _near(found, model, 1e-4)
    assert found.bound == pytest.approx(relaxation(model), rel=1e-6)


def test_costs_are_as_near() -> None:
    model = replace(random_mmkp(9_000, 5, 3, seed=3, required=True), sense="minimize")
    found = solve(model, SolveOptions(time_limit=60.0, gap=1e-4))
    assert "build" not in found.seconds
    _near(found, model, 1e-4)


def _on_racks() -> MultipleChoiceKnapsack:
    """Return jobs that may run on one of a few racks each."""
    rng = np.random.default_rng(5)
    jobs, each, racks = 12_000, 3, 24
    uses = np.zeros((jobs * each, racks), dtype=np.int64)
    sizes = rng.integers(1, 9, jobs * each)
    uses[np.arange(jobs * each), rng.integers(0, racks, jobs * each)] = sizes
    return MultipleChoiceKnapsack.from_arrays(
        rng.integers(5, 61, jobs * each).astype(float),
        csr_array(uses),
        np.arange(0, jobs * each + 1, each),
        np.full(racks, int(sizes.sum()) // (3 * 4 * racks)),
        required=False,
    )


def test_sparse_uses_end_there_too() -> None:
    model = _on_racks()
    found = solve(model, SolveOptions(time_limit=60.0, gap=1e-3))
    assert "build" not in found.seconds
    _near(found, model, 1e-3)


def test_a_core_of_many_sparse_capacities_stays_sparse() -> None:
    model = _on_racks()
    prices = np.linspace(20.0, 24.0, model.num_capacities)
    core = core_of(model, prices, 4_000)
    listed = core_of(replace(model, matrix=model.uses), prices, 4_000)
    assert core is not None and listed is not None and core.menus.is_sparse and not listed.menus.is_sparse
    assert np.array_equal(core.menus.rows, listed.menus.rows)
    assert np.array_equal(core.menus.uses, listed.menus.uses)
    for room in (core.menus.capacities, core.menus.capacities // 50, np.zeros(model.num_capacities)):
        assert np.array_equal(core.menus.within(room), (core.menus.uses <= room[:, None]).all(axis=0))
        assert np.array_equal(core.menus.within(room), listed.menus.within(room))


def test_a_limit_holds_where_prices_of_many_capacities_take_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few jobs are priced, and what fits of the best at these prices is the plan."""
    model = _on_racks()
    priced = _calls_of_prices(monkeypatch)
    found = solve(model, SolveOptions(time_limit=1e-6))
    assert found.termination is Termination.TIME_LIMIT
    assert max(jobs for jobs, _ in priced) <= model.num_jobs // 8
    assert found.objective is not None and found.point is not None and model.fits(found.point)
    assert found.objective >= 0.85 * relaxation(model)


def _calls_of_prices(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, float | None]]:
    """Return a list to which every pricing adds its number of jobs and the seconds that it may take."""
    priced, price = list[tuple[int, float | None]](), marginal_jobs.solve_large

    def counted(menus: OptionTable, **options: Any) -> tuple[Dual, OptionTable]:
        priced.append((menus.num_jobs, options.get("seconds")))
        return price(menus, **options)

    monkeypatch.setattr(marginal_jobs, "solve_large", counted)
    return priced


@pytest.mark.parametrize("known", [False, True])
def test_a_limit_holds_of_few_capacities_where_a_plan_is_known(
    monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    """Without a plan a first one is looked for all the same, but HiGHS has no more time than there is."""
    model = random_mmkp(9_000, 5, 6, seed=6, required=False)
    priced = _calls_of_prices(monkeypatch)
    start = np.full(model.num_jobs, -1, dtype=np.int64)
    start[0] = int(model.offsets[0])
    found = solve(model, SolveOptions(time_limit=1e-6), start if known else None)
    assert found.point is not None and model.fits(found.point)
    of_all = [seconds for jobs, seconds in priced if jobs > model.num_jobs // 8]
    assert bool(of_all) != known and set(of_all) <= {0.0}


@pytest.mark.parametrize("wrong", [0.0, 1.0, 1e6])
def test_prices_of_any_earlier_round_lead_there(wrong: float) -> None:
    model = random_mmkp(9_000, 5, 3, seed=11)
    options = SolveOptions(time_limit=60.0, gap=1e-4)
    first = solve(model, options)
    later = _changed(model, 0.01, seed=1)
    assert first.point is not None and first.multipliers is not None
    hint: NDArray[np.float64] = first.multipliers if wrong == 1.0 else wrong * np.ones(3)
    again = solve(later, options, start=first.point, hint=hint)
    assert "build" not in again.seconds
    _near(again, later, 1e-4)


@pytest.mark.parametrize(
    ("rooms", "required", "scale"),
    [((10**9, 10**9), False, 1.0), ((0, 0), False, 1.0), ((0, 0), True, 1.0), ((10**9, 3), False, 1.0),
     ((9_000, 9_000), False, -1.0), ((9_000, 9_000), False, 1e290), ((30_000, 30_000), True, 1e-290)],
)  # fmt: skip
def test_edges_end_as_without_it(
    rooms: tuple[int, int], required: bool, scale: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(1)
    model = MultipleChoiceKnapsack.from_arrays(
        scale * rng.random(40_000),
        rng.integers(1, 9, (40_000, 2)),
        np.arange(0, 40_001, 4),
        rooms,
        required=required,
    )
    options = SolveOptions(time_limit=60.0, gap=1e-4)
    found = solve(model, options)
    monkeypatch.setattr(marginal_jobs, "_MANY_JOBS", 10**9)
    without = solve(model, options)
    assert (found.point is None) == (without.point is None)
    if found.point is None:
        assert found.termination is without.termination is Termination.INFEASIBLE
        return
    assert model.check(found.point).feasible and found.objective is not None and found.bound is not None
    assert without.objective is not None and without.bound is not None
    assert found.objective <= without.bound and without.objective <= found.bound
    assert found.objective == pytest.approx(without.objective, rel=2e-4)
