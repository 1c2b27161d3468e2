"""The local search over lists of pools: twins, what it finds, and the limits that end it."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from numpy.typing import NDArray

import apportion
from apportion.core.options import SolveOptions
from apportion.instances import MatchingEntry, MatchingInstance, MatchingJob, MatchingMachine
from apportion.models.assignment import Assignment
from apportion.models.packing import pool_ends
from apportion.solvers.assignment.relaxation import relaxed
from apportion.solvers.clock import Clock
from apportion.solvers.compiled import load
from apportion.solvers.makespan import list_search
from apportion.solvers.makespan.least_makespan import rounded
from apportion.solvers.makespan.list_search import ListSearch
from tests.budgets import examples


def _gangs(jobs: int, seed: int) -> MatchingInstance:
    rng = np.random.default_rng(seed)
    sizes = rng.choice([2, 4, 8], jobs)
    times = rng.uniform(1.0, 50.0, (jobs, 3))
    return MatchingInstance(
        "1",
        "makespan",
        tuple(MatchingMachine(str(pool), count=8) for pool in range(3)),
        tuple(
            MatchingJob(
                f"j{job}",
                {
                    str(pool): MatchingEntry(time_s=float(times[job, pool]), gpus=int(sizes[job]))
                    for pool in range(3)
                },
            )
            for job in range(jobs)
        ),
    )


def _drawn(seed: int, jobs: int) -> Assignment:
    """Draw jobs on two pools and one machine alone, some of which cannot run everywhere or take no time."""
    rng = np.random.default_rng(seed)
    counts = np.array([int(rng.integers(2, 5)), int(rng.integers(2, 4)), 1])
    runs = rng.random((jobs, 3)) < 0.8
    runs[~runs.any(axis=1), 0] = True
    machine = np.nonzero(runs)[1]
    times = rng.integers(0, 12, machine.size).astype(np.float64)
    offsets = np.concatenate(([0], np.cumsum(runs.sum(axis=1))))
    gpus = np.minimum(rng.integers(1, 4, machine.size), counts[machine])
    return Assignment.from_arrays("makespan", times, machine, offsets, 3, gpus=gpus, counts=counts)


def _first(model: Assignment) -> NDArray[np.int64]:
    """Return every job's first entry."""
    return model.offsets[:-1].copy()


def _best(model: Assignment) -> float:
    """Return the least makespan: all choices, all orders of the jobs of every pool."""
    best = math.inf
    for choice in itertools.product(*(range(a, b) for a, b in itertools.pairwise(model.offsets.tolist()))):
        rows = np.array(choice)
        for order in itertools.permutations(range(rows.size)):
            turns = np.array(order)
            ends = pool_ends(model.values[rows], model.machine[rows], model.gpus[rows], model.counts, turns)
            best = min(best, float(ends.max()))
    return best


def test_the_twins_make_the_same_steps() -> None:
    compiled = load("makespan.list_search_c")
    if compiled is None:
        pytest.skip("the compiled part is not built")
    changed = 0
    for seed in range(examples(60)):
        model = _drawn(seed, 9)
        search = ListSearch(model, _first(model), Clock(SolveOptions()), seed)
        ends = []
        for run in (compiled.run, list_search._steps_in_python):
            now = [array.copy() for array in search._best]
            found = [array.copy() for array in search._best]
            word = np.array([seed + 1], dtype=np.uint64)
            ends.append(
                (run(*search._given, *now, *found, word, 300, 4.0, 0.99, 0.3), now, found, int(word[0]))
            )
        (value, *arrays, word_), (twin, *others, twin_word) = ends
        assert (value, word_) == (twin, twin_word), seed
        for (lists, lengths), (same, alike) in zip(arrays, others, strict=True):
            assert (lengths == alike).all(), seed
            for own, other, length in zip(lists, same, lengths.tolist(), strict=True):
                assert (own[:length] == other[:length]).all(), seed
        changed += value < search.makespan
    assert changed >= 3


def test_arrays_that_do_not_fit_together_are_refused() -> None:
    compiled = load("makespan.list_search_c")
    if compiled is None:
        pytest.skip("the compiled part is not built")
    model = _drawn(1, 5)
    search = ListSearch(model, _first(model), Clock(SolveOptions()), 0)
    for broken in range(8):
        given = [np.array(array) for array in (*search._given, *search._best, *search._best, search._random)]
        given[broken] = given[broken].ravel()[:-1].copy()
        with pytest.raises(ValueError, match="do not fit together"):
            compiled.run(*given, 10, 1.0, 0.9, 1.0)
    lists, lengths = search._best[0].copy(), search._best[1].copy()
    lists[0, 0] = 99
    lengths[0] = max(1, lengths[0])
    with pytest.raises(ValueError, match="do not fit together"):
        compiled.run(*search._given, lists, lengths, *search._best, search._random, 10, 1.0, 0.9, 1.0)


def test_small_pools_end_as_soon_as_they_can_and_the_point_says_how() -> None:
    met = 0
    drawn = examples(12)
    for seed in range(drawn):
        model = _drawn(seed, 4)
        search = ListSearch(model, _first(model), Clock(SolveOptions()), seed)
        search.run(math.inf, lambda _: False)
        point = search.point
        assert model.check(point).feasible
        assert model.objective(point) == search.makespan <= model.objective(_first(model))
        least = _best(model)
        assert search.makespan >= least
        met += search.makespan == least
    assert met >= drawn - 1


def test_a_job_that_outlasts_all_others_where_the_relaxation_puts_it_is_placed_anew() -> None:
    """The others are three times as quick on pool 1, so that the relaxation gives pool 0 the long job."""
    times = np.array([[60.0, 40.0], *[[3.0, 1.0]] * 100])
    machine, offsets = np.tile(np.arange(2), 101), np.arange(0, 203, 2)
    model = Assignment.from_arrays("makespan", times.ravel(), machine, offsets, 2, counts=4)
    near = relaxed(model)
    assert near.point is not None
    assert near.objective < 25.0
    assert model.objective(rounded(model, near.point, near.objective)) == 40.0


def test_one_that_closes_ends_it_at_once() -> None:
    model = _drawn(3, 9)
    search = ListSearch(model, _first(model), clock := Clock(SolveOptions()), 0)
    search.run(math.inf, lambda _: True)
    assert clock.work == 0
    assert model.objective(search.point) <= model.objective(_first(model))


def test_a_better_makespan_of_the_last_steps_before_a_limit_is_reported() -> None:
    """A limit may be reached by the steps that found it."""
    better = 0
    for seed in range(examples(20)):
        model = _drawn(seed, 30)
        search = ListSearch(model, _first(model), Clock(SolveOptions(work_limit=1)), seed)
        before, heard = search.makespan, list[float]()
        search.run(math.inf, lambda makespan, heard=heard: bool(heard.append(makespan)))  # type: ignore[misc]
        assert heard[-1] == search.makespan
        better += search.makespan < before
    assert better >= 3


def test_a_work_limit_ends_a_deterministic_search_of_gangs() -> None:
    instance = _gangs(60, 1)
    few, more = (
        apportion.solve(instance, deterministic=True, time_limit=None, work_limit=work) for work in (5, 60)
    )
    again = apportion.solve(instance, deterministic=True, time_limit=None, work_limit=60)
    assert few.objective is not None
    assert more.objective is not None
    assert more.objective <= few.objective
    assert again.require() == more.require()
    assert few.termination.value == more.termination.value == "node_limit"


def test_a_search_whose_work_is_over_asks_no_general_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*_: object) -> None:
        raise AssertionError("CP-SAT has work of its own, which the limit does not count")

    monkeypatch.setattr("apportion.solvers.makespan.by_pools.solve", asked)
    solution = apportion.solve(_gangs(20, 1), deterministic=True, time_limit=None, work_limit=50)
    assert solution.termination.value == "node_limit"
    assert solution.require()


def test_gangs_of_a_hundred_jobs_are_proven_where_one_of_them_decides() -> None:
    rng = np.random.default_rng(5)
    times = rng.uniform(1.0, 20.0, (100, 2))
    times[0] = 2_000.0
    jobs = tuple(
        MatchingJob(
            f"j{job}",
            {
                pool: MatchingEntry(time_s=round(float(time), 1), gpus=8 if job == 0 else 1 + job % 3)
                for pool, time in zip("ab", pair, strict=True)
            },
        )
        for job, pair in enumerate(times)
    )
    pools = (MatchingMachine("a", count=16), MatchingMachine("b", count=8))
    solution = apportion.solve(MatchingInstance("1", "makespan", pools, jobs), time_limit=60.0)
    assert solution.termination.value == "optimal"
    assert solution.objective == 2_000.0
