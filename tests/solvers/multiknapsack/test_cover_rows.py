"""Covers, against enumeration: what a point breaks is found, rows hold for every choice, bounds hold."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
from benchmarks.suite.making import make
from tests.budgets import examples
from tests.oracles import enumerate_knapsack

from apportion.core.options import SolveOptions
from apportion.models import MultipleChoiceKnapsack
from apportion.solvers.clock import Clock
from apportion.solvers.multiknapsack import cover_rows
from apportion.solvers.multiknapsack.cover_rows import CoverRelaxation, broken_covers
from apportion.solvers.multiknapsack.dual import solve_large
from apportion.solvers.multiknapsack.linear_dual import columns_of, programme_of
from apportion.solvers.multiknapsack.option_table import ChoiceIncumbent, OptionTable, build
from apportion.solvers.multiknapsack.proving import solve_core
from apportion.solvers.multiknapsack.repair import cheapest


def crowded(seed: int, unit: int = 1) -> MultipleChoiceKnapsack:
    """Make some jobs whose options fill a few capacities, in multiples of a unit."""
    rng = np.random.default_rng(seed)
    jobs, caps = int(rng.integers(2, 7)), int(rng.integers(1, 4))
    sizes = rng.integers(1, 4, jobs)
    uses = unit * rng.integers(0, 9, (sizes.sum(), caps)) * (rng.random((sizes.sum(), caps)) < 0.7)
    rooms = unit * rng.integers(4, 14, caps) + rng.integers(0, unit, caps)
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    return MultipleChoiceKnapsack.from_arrays(
        rng.integers(1, 30, sizes.sum()), uses, offsets, rooms, required=False
    )


def table_of(model: MultipleChoiceKnapsack) -> OptionTable | None:
    menus = build(model)
    return None if menus is None or not menus.num_jobs or not menus.num_capacities else menus


def least_lacking(menus: OptionTable, k: int, point: np.ndarray) -> float:
    """Return by enumeration what the jobs of a cover of one capacity lack at least."""
    uses, best = menus.uses[k], np.inf
    jobs = [range(a, b) for a, b in pairwise(menus.offsets.tolist())]
    for chosen in product(*([-1, *own] for own in jobs)):
        asked = [uses[i] if i >= 0 else 0.0 for i in chosen]
        if sum(asked) <= menus.capacities[k]:
            continue
        lacks = [
            1.0 - point[[i for i in own if uses[i] >= use]].sum()
            for own, use in zip(jobs, asked, strict=True)
            if use > 0
        ]
        best = min(best, sum(lacks))
    return best


@pytest.mark.parametrize("unit", [1, 7])
def test_the_cover_that_a_point_breaks_most_is_found(unit: int) -> None:
    seen = 0
    for seed in range(examples(60, fewest=30)):
        menus = table_of(crowded(seed, unit))
        if menus is None:
            continue
        rng = np.random.default_rng(seed)
        weights = rng.random(menus.num_options) ** 3 + 1e-3
        point = weights / np.add.reduceat(weights, menus.offsets[:-1])[menus.job]
        broken = broken_covers(menus, menus.num_capacities, point)
        found = {cover.capacity: (cover, own) for cover, own in broken}
        for k in range(menus.num_capacities):
            least = least_lacking(menus, k, point)
            if abs(least - (1.0 - cover_rows._BROKEN)) < 1e-9:
                continue
            assert (k in found) == (least < 1.0 - cover_rows._BROKEN), (seed, k)
            if k not in found:
                continue
            cover, own = found[k]
            assert cover.most == len(cover.thresholds) - 1
            assert sum(cover.thresholds.values()) > menus.capacities[k]
            assert sum(cover.thresholds.values()) - max(cover.thresholds.values()) <= menus.capacities[k]
            assert cover.others == max(cover.thresholds.values())
            wanted = [cover.thresholds.get(job, cover.others) for job in menus.job.tolist()]
            assert [*own] == [*np.flatnonzero(menus.uses[k] >= wanted)]
            assert point[own].sum() > cover.most + cover_rows._BROKEN - 1e-9
            seen += 1
    assert seen > 10


def test_rows_hold_for_every_choice_and_bounds_for_the_best() -> None:
    lower = closed = 0
    for seed in range(examples(120, fewest=60)):
        model = crowded(seed)
        menus, truth = table_of(model), enumerate_knapsack(model)
        if menus is None or truth is None:
            continue
        options = SolveOptions()
        clock = Clock(options)
        best = ChoiceIncumbent(model, options, clock)
        best.step = 1.0
        assert best.take(menus.rows[cheapest(menus)])
        dual, _ = solve_large(menus)
        search = CoverRelaxation(menus, dual.multipliers, dual.bound, best)
        done = search.run(clock)
        assert best.objective is not None and best.objective <= truth[0] + 1e-9
        if done:
            assert best.objective == truth[0], seed
            closed += 1
        else:
            assert search.bound >= truth[0] - 1e-9, seed
        lower += search.bound < dual.bound - 0.5
        under = menus.num_capacities + len(search.covers)
        assert search.menus.num_capacities == under == search.prices.size
        for chosen in product(*map(range, menus.offsets[:-1], menus.offsets[1:])):
            choice = np.array(chosen)
            if (menus.used(choice) > menus.capacities).any():
                continue
            place = search.menus.locate(menus.rows[choice])
            if (place >= 0).all():
                assert (search.menus.used(place) <= search.menus.capacities).all(), seed
    assert lower > 3 and closed > 15


def test_large_capacities_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    menus = build(crowded(5))
    assert menus is not None
    point = np.where(menus.rows < 0, 0.1, 0.9 / np.maximum(1, np.diff(menus.offsets) - 1)[menus.job])
    assert broken_covers(menus, menus.num_capacities, point)
    monkeypatch.setattr(cover_rows, "_CELLS", 0)
    assert not broken_covers(menus, menus.num_capacities, point)
    monkeypatch.undo()
    monkeypatch.setattr(cover_rows, "_LARGEST", 0)
    assert not broken_covers(menus, menus.num_capacities, point)


def test_relaxations_are_solved_after_a_call_of_more_threads() -> None:
    """HiGHS keeps the threads of the first call in a thread, and runs with no other number then."""
    menus = build(make("periods", {"seed": 41, "jobs": 20, "periods": 12}, None))
    assert menus is not None
    for threads in (3, 1):
        core = solve_core(menus, start=None, seconds=20.0, nodes=None, step=0.0, threads=threads, seed=0)
        assert core.proven
        programme = programme_of(menus)
        programme.add(*columns_of(menus, np.ones(menus.num_options, dtype=np.bool_)))
        assert programme.solved(None) is not None
