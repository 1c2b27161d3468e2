"""Better placements by trees over a few machines."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from apportion.solvers.compiled import load
from apportion.solvers.generalised_assignment.by_tree import NODES, Improving
from apportion.solvers.search.assignment_tree import Placement
from apportion.solvers.search.depth_first import Status
from apportion.solvers.search.few_machines import Answer, FewMachines, Rising, Trial, any_placement
from apportion.solvers.search.slices import Slices

pytestmark = pytest.mark.skipif(
    load("search.assignment_tree_c") is None, reason="the compiled tree is not built or is switched off"
)


def hard(seed: int, machines: int, jobs: int) -> Placement:
    """Draw costs that fall as uses rise, under tight capacities (type D of the literature)."""
    rng = np.random.default_rng(seed)
    use = rng.integers(1, 101, (machines, jobs))
    cost = 111 - use + rng.integers(-10, 11, (machines, jobs))
    room = np.full((1, machines), int(0.8 * use.sum() / machines / machines))
    allowed = rng.random((machines, jobs)) < 0.9
    allowed[rng.integers(0, machines, jobs), np.arange(jobs)] = True
    return Placement(cost.astype(np.int64), use[None].astype(np.int64), room, allowed.astype(np.uint8))


def improved(
    placement: Placement, at: NDArray[np.int32], seed: int, slices: Slices
) -> list[NDArray[np.int32]]:
    """Return the placements found one after the other, for as much work as the first one took, and more."""
    found = [at]
    improving = Improving(placement, 1, np.ones(placement.cost.shape[0]))

    def attempt(rng: np.random.Generator, size: int) -> Trial:
        part = improving.part(found[-1], np.zeros(at.size, dtype=np.int64), rng, size)
        return Trial(part.tree, lambda better: found.append(part.whole(better)))

    few = FewMachines(placement.cost.shape[0], 5, NODES, 0, seed, slices)
    slices.work += 10**9  # what decisions took
    few.beside(attempt, lambda: False)
    return found


def test_every_placement_found_is_better_and_keeps_the_capacities() -> None:
    for seed in range(3):
        placement = hard(seed, 8, 50)
        slices = Slices(lambda: False, None)
        status, at = any_placement(placement.use[0], placement.capacity[0], placement.open == 1, slices)
        assert status is Status.FOUND and at is not None
        jobs, costs = np.arange(50), list[int]()
        for better in improved(placement, at, seed, slices):
            assert (placement.open[better, jobs] == 1).all()
            held = np.bincount(better, weights=placement.use[0][better, jobs], minlength=8)
            assert (held <= placement.capacity[0]).all()
            costs.append(int(placement.cost[better, jobs].sum()))
        assert costs == sorted(set(costs), reverse=True)
        assert costs[-1] < 0.97 * costs[0]


def test_the_same_seed_finds_the_same() -> None:
    placement = hard(7, 6, 40)
    found = []
    for _ in range(2):
        slices = Slices(lambda: False, None)
        _, at = any_placement(placement.use[0], placement.capacity[0], placement.open == 1, slices)
        assert at is not None
        found.append(np.array(improved(placement, at, 3, slices)).tolist())
    assert found[0] == found[1]
    assert len(found[0]) > 1


def test_trees_grow_where_they_are_in_vain_and_end_when_they_have_had_their_work() -> None:
    slices = Slices(lambda: False, None)
    sizes: list[int] = []

    def in_vain(rng: np.random.Generator, size: int) -> None:
        sizes.append(size)
        slices.work += 700_000

    few = FewMachines(6, 8, NODES, 10_000_000, 0, slices)
    slices.work = 5_000_000
    few.beside(in_vain, lambda: False)
    assert not sizes  # before the decisions had their first turn
    slices.work = 264_000_000
    few.beside(in_vain, lambda: False)
    assert sizes == [3] * 30 + [4] * 40 + [5] * 50
    slices.work += 66_000_000
    few.beside(in_vain, lambda: len(sizes) >= 130)
    assert len(sizes) == 130


def test_attempts_without_work_end_too() -> None:
    slices = Slices(lambda: False, None)
    slices.work = 150_000_000
    tried: list[int] = []
    few = FewMachines(6, 5, NODES, 0, 0, slices)
    few.beside(lambda rng, size: tried.append(size), lambda: False)
    assert len(tried) == 100


def test_one_or_two_machines_are_not_searched_by_twos() -> None:
    slices = Slices(lambda: False, None)
    slices.work = 150_000_000
    for machines in (1, 2):
        few = FewMachines(machines, 5, NODES, 0, 0, slices)
        few.beside(lambda rng, size: pytest.fail("nothing to draw"), lambda: False)


def test_what_is_to_come_counts_as_work() -> None:
    slices = Slices(lambda: False, None)
    slices.work = 15_000_000
    tried: list[int] = []
    few = FewMachines(6, 5, NODES, 30_000_000, 0, slices)
    few.beside(lambda rng, size: tried.append(size), lambda: False)
    assert not tried
    few.beside(lambda rng, size: tried.append(size), lambda: False, 60_000_000)
    assert len(tried) == 40


def test_a_plan_is_improved_before_every_dive() -> None:
    calls: list[tuple[str, int]] = []

    def improve(nodes: int) -> None:
        calls.append(("improve", nodes))
        rising.high -= 4

    def dive(target: int, nodes: int) -> Answer:
        assert target < rising.high
        calls.append(("dive", nodes))
        return Answer(False, target, None, 1)

    def decide(target: int, nodes: int) -> Answer:
        return Answer(target < 10, None, None, 1)

    rising = Rising(decide, 0, 40, 1, 1, lambda: False, improve, dive, 7)
    rising.run()
    assert rising.closed
    assert calls[:4] == [("improve", 7), ("dive", 7), ("improve", 7), ("dive", 7)]
