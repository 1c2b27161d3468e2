"""Sets of options for places: what prices of jobs show is the relaxation over all sets, never too little."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from benchmarks.suite.making import MAKERS
from numpy.typing import NDArray
from scipy.optimize import linprog

import apportion
from apportion.core.options import SolveOptions
from apportion.models import MultipleChoiceKnapsack
from apportion.solvers.clock import Clock
from apportion.solvers.multiknapsack.dual import solve_large
from apportion.solvers.multiknapsack.option_table import ChoiceIncumbent, OptionTable, build
from apportion.solvers.multiknapsack.place_patterns import PlacePatterns
from apportion.solvers.multiknapsack.ruin_recreate import Places
from apportion.solvers.multiknapsack.several_capacities import solve


def tasks(seed: int, shapes: int, each: int, workers: int) -> MultipleChoiceKnapsack:
    """Return tasks of the suite: so many of each shape, on workers of two kinds."""
    made: MultipleChoiceKnapsack = MAKERS["tasks"](seed=seed, shapes=shapes, each=each, workers=workers)
    return made


def patterns_of(
    model: MultipleChoiceKnapsack, options: SolveOptions
) -> tuple[PlacePatterns, ChoiceIncumbent, OptionTable]:
    """Return the relaxation of a model, and the incumbent that begins with nobody served."""
    menus, clock = build(model), Clock(options)
    assert menus is not None
    best, places = ChoiceIncumbent(model, options, clock), Places.among(menus)
    assert places is not None
    best.take(np.full(model.num_jobs, -1, dtype=np.int64))
    patterns = PlacePatterns.among(menus, places, best, clock, solve)
    assert patterns is not None
    return patterns, best, menus


def over_all_sets(model: MultipleChoiceKnapsack, each: int) -> float:
    """Return the optimum of the relaxation whose columns are all sets of tasks that a worker holds."""
    shapes, rooms = model.num_jobs // each, model.capacities.reshape(-1, 2)
    worth = np.zeros((rooms.shape[0], shapes))
    need = np.full((*worth.shape, 2), np.iinfo(np.int32).max, dtype=np.int64)
    for shape in range(shapes):
        for row in range(int(model.offsets[shape * each]), int(model.offsets[shape * each + 1])):
            uses = model.uses[row].reshape(-1, 2)
            worker = int(np.flatnonzero(uses.any(axis=1))[0])
            worth[worker, shape], need[worker, shape] = model.values[row], uses[worker]
    columns, worths = list[NDArray[np.float64]](), list[float]()
    for worker, counts in product(range(rooms.shape[0]), product(range(each + 1), repeat=shapes)):
        amounts = np.array(counts, dtype=np.int64)
        if (amounts @ need[worker] <= rooms[worker]).all():
            columns.append(np.append(amounts, np.eye(rooms.shape[0])[worker]))
            worths.append(float(amounts @ worth[worker]))
    bounds = np.append(np.full(shapes, float(each)), np.ones(rooms.shape[0]))
    found = linprog(-np.array(worths), A_ub=np.column_stack(columns), b_ub=bounds)
    assert found.success
    return -float(found.fun)


@pytest.mark.parametrize("seed", range(8))
def test_prices_of_jobs_show_the_optimum_over_all_sets(seed: int) -> None:
    model = tasks(seed, 3, 4, 4)
    patterns, best, menus = patterns_of(model, SolveOptions(deterministic=True))
    dual, _ = solve_large(menus)
    patterns.run(dual.multipliers, 100.0)
    every = over_all_sets(model, 4)
    assert every - 1e-6 * every <= patterns.bound <= every * (1.0 + 2e-6)
    assert best.point is not None and model.check(best.point).feasible
    optimum = apportion.solve(model, backend="highs")
    assert optimum.objective is not None and best.objective is not None
    assert best.objective <= optimum.objective + 1e-6 <= patterns.bound * (1.0 + 1e-9) + 1e-6


def test_nothing_is_shown_where_there_is_no_time() -> None:
    model = tasks(1, 8, 10, 6)
    patterns, best, menus = patterns_of(model, SolveOptions(deterministic=True))
    patterns.run(solve_large(menus)[0].multipliers, 1e-3)
    assert patterns.bound == np.inf and best.point is not None and model.check(best.point).feasible


def test_jobs_that_differ_are_left_to_other_searches() -> None:
    model = tasks(1, 40, 1, 6)
    menus, clock = build(model), Clock(SolveOptions())
    assert menus is not None
    places, best = Places.among(menus), ChoiceIncumbent(model, SolveOptions(), clock)
    assert places is not None and PlacePatterns.among(menus, places, best, clock, solve) is None


@pytest.mark.parametrize("seed", range(4))
def test_a_set_for_each_worker_is_near_the_bound(seed: int) -> None:
    """Prices of capacities leave 2 to 8 % open."""
    patterns, best, menus = patterns_of(tasks(seed, 20, 8, 24), SolveOptions(deterministic=True))
    dual, _ = solve_large(menus)
    patterns.run(dual.multipliers, 100.0)
    assert best.value is not None and best.value <= patterns.bound < dual.bound
    assert patterns.bound - best.value <= 0.3 * (dual.bound - best.value)


def test_a_place_has_room_for_jobs_of_a_class_by_each_of_its_resources() -> None:
    """Three jobs by the first resource and two by the second are five, more than any option alone."""
    menu = [[1, 0, 0, 0], [0, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [0, 0, 1, 1]]
    values = [7.0, 5.0, 7.5, 3.0, 2.0, 3.5]
    model = MultipleChoiceKnapsack.from_arrays(
        np.tile(values, 8), np.tile(menu, (8, 1)), 6 * np.arange(9), [3, 2, 1, 1], required=False
    )
    patterns, best, menus = patterns_of(model, SolveOptions(deterministic=True))
    patterns.run(np.zeros(menus.num_capacities), 100.0)
    assert best.objective == 3 * 7.0 + 2 * 5.0 + 3.0 + 2.0
    assert best.objective <= patterns.bound <= best.objective * (1.0 + 2e-6)
