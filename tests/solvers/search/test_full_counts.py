"""Machines that are full by count: the same plans by enumeration, and far smaller tables."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray

from apportion.solvers.compiled import load
from apportion.solvers.search.assignment_tree import AssignmentTree, Placement, with_full_counts
from apportion.solvers.search.depth_first import Status


def plans(
    use: NDArray[np.int64], capacity: NDArray[np.int64], allowed: NDArray[np.bool_]
) -> set[tuple[int, ...]]:
    """Return every placement that keeps the capacities, by enumeration."""
    machines, jobs = use.shape
    found = set()
    for at in itertools.product(range(machines), repeat=jobs):
        place = np.array(at)
        used = np.bincount(place, weights=use[place, np.arange(jobs)], minlength=machines)
        if allowed[place, np.arange(jobs)].all() and (used <= capacity).all():
            found.add(at)
    return found


def test_the_same_plans_remain() -> None:
    shrunk = 0
    for seed in range(400):
        rng = np.random.default_rng(seed)
        machines, jobs = int(rng.integers(1, 4)), int(rng.integers(1, 7))
        use = rng.integers(0, 20, (machines, jobs)) + int(rng.choice([0, 10, 100]))
        allowed = rng.random((machines, jobs)) < 0.9
        fair = int(np.sort(use, axis=1)[:, : -(-jobs // machines)].sum(axis=1).mean())
        capacity = rng.integers(fair - 5, fair + 12, machines).clip(0)
        less, room = with_full_counts(use, capacity, allowed)
        assert (less >= 0).all()
        assert (room <= capacity).all()
        shrunk += bool((room < capacity).any())
        assert plans(less, room, allowed) == plans(use, capacity, allowed), seed
    assert shrunk > 100


def test_capacities_beyond_the_sums_of_64_bits_are_left_alone() -> None:
    use, capacity = np.full((2, 4), 2**58), np.full(2, 2**60)
    less, room = with_full_counts(use, capacity, np.ones((2, 4), dtype=np.bool_))
    assert less is use
    assert room is capacity


@pytest.mark.parametrize(("within", "expected"), [(10_170, Status.EXHAUSTED), (10_190, Status.FOUND)])
def test_jobs_of_nearly_the_same_length_are_decided_in_small_tables(within: int, expected: Status) -> None:
    if load("search.assignment_tree_c") is None:
        pytest.skip("the compiled search was not built")
    use = np.random.default_rng(1).integers(1000, 1101, (1, 6, 60))
    able = np.ones(use[0].shape, dtype=np.uint8)
    placement = Placement(np.zeros_like(use[0]), use, np.full((1, 6), within), able)
    tree = AssignmentTree(placement, 0, 2**16, np.full(60, 2**16), 500)
    assert tree.run(500, 1_000_000_000) is expected
    if expected is Status.FOUND:
        used = np.bincount(tree.found, weights=use[0][tree.found, np.arange(60)], minlength=6)
        assert (used <= within).all()
