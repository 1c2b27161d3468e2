"""Decisions over assignments divided among threads: the same answers, nodes counted, limits held."""

from __future__ import annotations

import pickle
import signal
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

import apportion
from apportion.core.outcome import Termination
from apportion.models.assignment import Assignment
from apportion.solvers.compiled import SWITCH, load
from apportion.solvers.search.assignment_tree import AssignmentTree, Placement
from apportion.solvers.search.depth_first import Status
from apportion.solvers.search.slices import Crew, SideBySide, Slices
from tests.patience import patience

from .enumerations import PROBLEMS, compare

pytestmark = pytest.mark.skipif(
    load("search.assignment_tree_c") is None, reason="the compiled tree is not built or is switched off"
)


def anticorrelated(seed: int, machines: int, jobs: int) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Return costs that fall as uses rise, the uses, and a tight capacity (type D of the literature)."""
    rng = np.random.default_rng(seed)
    use = rng.integers(1, 101, (machines, jobs))
    cost = 111 - use + rng.integers(-10, 11, (machines, jobs))
    return cost, use, int(0.8 * use.sum() / machines / machines)


def decision(seed: int, target: int, machines: int = 4, jobs: int = 20) -> AssignmentTree:
    """Ask for a placement that costs at most so much."""
    cost, use, room = anticorrelated(seed, machines, jobs)
    able = np.ones(cost.shape, dtype=np.uint8)
    placement = Placement(cost, use[None], np.full((1, machines), room), able)
    return AssignmentTree(placement, target, 1, cost.max(axis=0), 10_000, 20)


def model(seed: int, machines: int, jobs: int) -> Assignment:
    """Make a whole problem of such costs."""
    cost, use, room = anticorrelated(seed, machines, jobs)
    return Assignment.from_matrix(
        "cost", cost.T.astype(float), uses=use.T, capacities=np.full(machines, room)
    )


def makespan(seed: int, machines: int, jobs: int) -> Assignment:
    """Make a makespan whose times hardly differ from machine to machine."""
    rng = np.random.default_rng(seed)
    times = rng.integers(20, 60, (jobs, 1)) + rng.integers(0, 12, (jobs, machines))
    return Assignment.from_matrix("makespan", times.astype(float))


def ended(tree: SideBySide[AssignmentTree]) -> Status:
    """Search to the end."""
    while (status := tree.run(10**6)) not in (Status.EXHAUSTED, Status.FOUND):
        assert status is Status.OUT_OF_WORK
    return status


@pytest.mark.parametrize("threads", [2, 4])
def test_parts_of_a_decision_have_the_nodes_of_the_whole(threads: int) -> None:
    divided = 0
    for seed in range(4):
        cost, use, room = anticorrelated(seed, 4, 20)
        statuses = []
        for target in range(int(cost.min(axis=0).sum()), 10**6, 10):
            alone = SideBySide(decision(seed, target), Crew(1), 2)
            several = SideBySide(decision(seed, target), Crew(threads), 2)
            statuses.append(ended(alone))
            assert ended(several) is statuses[-1], (seed, target)
            if statuses[-1] is Status.FOUND:
                found = several.finder.found
                assert int(cost[found, np.arange(20)].sum()) <= target
                assert (np.bincount(found, use[found, np.arange(20)], 4) <= room).all()
                break
            assert several.nodes == alone.nodes, (seed, target)
            assert several.work == alone.work
            divided += several.nodes > 2
        assert Status.EXHAUSTED in statuses
    assert divided > 4


def test_a_divided_decision_is_stored_and_goes_on_where_it_was() -> None:
    one = SideBySide(decision(1, 3708, 6, 60), Crew(3), 2)
    rounds = 0
    status = Status.OUT_OF_WORK
    while status is Status.OUT_OF_WORK and rounds < 60:
        again = pickle.loads(pickle.dumps(one))
        status = one.run(5_000)
        assert again.run(5_000) is status
        assert (again.nodes, again.work, len(again.parts)) == (one.nodes, one.work, len(one.parts))
        one, rounds = again, rounds + 1
    assert rounds > 3


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_no_decision_has_more_nodes_than_it_may(threads: int) -> None:
    for most in (1, 2, 3, 7, 50):
        slices = Slices(lambda: False, most, threads)
        status, found = slices.run(decision(1, 3708, 6, 60), 10**6)
        assert (status, found) == (Status.OUT_OF_NODES, None)
        assert slices.nodes == most
        assert slices.over()
        slices = Slices(lambda: False, 20, threads)
        trees = [decision(1, 3708, 6, 60) for _ in range(threads)]
        assert slices.run_each(trees, most) == [None] * threads
        assert slices.nodes == min(20, most * threads)


def test_two_threads_share_a_decision() -> None:
    slices = [Slices(lambda: False, None, threads) for threads in (1, 2)]
    for one in slices:
        assert one.run(decision(1, 3708, 6, 60), 400)[1] is None
    assert slices[0].nodes == 400
    assert slices[1].nodes == 800  # so many each


def test_a_slice_lets_other_threads_run() -> None:
    tree = decision(1, 3708, 6, 60)
    thread = threading.Thread(target=lambda: tree.run(2**40, 300_000_000))
    thread.start()
    turns = 0
    while thread.is_alive():
        time.sleep(0)
        turns += 1
    assert tree.work >= 300_000_000
    assert turns > 100


@pytest.mark.one_in(3)
@pytest.mark.parametrize("threads", [2, 4])
@pytest.mark.parametrize("problem", ["assignment", "makespan"])
def test_small_ones_equal_enumeration_with_threads(problem: str, threads: int) -> None:
    tally = compare(PROBLEMS[problem], range(100, 160), patience(0.3), threads)
    assert not tally.different


@pytest.mark.parametrize("problem", ["assignment", "makespan"])
def test_threads_are_nothing_to_the_uncompiled_road(problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "1")
    assert not compare(PROBLEMS[problem], range(100, 104), 0.3, 4).different


@pytest.mark.parametrize("make", [model, makespan])
@pytest.mark.parametrize("threads", [2, 4])
def test_whole_calls_prove_the_same_and_repeat(make: Callable[..., Assignment], threads: int) -> None:
    for seed in range(3):
        problem = make(seed, 4, 24)
        alone, once, again = (
            apportion.solve(problem, time_limit=None, deterministic=True, threads=k)
            for k in (1, threads, threads)
        )
        assert alone.termination is once.termination is Termination.OPTIMAL
        assert alone.objective == once.objective
        np.testing.assert_array_equal(once.require(), again.require())
        assert once.outcome.counters == again.outcome.counters


@pytest.mark.parametrize("make", [model, makespan])
def test_a_work_limit_counts_the_nodes_of_all_threads(make: Callable[..., Assignment]) -> None:
    for threads in (1, 4):
        solution = apportion.solve(make(0, 10, 100), time_limit=None, work_limit=40, threads=threads)
        assert solution.termination is Termination.NODE_LIMIT
        assert 30 < solution.outcome.counters["nodes"] <= 40


def test_deadlines_hold_with_threads() -> None:
    limit = patience(0.5)
    began = time.perf_counter()
    solution = apportion.solve(model(0, 20, 200), time_limit=limit, threads=4)
    assert time.perf_counter() - began < limit + patience(0.2)
    assert solution.termination is Termination.TIME_LIMIT
    assert solution.plan is not None


def test_a_stroke_inside_a_divided_tree_gives_the_best_plan_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C comes while two parts search: both are waited for."""
    run, struck = Crew.run, list[int]()

    def strike(crew: Crew, calls: list[Callable[[], Status]]) -> list[Status]:
        if len(calls) > 1 and not struck:
            struck.append(len(calls))
            return run(crew, [lambda: signal.raise_signal(signal.SIGINT) or calls[0](), *calls[1:]])
        return run(crew, calls)

    monkeypatch.setattr(Crew, "run", strike)
    problem = model(0, 10, 100)
    solution = apportion.solve(problem, time_limit=None, threads=2)
    assert struck == [2]
    assert solution.termination is Termination.INTERRUPTED
    assert problem.check(solution.require()).feasible
