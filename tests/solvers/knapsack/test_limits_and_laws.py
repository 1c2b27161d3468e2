"""Limits are kept, bounds hold at every stop, answers repeat, and what must not matter does not."""

from __future__ import annotations

from fractions import Fraction
from time import perf_counter

import numpy as np
import pytest
from tests.oracles import tabulate_knapsack
from tests.patience import patience

from apportion.core.options import Incumbent, SolveOptions
from apportion.core.outcome import Outcome, Termination
from apportion.models import MultipleChoiceKnapsack
from apportion.solvers.knapsack import one_capacity
from apportion.solvers.knapsack.menu_blocks import PricedMenus


def stubborn(jobs: int = 300, seed: int = 0) -> MultipleChoiceKnapsack:
    """Values that differ from a multiple of the use by random cents, and uses too scattered for a window."""
    rng = np.random.default_rng(seed)
    uses = rng.integers(10**9, 2 * 10**9, (jobs, 10))
    values = uses * 1e-6 + rng.integers(0, 40, (jobs, 10)) * 7.3
    capacity = int(uses.mean(axis=1).sum())
    return MultipleChoiceKnapsack.from_arrays(
        values.ravel(), uses.ravel(), np.arange(jobs + 1) * 10, [capacity]
    )


def assert_honest(model: MultipleChoiceKnapsack, outcome: Outcome) -> None:
    """A feasible choice, its true objective, and a bound that no choice beats by exact arithmetic."""
    assert outcome.point is not None and outcome.objective is not None
    report = model.check(outcome.point)
    assert report.feasible and report.objective == outcome.objective
    if outcome.bound is not None:
        sign = 1 if model.sense == "maximize" else -1
        assert sign * outcome.bound >= sign * outcome.objective


@pytest.mark.parametrize("limit", [0.002, 0.01, 0.05, 0.3])
def test_the_clock_is_kept(limit: float) -> None:
    late = []
    for seed in range(4):
        model = stubborn(seed=seed)
        began = perf_counter()
        outcome = one_capacity.solve(model, SolveOptions(time_limit=limit), None)
        late.append(perf_counter() - began - limit)
        assert_honest(model, outcome)
        assert outcome.termination in (Termination.TIME_LIMIT, Termination.OPTIMAL)
    assert min(late) < patience(0.1)


@pytest.mark.parametrize("work", [1.0, 1e3, 1e5])
def test_a_work_limit_gives_the_same_answer_every_time(work: float) -> None:
    model = stubborn(40)
    options = SolveOptions(work_limit=work, deterministic=True)
    first, second = (one_capacity.solve(model, options, None) for _ in range(2))
    assert_honest(model, first)
    assert first.termination is second.termination
    assert first.point is not None and second.point is not None
    assert first.point.tobytes() == second.point.tobytes()
    assert first.bound == second.bound
    optimum = one_capacity.solve(model, SolveOptions(work_limit=3e6), None)
    assert optimum.objective is not None and first.bound is not None and first.objective is not None
    assert first.bound >= optimum.objective >= first.objective


@pytest.mark.parametrize("seed", range(40))
def test_bounds_at_every_stop_hold_for_the_optimum(seed: int) -> None:
    rng = np.random.default_rng(seed)
    jobs, width = 12, 6
    uses = rng.integers(1, 200, jobs * width)
    values = uses + rng.normal(0, 3, jobs * width)
    model = MultipleChoiceKnapsack.from_arrays(
        values if seed % 2 else -values,
        uses,
        np.arange(jobs + 1) * width,
        [int(uses.sum() // (2 * width))],
        required=rng.random(jobs) < 0.5,
        sense="maximize" if seed % 2 else "minimize",
    )
    best = tabulate_knapsack(model)
    if best is None:
        assert one_capacity.solve(model, SolveOptions(), None).termination is Termination.INFEASIBLE
        return
    optimum = sum((Fraction(float(model.values[row])) for row in best[1] if row >= 0), Fraction(0))
    sign = 1 if seed % 2 else -1
    for options in (
        *(SolveOptions(work_limit=limit) for limit in (1.0, 30.0, 300.0, 3000.0)),
        *(SolveOptions(gap=gap) for gap in (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)),
    ):
        outcome = one_capacity.solve(model, options, None)
        assert_honest(model, outcome)
        assert outcome.bound is not None and outcome.objective is not None
        if outcome.termination is Termination.OPTIMAL:
            assert outcome.objective == pytest.approx(float(optimum), rel=1e-13)
        else:
            assert sign * Fraction(outcome.bound) >= sign * optimum
        if outcome.termination is Termination.GAP_REACHED:
            assert abs(outcome.bound - outcome.objective) <= options.gap * max(abs(outcome.objective), 1e-9)


def test_states_dropped_for_want_of_room_keep_the_bound_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_capacity, "_CAPS", (2, 3))
    for seed in range(30):
        rng = np.random.default_rng(seed)
        uses = rng.integers(10**6, 10**7, 60)
        model = MultipleChoiceKnapsack.from_arrays(
            uses * 1e-3 + rng.normal(0, 50, 60), uses, np.arange(11) * 6, [int(uses.sum() // 6)]
        )
        outcome = one_capacity.solve(model, SolveOptions(), None)
        assert_honest(model, outcome)
        assert outcome.termination in (Termination.OPTIMAL, Termination.MEMORY_LIMIT)
        assert outcome.bound is not None
        with monkeypatch.context() as wide:
            wide.setattr(one_capacity, "_CAPS", (1 << 20,))
            best = one_capacity.solve(model, SolveOptions(), None)
        assert best.termination is Termination.OPTIMAL and best.objective is not None
        assert outcome.bound >= best.objective * (1 - 1e-14)
        if outcome.termination is Termination.OPTIMAL:
            assert outcome.objective == pytest.approx(best[0], rel=1e-14)


def test_a_core_too_large_to_keep_leaves_a_valid_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_capacity, "_MOST_ENTRIES", 3)
    proven = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        uses = rng.integers(1, 30, 60)
        values = [2.0 * uses, rng.integers(0, 5, 60) * 6.0, rng.random(60)][seed % 3]
        model = MultipleChoiceKnapsack.from_arrays(values, uses, np.arange(11) * 6, [int(uses.sum() // 7)])
        outcome = one_capacity.solve(model, SolveOptions(), None)
        best = tabulate_knapsack(model)
        assert_honest(model, outcome)
        assert outcome.termination in (Termination.OPTIMAL, Termination.MEMORY_LIMIT)
        assert outcome.bound is not None and best is not None
        assert outcome.bound >= best[0] * (1 - 1e-15)
        if outcome.termination is Termination.OPTIMAL:
            assert outcome.objective == pytest.approx(best[0], rel=1e-14)
            proven += 1
    assert 0 < proven < 60


def test_incumbents_only_improve_and_an_error_in_the_callback_propagates() -> None:
    model = stubborn(60)
    seen: list[Incumbent] = []
    outcome = one_capacity.solve(model, SolveOptions(work_limit=1e6, on_incumbent=seen.append), None)
    assert seen and outcome.objective is not None
    objectives = [incumbent.objective for incumbent in seen]
    assert objectives == sorted(objectives)
    assert objectives[-1] == pytest.approx(outcome.objective, rel=1e-12)
    assert all(i.bound is not None and i.bound >= outcome.objective for i in seen)

    def fail(_: Incumbent) -> None:
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        one_capacity.solve(model, SolveOptions(on_incumbent=fail), None)


def test_an_interrupt_returns_the_incumbent() -> None:
    def interrupt(_: Incumbent) -> None:
        raise KeyboardInterrupt

    model = stubborn(60)
    outcome = one_capacity.solve(model, SolveOptions(on_incumbent=interrupt), None)
    assert outcome.termination is Termination.INTERRUPTED
    assert_honest(model, outcome)


@pytest.mark.parametrize("number", [2, 3, 4])
def test_an_interrupt_in_the_search_keeps_the_best_choice_announced(number: int) -> None:
    seen: list[Incumbent] = []

    def interrupt(incumbent: Incumbent) -> None:
        seen.append(incumbent)
        if len(seen) == number:
            raise KeyboardInterrupt

    model = stubborn(60)
    outcome = one_capacity.solve(model, SolveOptions(work_limit=1e6, on_incumbent=interrupt), None)
    assert len(seen) == number
    assert outcome.termination is Termination.INTERRUPTED
    assert_honest(model, outcome)
    assert outcome.objective == pytest.approx(seen[-1].objective, rel=1e-12)
    assert outcome.bound is not None


@pytest.mark.parametrize("seed", range(40))
def test_who_skips_the_search_for_ties_chooses_what_it_would(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 6, 8)
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    values, uses = rng.integers(0, 6, offsets[-1]).astype(float), rng.integers(0, 6, offsets[-1])
    if seed % 2:
        values = np.round(20.0 * rng.random(offsets[-1]), 1)
    model = MultipleChoiceKnapsack.from_arrays(
        values, uses, offsets, [int(rng.integers(1, 24))], required=rng.random(8) < 0.5
    )
    preferred = np.where(rng.random(8) < 0.8, offsets[:-1] + rng.integers(0, sizes), -1)
    outcome = one_capacity.solve(model, SolveOptions(), None, preferred=preferred)
    monkeypatch.setattr(PricedMenus, "may_hold", lambda *_: True)
    searched = one_capacity.solve(model, SolveOptions(), None, preferred=preferred)
    assert outcome.termination is searched.termination
    assert (outcome.point is None) == (searched.point is None)
    if outcome.point is not None and searched.point is not None:
        assert (outcome.point == searched.point).all()


def test_preferred_rows_among_many_identical_jobs() -> None:
    jobs, width = 60, 9
    curve = np.array([0.0, 5.0, 9.0, 11.0, 16.0, 17.0, 18.5, 20.0, 24.0])
    model = MultipleChoiceKnapsack.from_arrays(
        np.tile(curve, jobs), np.tile(np.arange(width), jobs), np.arange(jobs + 1) * width, [200]
    )
    plain = one_capacity.solve(model, SolveOptions(), None)
    assert plain.point is not None
    shuffled = np.random.default_rng(0).permutation(plain.point % width)
    preferred = np.arange(jobs) * width + shuffled  # itself an optimum: all of it can be kept
    outcome = one_capacity.solve(model, SolveOptions(), None, preferred=preferred)
    assert outcome.termination is Termination.OPTIMAL
    assert outcome.objective == plain.objective == outcome.bound
    assert outcome.point is not None and (outcome.point == preferred).all()
    assert outcome.counters["tie_break_proven"] == 1.0


@pytest.mark.parametrize("seed", range(10))
def test_laws(seed: int) -> None:
    rng = np.random.default_rng(seed)
    jobs, width = 30, 7
    values, uses = rng.random((jobs, width)) * 50, rng.integers(0, 60, (jobs, width))
    offsets = np.arange(jobs + 1) * width

    def best(values: np.ndarray, uses: np.ndarray, capacity: int) -> float:
        model = MultipleChoiceKnapsack.from_arrays(
            values.ravel(), uses.ravel(), offsets, [capacity], required=False
        )
        outcome = one_capacity.solve(model, SolveOptions(), None)
        assert outcome.termination is Termination.OPTIMAL and outcome.objective is not None
        return outcome.objective

    capacities = [0, 100, 200, 300, 301, 302, 10**18]
    found = [best(values, uses, capacity) for capacity in capacities]
    assert found == sorted(found)
    order = rng.permutation(jobs)
    assert best(values[order], uses[order], 200) == pytest.approx(found[2], rel=1e-13)
    for factor in (2.0**-90, 3e-25, 1e15):
        assert best(values * factor, uses, 200) == pytest.approx(found[2] * factor, rel=1e-12)
    mixed = values.copy()
    mixed[0] = 1e18
    mixed[1] *= 1e-30
    assert best(mixed, uses, 10**9) == pytest.approx(1e18, rel=1e-9)


def test_values_too_large_to_add_are_refused() -> None:
    model = MultipleChoiceKnapsack.from_arrays([1e300, 1e300], [1, 1], [0, 1, 2], [2])
    assert one_capacity.solve(model, SolveOptions(), None).termination is Termination.NUMERICAL_ERROR


def test_the_lowest_multiplier_counts_options_that_fit_nowhere() -> None:
    model = MultipleChoiceKnapsack.from_arrays([5.0, 100.0], [2, 50], [0, 2], [10], required=False)
    outcome = one_capacity.solve(model, SolveOptions(), None)
    assert outcome.objective == outcome.bound == 5.0
    assert outcome.multipliers is not None
    assert outcome.multipliers[0] == pytest.approx(95.0 / 48.0)
