"""Better placements by trees over a few machines."""

from __future__ import annotations

import numpy as np
import pytest

from apportion.solvers.compiled import load
from apportion.solvers.generalised_assignment.improving import Improving
from apportion.solvers.search.any_placement import any_placement
from apportion.solvers.search.assignment_tree import Placement, Status
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


def test_every_placement_found_is_better_and_keeps_the_capacities() -> None:
    for seed in range(3):
        placement = hard(seed, 8, 50)
        slices = Slices(lambda: False, None)
        status, at = any_placement(placement.use[0], placement.capacity[0], placement.open == 1, slices)
        assert status is Status.FOUND and at is not None
        jobs = np.arange(50)
        first = cost = int(placement.cost[at, jobs].sum())
        improving = Improving(placement, 1, np.ones(8), seed, slices)
        for _ in range(1_000):
            better = improving.turn(at, np.zeros(50, dtype=np.int64), 20_000_000)
            if better is None:
                break
            assert (placement.open[better, jobs] == 1).all()
            held = np.bincount(better, weights=placement.use[0][better, jobs], minlength=8)
            assert (held <= placement.capacity[0]).all()
            now = int(placement.cost[better, jobs].sum())
            assert now < cost
            at, cost = better, now
        assert cost < 0.97 * first


def test_the_same_seed_finds_the_same() -> None:
    placement = hard(7, 6, 40)
    found = []
    for _ in range(2):
        slices = Slices(lambda: False, None)
        _, at = any_placement(placement.use[0], placement.capacity[0], placement.open == 1, slices)
        assert at is not None
        improving = Improving(placement, 1, np.ones(6), 3, slices)
        better = improving.turn(at, np.zeros(40, dtype=np.int64), 20_000_000)
        assert better is not None
        found.append(better.tolist())
    assert found[0] == found[1]
