"""Relaxations over the entries near good weights or prices, beside those over all entries."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

import apportion
from apportion.core.options import SolveOptions
from apportion.core.outcome import Termination
from apportion.formulations.matching.by_machine import MatchingByMachine
from apportion.instances import MatchingEntry, MatchingInstance, MatchingJob, MatchingMachine
from apportion.instances.matching.generator import generate_cluster, generate_unrelated
from apportion.models.assignment import Assignment
from apportion.models.assignment_bounds import filtered_work, machine_bound, pooled, weak_duality_bound
from apportion.models.lowering import lower_assignment
from apportion.solvers.assignment import relaxation
from apportion.solvers.assignment.relaxation import Loads, Relaxation, good_prices, relax, relaxed
from apportion.solvers.clock import Clock
from apportion.solvers.generalised_assignment import by_tree, least_cost
from apportion.solvers.generalised_assignment.by_tree import TreeSearch, fits_in_parts
from apportion.solvers.makespan import least_makespan
from apportion.solvers.search import slices
from apportion.solvers.search.assignment_tree import available

POOLS = {f"pool {i}": 4 * (1 + i % 3) for i in range(12)}


def _model(kind: str, seed: int) -> Assignment:
    if kind == "gangs":
        return MatchingByMachine(generate_cluster(seed, 300, POOLS)).model
    correlated: Literal["no", "jobs", "machines"] = kind  # type: ignore[assignment]
    return MatchingByMachine(generate_unrelated(seed, 300, 60, correlated=correlated)).model


@pytest.mark.parametrize("kind", ["no", "jobs", "machines", "gangs"])
def test_a_makespan_of_near_entries_is_relaxed_as_that_of_all(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = _model(kind, 5)
    monkeypatch.setattr(relaxation, "_MANY", model.num_options)
    every = relaxed(model)
    full = relax(lower_assignment(model).model)
    assert isinstance(full, Relaxation)
    assert every.objective == full.objective
    monkeypatch.setattr(relaxation, "_MANY", 0)
    near = relaxed(model)
    assert near.point is not None
    assert (np.add.reduceat(near.point > 0, model.offsets[:-1]) <= 8).all()
    assert np.allclose(np.add.reduceat(near.point, model.offsets[:-1]), 1.0)
    assert full.objective <= near.objective * (1 + 1e-9) <= full.objective * 1.02
    least = full.objective * (0.85 if kind == "machines" else 0.97)
    assert least <= filtered_work(model, pooled(model, near.prices))


def test_a_job_may_have_one_entry_and_all_entries_may_take_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relaxation, "_MANY", 0)
    machine, offsets = np.array([0, 0, 1, 1]), np.array([0, 1, 3, 4])
    for times, least in (([3.0, 2.0, 4.0, 1.0], 5.0), ([0.0] * 4, 0.0), ([1e9, 1.0, 1.0, 1e-3], 1e9)):
        model = Assignment.from_arrays("makespan", np.array(times), machine, offsets, 2)
        near = relaxed(model)
        assert near.point is not None
        assert np.isfinite(near.prices).all()
        assert model.objective(least_makespan.rounded(model, near.point, near.objective)) == least


def _assigned(goal: Literal["cost", "value"], seed: int, required: bool) -> Assignment:
    """120 jobs on 15 machines as law d has them, each machine counting in a unit of its own."""
    rng = np.random.default_rng(seed)
    use = rng.integers(5, 100, (120, 15))
    cost = np.maximum(1, 111 - use + rng.integers(-10, 11, use.shape)).astype(np.float64)
    unit = rng.integers(1, 40, 15)
    machine, offsets = np.tile(np.arange(15), 120), np.arange(0, 1801, 15)
    capacities = (0.8 * use.sum(axis=0) / 15).astype(np.int64) * unit
    uses = (use * unit).ravel()
    return Assignment.from_arrays(
        goal, cost.ravel(), machine, offsets, 15, capacities=capacities, uses=uses, required=required
    )


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("goal", "required"), [("cost", True), ("value", True), ("value", False)])
def test_an_assignment_of_near_entries_is_relaxed_as_that_of_all(
    goal: Literal["cost", "value"], required: bool, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = _assigned(goal, seed, required)
    full = relax(lower_assignment(model).model)
    assert isinstance(full, Relaxation)
    monkeypatch.setattr(relaxation, "_MANY", 0)
    near = relaxed(model)
    assert near.point is not None
    assert np.count_nonzero(near.point) < 2 * model.num_jobs
    assert near.objective == pytest.approx(full.objective, rel=1e-6)
    assert machine_bound(model, near.prices) == pytest.approx(full.objective, rel=1e-6)
    plain = machine_bound(model, good_prices(Loads(model)))
    assert abs(plain - full.objective) <= 0.05 * full.objective


def test_what_a_pool_beyond_64_bits_is_paid_for_is_counted_exactly() -> None:
    """The model cuts its capacity off, which no plan reaches but a price of it would show."""
    model = MatchingByMachine(
        MatchingInstance(
            "1",
            "cost",
            (MatchingMachine("m", count=25_000, capacity=31_250_000_000_000_000),),
            (MatchingJob("j", {"m": MatchingEntry(cost=-4.0)}),),
        )
    ).model
    assert weak_duality_bound(model, np.zeros(1)) == pytest.approx(-4.0)
    assert weak_duality_bound(model, np.full(1, 1e-28)) is None
    assert not good_prices(Loads(model)).any()


def test_without_room_or_time_there_are_prices_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relaxation, "_MANY", 0)
    model = replace(_assigned("cost", 1, True), capacities=np.full(15, 60, dtype=np.int64))
    none = relaxed(model)
    assert none.said_infeasible
    late = relaxed(_assigned("cost", 1, True), Clock(SolveOptions(time_limit=1e-9)))
    assert late.point is None and not late.said_infeasible
    assert (late.prices > 0).all()


@pytest.mark.skipif(not available(), reason="without the tree there are no trees over some machines")
def test_machines_are_searched_some_at_a_time_where_all_are_too_many() -> None:
    model = _assigned("cost", 2, True)
    assert fits_in_parts(model)
    begun, prices = least_cost.greedy_and_prices(model)
    assert begun is not None and prices is not None
    met: list[float] = []
    found = TreeSearch(model, prices).run(
        begun,
        0.0,
        20_000,
        0,
        lambda: False,
        lambda choice, _: met.append(model.objective(choice)),
        deciding=False,
    )
    assert found.choice is not None and not found.closed
    assert model.check(found.choice).feasible
    assert met[-1] == model.objective(found.choice) < model.objective(begun)
    assert met == sorted(met, reverse=True)


@pytest.mark.skipif(not available(), reason="without the tree there are no trees over some machines")
@pytest.mark.parametrize("gap", [0.0, 0.2])
def test_ctrl_c_and_a_gap_end_what_is_searched_some_at_a_time(
    gap: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(by_tree, "_PAIRS", -1)
    monkeypatch.setattr(least_cost, "_SEARCHABLE", -1)
    turns = 0

    def struck(own: slices.Slices, trees: list[object], _: int) -> list[None]:
        nonlocal turns
        turns += 1
        own.interrupted = True
        return [None] * len(trees)

    monkeypatch.setattr(slices.Slices, "run_each", struck)
    solution = apportion.solve(_assigned("cost", 2, True), gap=gap, time_limit=60)
    assert solution.objective is not None and solution.bound is not None
    assert turns == (gap == 0.0)
    ended = Termination.GAP_REACHED if gap else Termination.INTERRUPTED
    assert solution.termination is ended


@pytest.mark.skipif(not available(), reason="the tree of machines in Python takes minutes")
def test_two_thousand_jobs_on_a_hundred_machines_end_near_their_bound() -> None:
    solution = apportion.solve(
        generate_unrelated(4, 2_000, 100, correlated="machines"), work_limit=60, deterministic=True
    )
    assert solution.objective is not None
    assert solution.bound is not None
    assert solution.objective <= 1.03 * solution.bound
