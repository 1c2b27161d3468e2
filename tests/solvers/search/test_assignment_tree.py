"""Generalised assignment and makespan, compiled and uncompiled, against enumeration in fractions."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from apportion.models.assignment import Assignment
from apportion.solvers.compiled import SWITCH, load
from apportion.solvers.makespan import by_tree as scheduled
from apportion.solvers.search.assignment_tree import AssignmentTree, Placement
from apportion.solvers.search.depth_first import Status
from apportion.solvers.search.slices import Slices
from tests.patience import patience

from .enumerations import PROBLEMS, compare


@pytest.mark.one_in(5)
@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("switch", ["0", "1"])
def test_small_ones_equal_enumeration(problem: str, switch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, switch)
    tally = compare(PROBLEMS[problem], range(40), patience(0.3))
    assert tally.compared == 40
    assert not tally.different
    if problem in ("menus", "gangs"):
        assert not tally.unproven
    elif switch == "1":
        assert tally.taken == 0
    elif load("search.assignment_tree_c") is not None:
        assert tally.taken > 30 and not tally.unproven


def test_the_tree_finds_a_first_schedule_where_list_scheduling_breaks_the_capacities() -> None:
    """It went to HiGHS, whose bound on times of 1e10 the plan refuted: a numerical error."""
    assert not compare(PROBLEMS["makespan"], range(5841, 5842), 1.0).different


@pytest.mark.slow
@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("switch", ["0", "1"])
def test_twenty_thousand_small_ones_equal_enumeration(
    problem: str, switch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SWITCH, switch)
    assert not compare(PROBLEMS[problem], range(1_000, 21_000), patience(0.3)).different


def test_a_stored_tree_goes_on_where_it_was() -> None:
    if load("search.assignment_tree_c") is None:
        pytest.skip("the compiled tree is not built or is switched off")
    rng = np.random.default_rng(5)
    use = rng.integers(5, 26, (5, 30))
    cost = rng.integers(10, 51, (5, 30))
    room = np.full((1, 5), int(0.8 * use.sum() / 25))
    placement = Placement(cost, use[None], room, np.ones((5, 30), dtype=np.uint8))
    ended: set[Status] = set()
    for target in range(540, 700, 20):
        tree = AssignmentTree(placement, target, 1, np.full(30, 20), 10_000)
        for _ in range(10_000):
            again = pickle.loads(pickle.dumps(tree))
            status = tree.run(2**40, 20_000)
            assert again.run(2**40, 20_000) is status
            assert (again.nodes, again.work, again.bound) == (tree.nodes, tree.work, tree.bound)
            tree = again  # the stored one goes on
            if status is not Status.OUT_OF_WORK:
                break
        ended.add(status)
        if status is Status.FOUND:
            assert int(cost[tree.found, np.arange(30)].sum()) <= target
    assert ended == {Status.EXHAUSTED, Status.FOUND}


def test_a_makespan_is_proven_from_the_worst_schedule() -> None:
    if load("search.assignment_tree_c") is None:
        pytest.skip("the compiled tree is not built or is switched off")
    times = np.random.default_rng(4).integers(10, 100, (60, 8)).astype(float)
    model = Assignment.from_matrix("makespan", times)
    worst = model.offsets[:-1] + np.argmax(times, axis=1)
    ends: list[float] = []
    search = scheduled.MakespanSearch(
        model,
        worst,
        0.0,
        np.full(8, 1 / 8),
        Slices(lambda: False, None),
        lambda choice, bound: ends.append(model.objective(choice)),
    )
    bound, closed = search.run()
    assert ends == sorted(ends, reverse=True)
    assert model.check(search.choice).feasible
    assert closed
    assert bound == ends[-1] == model.objective(search.choice) < model.objective(worst)


class DecisionsAlone(scheduled.MakespanSearch):
    """Decisions alone."""

    def _improve(self, nodes: int) -> None:
        return


def test_hard_makespans_are_improved_beside_the_decisions() -> None:
    """Times that hardly differ: a few machines at a time come to better schedules than decisions alone."""
    if load("search.assignment_tree_c") is None:
        pytest.skip("the compiled tree is not built or is switched off")
    times = np.random.default_rng(7).integers(500, 551, (80, 8)).astype(float)
    model = Assignment.from_matrix("makespan", times)
    least = float(times.min(axis=1).sum() // 8)
    ends = []
    for kind in (scheduled.MakespanSearch, DecisionsAlone):
        slices = Slices(lambda: False, 200)
        start = model.offsets[:-1] + np.arange(80) % 8
        search = kind(model, start, least, np.full(8, 1 / 8), slices, lambda choice, bound: None)
        bound, _ = search.run()
        assert model.check(search.choice).feasible
        assert 0 < bound <= model.objective(search.choice)
        ends.append(model.objective(search.choice))
    assert ends[0] < ends[1]


def test_makespans_under_capacities_are_improved_too() -> None:
    """Of 100 jobs on ten machines with memories the makespan ended at 521 where 386 is found as soon."""
    if load("search.assignment_tree_c") is None:
        pytest.skip("the compiled tree is not built or is switched off")
    rng = np.random.default_rng(7)
    times = np.rint(rng.integers(10, 100, (50, 1)) * rng.uniform(0.5, 2, (50, 6)))
    model = Assignment.from_matrix("makespan", times, [75] * 6, rng.integers(1, 20, (50, 6)))
    ends = []
    for kind in (scheduled.MakespanSearch, DecisionsAlone):
        slices = Slices(lambda: False, 1_000)
        _, start = scheduled.first_choice(model, slices)
        assert start is not None
        search = kind(model, start, 0.0, np.full(6, 1 / 6), slices, lambda choice, bound: None)
        bound, _ = search.run()
        assert model.check(search.choice).feasible
        assert 0 < bound <= model.objective(search.choice)
        ends.append(model.objective(search.choice))
    assert ends[0] < ends[1]
