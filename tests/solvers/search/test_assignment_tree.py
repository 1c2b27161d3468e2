"""Generalised assignment and makespan, compiled and uncompiled, against enumeration in fractions."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

import apportion
from apportion.models.assignment import Assignment
from apportion.outcome import Termination
from apportion.solvers.compiled import SWITCH, load
from apportion.solvers.generalised_assignment import by_tree as assigned
from apportion.solvers.makespan import by_tree as scheduled
from apportion.solvers.search.assignment_tree import AssignmentTree, Placement, Status
from apportion.solvers.search.slices import Slices
from tests.patience import patience

KINDS = ("whole", "tenths", "real", "tiny", "huge", "signed", "few")


def drawn(seed: int) -> Assignment:
    """Draw a small assignment: up to six jobs on up to four machines, pairs forbidden, some jobs optional."""
    rng = np.random.default_rng(seed)
    jobs, machines = int(rng.integers(1, 7)), int(rng.integers(1, 5))
    allowed = rng.random((jobs, machines)) < rng.choice([0.6, 1.0])
    allowed[np.arange(jobs), rng.integers(0, machines, jobs)] = True
    whole = rng.integers(0, 60, (jobs, machines)).astype(float)
    values = {
        "whole": whole,
        "tenths": whole / 10,
        "real": rng.lognormal(0.0, 1.0, whole.shape),
        "tiny": whole * 1e-7,
        "huge": whole * 1e9 + rng.integers(0, 3, whole.shape),
        "signed": whole - 30,
        "few": np.floor(whole / 20),
    }[KINDS[int(rng.integers(len(KINDS)))]]
    uses = rng.integers(0, 12, whole.shape) * int(rng.choice([1, 1, 7, 10**6]))
    total = uses.sum(axis=0)
    capacities = (rng.uniform(0.2, 1.0, machines) * total / rng.choice([1, machines])).astype(np.int64)
    return Assignment.from_arrays(
        "cost" if rng.random() < 0.5 else "value",
        values[allowed],
        np.nonzero(allowed)[1],
        np.concatenate(([0], np.cumsum(allowed.sum(axis=1)))),
        machines,
        uses=uses[allowed],
        capacities=capacities,
        limited=rng.random(machines) < 0.85,
        required=rng.random(jobs) < rng.choice([0.0, 0.5, 1.0, 1.0]),
    )


def enumerated(model: Assignment) -> Fraction | None:
    """Return the best objective of all choices, exactly, or ``None`` without a feasible one."""
    fractions = [Fraction(v) for v in model.values.tolist()]
    whole = math.lcm(*(v.denominator for v in fractions))
    value = [int(v * whole) for v in fractions]
    machine, use = model.machine.tolist(), model.uses.tolist()
    room = [c if k else 2**62 for c, k in zip(model.capacities.tolist(), model.limited.tolist(), strict=True)]
    ends = [0] * len(room)
    offsets, required = model.offsets.tolist(), model.required.tolist()
    best: int | None = None

    def place(job: int, total: int) -> None:
        nonlocal best
        if job == model.num_jobs:
            own = max(ends) if model.goal == "makespan" else total
            if best is None or (own > best if model.goal == "value" else own < best):
                best = own
            return
        for row in range(offsets[job], offsets[job + 1]):
            on = machine[row]
            if use[row] > room[on]:
                continue
            room[on] -= use[row]
            ends[on] += value[row]
            place(job + 1, total + value[row])
            room[on] += use[row]
            ends[on] -= value[row]
        if not required[job]:
            place(job + 1, total)

    place(0, 0)
    return None if best is None else Fraction(best, whole)


def scheduling(seed: int) -> Assignment:
    """Draw a small makespan: up to seven jobs on up to four machines, some alike, some with a capacity."""
    rng = np.random.default_rng(seed)
    jobs, machines = int(rng.integers(1, 8)), int(rng.integers(1, 5))
    times = rng.integers(0, 60, (jobs, machines)).astype(float)
    alike = rng.random(machines) < 0.4
    times[:, alike] = times[:, :1]
    kind = int(rng.integers(5))
    times = (times, times / 10, times * rng.lognormal(0.0, 0.2, machines), times * 1e-7, times * 1e9)[kind]
    allowed = rng.random((jobs, machines)) < rng.choice([0.7, 1.0, 1.0])
    allowed[np.arange(jobs), rng.integers(0, machines, jobs)] = True
    uses = rng.integers(0, 12, times.shape)
    capacities = (rng.uniform(0.3, 1.0, machines) * uses.sum(axis=0)).astype(np.int64)
    return Assignment.from_arrays(
        "makespan",
        times[allowed],
        np.nonzero(allowed)[1],
        np.concatenate(([0], np.cumsum(allowed.sum(axis=1)))),
        machines,
        uses=uses[allowed],
        capacities=capacities,
        limited=rng.random(machines) < rng.choice([0.0, 0.0, 0.5]),
    )


def compare(draw: Callable[[int], Assignment], fits: Callable[[Assignment], bool], seeds: range) -> int:
    """Compare so many; return how many the compiled tree took."""
    taken, limit = 0, patience(0.3)
    for seed in seeds:
        model = draw(seed)
        taken += fits(model)
        best = enumerated(model)
        solution = apportion.solve(model, time_limit=None if fits(model) else limit)
        if best is None:
            assert solution.termination is Termination.INFEASIBLE, seed
            continue
        # HiGHS, which searches where nothing is compiled, may end a little short of a proof
        assert solution.termination is Termination.OPTIMAL or not fits(model), (seed, solution.notes)
        assert solution.objective is not None
        scale = max(abs(best), Fraction(1, 10**9))
        assert abs(Fraction(solution.objective) - best) <= scale / 10**9, (
            seed,
            solution.objective,
            float(best),
        )
        assert solution.bound is not None
        sign = -1 if model.goal == "value" else 1
        assert sign * (Fraction(solution.bound) - best) <= scale / 10**12, (seed, solution.bound, float(best))
    return taken


PROBLEMS = {"assignment": (drawn, assigned.fits), "makespan": (scheduling, scheduled.fits)}


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("switch", ["0", "1"])
def test_small_ones_equal_enumeration(problem: str, switch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, switch)
    taken = compare(*PROBLEMS[problem], range(40))
    if switch == "1":
        assert taken == 0
    elif load("search.assignment_tree_c") is not None:
        assert taken > 30


def test_the_tree_finds_a_first_schedule_where_list_scheduling_breaks_the_capacities() -> None:
    """It went to HiGHS, whose bound on times of 1e10 the plan refuted: a numerical error."""
    compare(*PROBLEMS["makespan"], range(5841, 5842))


@pytest.mark.slow
@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("switch", ["0", "1"])
def test_twenty_thousand_small_ones_equal_enumeration(
    problem: str, switch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SWITCH, switch)
    compare(*PROBLEMS[problem], range(1_000, 21_000))


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
            status = tree.run(20_000)
            assert again.run(20_000) is status
            assert (again.nodes, again.work, again.bound) == (tree.nodes, tree.work, tree.bound)
            tree = again  # the stored one goes on
            if status is not Status.OUT_OF_WORK:
                break
        ended.add(status)
        if status is Status.FOUND:
            assert int(cost[tree.found, np.arange(30)].sum()) <= target
    assert ended == {Status.EXHAUSTED, Status.FOUND}


def test_a_few_machines_at_a_time_only_improve_a_schedule() -> None:
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
    search.rebalance(lambda: False)
    assert ends == sorted(ends, reverse=True)
    assert model.check(search.choice).feasible
    assert ends[-1] == model.objective(search.choice) < model.objective(worst)
    bound, closed = search.run()
    assert closed
    assert bound == model.objective(search.choice)


class WithoutRebalancing(scheduled.MakespanSearch):
    """Decisions alone."""

    def _improve(self) -> None:
        return


def test_hard_makespans_are_improved_beside_the_decisions() -> None:
    """Times that hardly differ: a few machines at a time come to better schedules than decisions alone."""
    if load("search.assignment_tree_c") is None:
        pytest.skip("the compiled tree is not built or is switched off")
    times = np.random.default_rng(7).integers(500, 551, (80, 8)).astype(float)
    model = Assignment.from_matrix("makespan", times)
    least = float(times.min(axis=1).sum() // 8)
    ends = []
    for kind in (scheduled.MakespanSearch, WithoutRebalancing):
        slices = Slices(lambda: False, 200)
        start = model.offsets[:-1] + np.arange(80) % 8
        search = kind(model, start, least, np.full(8, 1 / 8), slices, lambda choice, bound: None)
        bound, _ = search.run()
        assert model.check(search.choice).feasible
        assert 0 < bound <= model.objective(search.choice)
        ends.append(model.objective(search.choice))
    assert ends[0] < ends[1]
