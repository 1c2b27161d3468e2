"""The engine for several capacities against enumeration, HiGHS, exact fractions and the clock."""

from __future__ import annotations

import itertools
import sys
import time
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.budgets import examples
from tests.oracles import enumerate_knapsack
from tests.patience import patience
from tests.strategies import knapsacks

from apportion.core.options import Incumbent, SolveOptions
from apportion.core.outcome import Outcome, Termination
from apportion.models import MultipleChoiceKnapsack
from apportion.models.lowering import lower
from apportion.solvers.multiknapsack import linear_dual, repair
from apportion.solvers.multiknapsack.proving import CoreAnswer
from apportion.solvers.multiknapsack.several_capacities import solve


def random_mmkp(
    jobs: int, options: int, capacities: int, seed: int, required: bool = True, tightness: float = 0.5
) -> MultipleChoiceKnapsack:
    """Weakly correlated menus whose capacities are a share of the mean use."""
    rng = np.random.default_rng(seed)
    uses = rng.integers(0, 10, (jobs * options, capacities))
    values = uses.sum(axis=1) + rng.integers(1, 40, jobs * options)
    limit = np.full(capacities, int(9 * tightness * jobs))
    offsets = np.arange(jobs + 1) * options
    return MultipleChoiceKnapsack.from_arrays(values, uses, offsets, limit, required=required)


def exact_bound(model: MultipleChoiceKnapsack, multipliers: np.ndarray) -> Fraction:
    """Return the Lagrangian bound in rationals, in the model's sense."""
    sign = 1 if model.sense == "maximize" else -1
    price = [Fraction(float(w)) for w in multipliers]
    total = sum((p * int(c) for p, c in zip(price, model.capacities, strict=True)), Fraction(0))
    for job in range(model.num_jobs):
        scores = [
            sign * Fraction(float(model.values[i]))
            - sum((p * int(u) for p, u in zip(price, model.uses[i], strict=True)), Fraction(0))
            for i in range(model.offsets[job], model.offsets[job + 1])
        ]
        total += max(scores if model.required[job] else [*scores, Fraction(0)])
    return sign * total


def assert_sound(model: MultipleChoiceKnapsack, outcome: Outcome) -> None:
    """Whatever was claimed about a point and a bound holds."""
    sign = 1.0 if model.sense == "maximize" else -1.0
    if outcome.point is not None:
        report = model.check(outcome.point)
        assert report.violations == ()
        assert outcome.objective == pytest.approx(report.objective)
        assert outcome.bound is not None
        assert sign * (outcome.bound - outcome.objective) >= -1e-9 * max(1.0, abs(outcome.objective))
    if outcome.multipliers is not None:
        assert outcome.multipliers.shape == (model.num_capacities,)
        assert (outcome.multipliers >= 0).all()


@settings(max_examples=examples(400))
@given(model=knapsacks(min_capacities=0), limited=st.booleans())
def test_small_knapsacks_agree_with_enumeration(model: MultipleChoiceKnapsack, limited: bool) -> None:
    truth = enumerate_knapsack(model)
    outcome = solve(model, SolveOptions(time_limit=5.0 if limited else None), None)
    assert_sound(model, outcome)
    if truth is None:
        assert outcome.termination is Termination.INFEASIBLE
        assert outcome.point is None and outcome.bound is None
        return
    assert outcome.termination is Termination.OPTIMAL
    assert outcome.objective == pytest.approx(truth[0])
    assert outcome.multipliers is not None
    sign = 1 if model.sense == "maximize" else -1
    difference = sign * (exact_bound(model, outcome.multipliers) - Fraction(truth[0]))
    assert difference >= -Fraction(1, 10**9) * max(1, abs(Fraction(truth[0])))


@pytest.mark.one_in(9)
@pytest.mark.parametrize("seed", range(40))
def test_random_menus_up_to_a_hundred_thousand_choices(seed: int) -> None:
    rng = np.random.default_rng(seed)
    model = random_mmkp(
        5, 6, int(rng.integers(1, 6)), seed, required=bool(seed % 2), tightness=rng.uniform(0.15, 0.6)
    )
    truth = enumerate_knapsack(model)
    outcome = solve(model, SolveOptions(), None)
    assert_sound(model, outcome)
    if truth is None:
        assert outcome.termination is Termination.INFEASIBLE
    else:
        assert outcome.termination is Termination.OPTIMAL
        assert outcome.objective == truth[0]


@pytest.mark.parametrize(("jobs", "options", "capacities"), [(12, 5, 3), (30, 3, 2), (40, 1, 4), (15, 10, 5)])
def test_medium_menus_agree_with_highs(jobs: int, options: int, capacities: int) -> None:
    import highspy

    model = random_mmkp(jobs, options, capacities, jobs, required=options > 1)
    linear = lower(model).model
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("mip_rel_gap", 0.0)
    highs.passModel(
        linear.num_columns, linear.num_rows, linear.num_nonzeros, 2, -1, linear.offset, linear.cost,
        linear.lower, linear.upper, linear.row_lower, linear.row_upper, linear.indptr, linear.indices,
        linear.data, linear.integer.astype(np.int32),
    )  # fmt: skip
    highs.run()
    outcome = solve(model, SolveOptions(time_limit=20.0), None)
    assert_sound(model, outcome)
    assert outcome.objective == pytest.approx(highs.getInfo().objective_function_value)


def test_a_small_exact_solve_loads_no_solver_package() -> None:
    import subprocess

    code = (
        "import sys, numpy as np;"
        "from apportion.models import MultipleChoiceKnapsack as K;"
        "from apportion.core.options import SolveOptions;"
        "from apportion.solvers.multiknapsack.several_capacities import solve;"
        "m = K.from_arrays([3., 4., 2.], np.array([[2, 1], [4, 1], [2, 2]]), [0, 2, 3], [4, 3]);"
        "assert solve(m, SolveOptions(), None).objective == 5.0;"
        "sys.exit(any(name in sys.modules for name in ('highspy', 'ortools', 'scipy', 'pandas')))"
    )
    environment = {"PYTHONPATH": ":".join(sys.path)}
    assert subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 0


@pytest.mark.one_in(5)
@pytest.mark.parametrize("limit", [0.01, 0.1, 0.5, 1.5])
@pytest.mark.parametrize("shape", [(60, 10, 10), (400, 10, 10), (2000, 30, 3), (200, 1, 30)])
def test_the_limit_is_kept_with_an_incumbent(limit: float, shape: tuple[int, int, int]) -> None:
    model = random_mmkp(*shape, seed=7, required=shape[1] > 1)
    began = time.perf_counter()
    outcome = solve(model, SolveOptions(time_limit=limit), None)
    assert time.perf_counter() - began < patience(limit + 0.25)
    assert outcome.point is not None
    assert_sound(model, outcome)


def test_the_gap_ends_the_search() -> None:
    model = random_mmkp(300, 8, 4, 3)
    outcome = solve(model, SolveOptions(gap=0.01, time_limit=20.0), None)
    assert outcome.termination in (Termination.GAP_REACHED, Termination.OPTIMAL)
    assert outcome.bound is not None and outcome.objective is not None
    assert outcome.bound - outcome.objective <= 0.01 * abs(outcome.objective)
    assert outcome.bound_source == "multipliers"


def test_a_feasible_start_is_used_and_never_lost() -> None:
    model = random_mmkp(60, 10, 10, 5)
    good = solve(model, SolveOptions(time_limit=1.0), None)
    assert good.point is not None
    outcome = solve(model, SolveOptions(work_limit=1), good.point)
    assert outcome.start_used is True
    assert outcome.objective >= good.objective


def test_an_infeasible_start_is_repaired() -> None:
    model = random_mmkp(60, 10, 10, 5)
    greedy_for_value = np.array(
        [
            a + int(np.argmax(model.values[a:b]))
            for a, b in zip(model.offsets, model.offsets[1:], strict=False)
        ]
    )
    assert model.check(greedy_for_value).violations
    outcome = solve(model, SolveOptions(time_limit=0.2), greedy_for_value)
    assert outcome.start_used is False
    assert_sound(model, outcome)
    assert outcome.point is not None


@pytest.mark.parametrize("hint", [(-1e300, 0.0), (1e308, 1e308), (-0.5, 3.0), (0.0, 0.0), (1e200, 5e-324)])
@pytest.mark.parametrize("unit", [1.0, 1e-300])
def test_an_odd_hint_changes_no_answer(hint: tuple[float, float], unit: float) -> None:
    for seed in range(5):
        model = random_mmkp(5, 3, 2, seed, required=False, tightness=0.2)
        model = replace(model, values=model.values * unit)
        start = np.full(5, -1, dtype=np.int64)
        found = solve(model, SolveOptions(time_limit=None), start, np.array(hint))
        assert found.termination is Termination.OPTIMAL
        best = enumerate_knapsack(model)
        assert best is not None and found.objective == pytest.approx(best[0], rel=1e-12, abs=0.0)


def test_deterministic_mode_repeats_itself() -> None:
    model = random_mmkp(80, 10, 6, 11)
    options = SolveOptions(deterministic=True, work_limit=25, seed=4)
    first, second = solve(model, options, None), solve(model, options, None)
    assert first.termination is Termination.NODE_LIMIT
    assert first.point is not None and second.point is not None
    assert first.point.tobytes() == second.point.tobytes()
    assert (first.objective, first.bound, dict(first.counters)) == (
        second.objective,
        second.bound,
        dict(second.counters),
    )


def test_incumbents_are_reported_as_they_rise() -> None:
    seen: list[Incumbent] = []
    model = random_mmkp(80, 10, 6, 11)
    outcome = solve(model, SolveOptions(time_limit=0.5, on_incumbent=seen.append), None)
    assert [i.objective for i in seen] == sorted({i.objective for i in seen})
    assert seen[-1].objective == outcome.objective


def test_an_interruption_keeps_the_incumbent() -> None:
    def interrupt(incumbent: Incumbent) -> None:
        raise KeyboardInterrupt

    model = random_mmkp(80, 10, 6, 11)
    outcome = solve(model, SolveOptions(time_limit=5.0, on_incumbent=interrupt), None)
    assert outcome.termination is Termination.INTERRUPTED
    assert_sound(model, outcome) if outcome.bound is not None else None
    assert outcome.point is not None


def test_an_error_in_the_callback_propagates() -> None:
    def fail(incumbent: Incumbent) -> None:
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        solve(random_mmkp(20, 5, 3, 1), SolveOptions(on_incumbent=fail), None)


def test_infeasible_menus_are_proven_so_beyond_single_capacities() -> None:
    # Either option breaks one of the two capacities once both jobs are in; each capacity alone could hold.
    model = MultipleChoiceKnapsack.from_arrays(
        [1.0, 1.0] * 3, np.array([[2, 0], [0, 2]] * 3), [0, 2, 4, 6], [2, 2], required=True
    )
    outcome = solve(model, SolveOptions(), None)
    assert outcome.termination is Termination.INFEASIBLE
    assert outcome.point is None


def test_no_capacity_and_no_job() -> None:
    empty = MultipleChoiceKnapsack.from_arrays([], np.zeros((0, 2), np.int64), [0], [3, 4])
    assert solve(empty, SolveOptions(), None).objective == 0.0
    free = MultipleChoiceKnapsack.from_arrays(
        [1.0, 3.0], np.zeros((2, 0), np.int64), [0, 2], np.zeros(0, np.int64)
    )
    outcome = solve(free, SolveOptions(), None)
    assert (outcome.termination, outcome.objective) == (Termination.OPTIMAL, 3.0)


def test_what_the_grid_of_values_proves_is_stated_as_the_bound() -> None:
    """Proven because every objective is a multiple of 1.5, yet the multipliers' -2.625 was stated."""
    model = MultipleChoiceKnapsack.from_arrays(
        [-1.5, -1.5, 0.0, -1.5, 0.0], [[0, 0], [0, 0], [4, 0], [0, 0], [4, 0]], [0, 1, 3, 5], [5, 0]
    )
    outcome = solve(model, SolveOptions(), None)
    assert outcome.termination is Termination.OPTIMAL
    assert outcome.objective == outcome.bound == -3.0
    assert outcome.bound_source == "branch_and_bound"


def test_prices_do_not_run_away_and_take_the_bound_with_them() -> None:
    """Prices of 3e14 for values of 1 cancelled to a bound below the optimum, which was then called proven."""
    model = MultipleChoiceKnapsack.from_arrays(
        [0.92426873, 0.20219062, 0.10165106, 0.01438913, 0.15787429, 0.19339789, 0.17342769],
        [[3, 0], [2, 0], [0, 2], [1, 0], [0, 1], [2, 0], [0, 2]],
        [0, 1, 3, 5, 7],
        [3, 2],
        required=False,
    )
    outcome = solve(model, SolveOptions())
    assert outcome.objective == pytest.approx(1.09769642)
    assert outcome.bound is not None and outcome.bound >= 1.09769642 - 1e-9


@settings(max_examples=examples(300))
@given(st.integers(0, 2**32 - 1))
def test_values_of_unlike_magnitudes_against_enumeration(seed: int) -> None:
    rng = np.random.default_rng(seed)
    jobs, capacities = int(rng.integers(1, 6)), int(rng.integers(2, 4))
    offsets = np.concatenate(([0], np.cumsum(rng.integers(1, 4, jobs))))
    rows = int(offsets[-1])
    values = (
        rng.random(rows),
        rng.exponential(1.0, rows) * 10.0 ** rng.integers(-6, 6, rows),
        rng.random(rows) * 1e6 + rng.random(rows) * 1e-6,
    )[rng.integers(3)]
    uses = np.zeros((rows, capacities), dtype=np.int64)
    uses[np.arange(rows), rng.integers(0, capacities, rows)] = rng.integers(1, 4, rows)
    limit = (uses.sum(axis=0) * rng.random(capacities) * 0.8).astype(np.int64)
    model = MultipleChoiceKnapsack.from_arrays(values, uses, offsets, limit, required=False)
    outcome = solve(model, SolveOptions())
    best = enumerate_knapsack(model)
    assert best is not None and outcome.objective is not None
    assert outcome.objective == pytest.approx(best[0], rel=1e-9, abs=1e-9)
    assert_sound(model, outcome)


@pytest.mark.parametrize("seed", [0, 2])
def test_a_word_of_highs_ends_no_search_whose_values_have_no_step(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine HiGHS had its turn first; its tolerances ended a round with a gap of 1e-6."""
    import apportion.solvers.multiknapsack.anytime as anytime
    import apportion.solvers.multiknapsack.local_search as local_search
    import apportion.solvers.multiknapsack.several_capacities as engine

    asked = []

    def contented(menus: object, *, start: NDArray[np.int64], **limits: object) -> CoreAnswer:
        asked.append(start)
        return CoreAnswer(start, None, True, 1, "Optimal")  # whatever the incumbent is

    monkeypatch.setattr(engine, "_QUICK", 0)
    monkeypatch.setattr(local_search, "_FAR", 1.0)
    monkeypatch.setattr(anytime, "_MIP_AFTER", 0.0)
    monkeypatch.setattr(anytime, "_GLANCE", 0.0)
    monkeypatch.setattr(anytime, "solve_core", contented)
    rng = np.random.default_rng(seed)
    limit, gpus = np.array([12, 12, 8]), np.array([1, 2, 4, 8])
    menus = np.zeros((12, 3, gpus.size, 3), dtype=np.int64)
    for kind in range(3):
        menus[:, kind, :, kind] = gpus
    values = np.exp(rng.normal(0.0, 0.2, (12, 3, 1))) * gpus ** rng.uniform(0.7, 1.0, (12, 1, 1))
    offsets = np.arange(13) * 12
    model = MultipleChoiceKnapsack.from_arrays(
        values.ravel(), menus.reshape(-1, 3), offsets, limit, required=False
    )
    outcome = solve(model, SolveOptions())
    assert outcome.termination is Termination.OPTIMAL
    assert outcome.bound == pytest.approx(outcome.objective, rel=1e-9)
    assert outcome.objective == pytest.approx(_by_states(model), rel=1e-12)
    assert asked, "HiGHS was to have its turn"


def _by_states(model: MultipleChoiceKnapsack) -> float:
    """Return the largest value by dynamic programming over what is left of every capacity."""
    best = np.zeros(tuple(model.capacities + 1))
    for first, last in itertools.pairwise(model.offsets.tolist()):
        after = best.copy()
        for value, use in zip(
            model.values[first:last].tolist(), model.uses[first:last].tolist(), strict=True
        ):
            if any(u > c for u, c in zip(use, model.capacities.tolist(), strict=True)):
                continue
            taken = tuple(slice(u, None) for u in use)
            kept = tuple(slice(None, size - u) for size, u in zip(best.shape, use, strict=True))
            after[taken] = np.maximum(after[taken], best[kept] + value)
        best = after
    return float(best.max())


@pytest.mark.parametrize("seed", range(8))
def test_a_repair_goes_on_where_no_swap_relieves(seed: int) -> None:
    """Eighty required jobs on 25 nearly full capacities of which an option uses two: 3 of 8 were repaired."""
    jobs, number, per_job = 80, 25, 10
    rng = np.random.default_rng(seed)
    uses = np.zeros((jobs * per_job, number), dtype=np.int64)
    for use in uses:
        use[rng.choice(number, 2, replace=False)] = rng.integers(1, 9, 2)
    offsets = np.arange(jobs + 1) * per_job
    model = MultipleChoiceKnapsack.from_arrays(rng.random(jobs * per_job), uses, offsets, [16] * number)
    found = repair.choice(model, np.zeros(number))
    assert found is not None
    assert model.fits(found)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("unit", [1, 4_000_000_000])
def test_of_limits_of_every_set_of_tenants_few_are_searched(unit: int, seed: int) -> None:
    """Seven tenants claim what they use or withhold, whichever is more: a table over claims says the same."""
    rng = np.random.default_rng(seed)
    tenants, jobs, per_job = 7, 63, 4
    owner = np.repeat(rng.integers(0, tenants, jobs), per_job)
    uses = np.tile([0, 1, 2, 4], jobs) * np.repeat(rng.integers(1, 3, jobs), per_job)
    values = np.round(np.repeat(rng.lognormal(0.0, 1.0, jobs), per_job) * uses**0.7, 3)
    offsets = np.arange(jobs + 1) * per_job
    total, withheld = 60, rng.integers(3, 9, tenants)
    left = np.array(list(itertools.product([False, True], repeat=tenants)))
    rows = np.where(~left[:, owner], uses, 0).T
    limits = (total - left @ withheld) * unit + unit - 1  # one more is too much
    model = MultipleChoiceKnapsack.from_arrays(values, rows * unit, offsets, limits)
    seen = list[Incumbent]()
    outcome = solve(model, SolveOptions(on_incumbent=seen.append))
    assert_sound(model, outcome)
    best = np.zeros(total + 1)
    for tenant in range(tenants):
        alone = np.zeros(total + 1)
        for first in np.flatnonzero(owner[::per_job] == tenant) * per_job:
            worth = [(values[row], uses[row]) for row in range(first, first + per_job)]
            alone = np.max(
                [value + np.append([-np.inf] * use, alone)[: total + 1] for value, use in worth], 0
            )
        claims = np.maximum(np.arange(total + 1), withheld[tenant])
        after = np.full(total + 1, -np.inf)
        for use, claim in enumerate(claims):
            after[claim:] = np.maximum(after[claim:], best[: total + 1 - claim] + alone[use])
        best = after
    assert outcome.termination is Termination.OPTIMAL
    assert outcome.objective == pytest.approx(best.max(), rel=1e-9)
    assert [one.objective for one in seen] == sorted({one.objective for one in seen})
    assert all(one.objective <= best.max() + 1e-9 for one in seen)


def test_capacities_that_a_better_choice_exceeds_join_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of limits of all sets those with a price do not suffice: some join, and the counters say how often."""
    monkeypatch.setattr(linear_dual, "_JOINING", 1)
    rng = np.random.default_rng(1)
    left = np.array(list(itertools.product([False, True], repeat=6)))
    owner, uses = np.repeat(rng.integers(0, 6, 50), 4), np.tile([0, 1, 3, 5], 50)
    rows = np.where(~left[:, owner], uses, 0).T
    limits = 70 - left @ np.array([9, 2, 14, 5, 11, 7])
    joined = 0
    for seed in range(6):
        values = np.round(np.random.default_rng(seed).random(200) * (1 + uses), 3)
        model = MultipleChoiceKnapsack.from_arrays(values, rows, np.arange(51) * 4, limits)
        outcome = solve(model, SolveOptions())
        assert outcome.termination is Termination.OPTIMAL
        assert outcome.point is not None
        assert model.fits(outcome.point)
        joined += int(outcome.counters.get("capacity_rounds", 0))
    assert joined > 0
