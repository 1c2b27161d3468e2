"""A tree divided among threads: the same leaves, the same answers, and the same again."""

from __future__ import annotations

import numpy as np
import pytest

import apportion
from apportion.solvers.search import menu_search
from apportion.solvers.search.depth_first import DepthFirst, Status
from apportion.solvers.search.slices import Crew, SideBySide

from .test_depth_first import all_leaves, enumerated, some_search


def test_what_is_given_away_and_what_stays_hold_every_leaf_once() -> None:
    divisions = 0
    for seed in range(200):
        search = some_search(seed)
        expected = enumerated(search)
        found: list[tuple[int, ...]] = []
        parts = [search]
        rng = np.random.default_rng(seed)
        while parts:
            part = parts[int(rng.integers(len(parts)))]
            status = part.run(int(rng.integers(1, 6)))
            if status is Status.FOUND:
                found.append(tuple(part.leaf.tolist()))
            if status is Status.EXHAUSTED:
                parts = [other for other in parts if other is not part]
            elif (given := part.divided()) is not None:
                divisions += 1
                parts.append(given)
        assert sorted(found) == sorted(expected), seed
    assert divisions > 200


@pytest.mark.parametrize("threads", [2, 3, 8])
def test_threads_find_every_leaf_and_look_at_every_node_once(road: str, threads: int) -> None:
    leaves = 0
    for seed in range(100):
        alone, divided = some_search(seed), SideBySide(some_search(seed), Crew(threads), 1)
        expected = all_leaves(alone, 1_000)
        found = []
        while (status := divided.run(5 * threads)) is not Status.EXHAUSTED:
            if status is Status.FOUND:
                found.append(tuple(divided.finder.leaf.tolist()))
        assert sorted(found) == sorted(expected), (road, seed)
        assert divided.nodes == alone.nodes
        assert divided.run(10) is Status.EXHAUSTED
        leaves += len(found)
    assert leaves > 100


def test_a_raised_floor_reaches_every_part() -> None:
    for seed in range(100):
        best = max(
            (leaf_worth(some_search(seed), leaf) for leaf in enumerated(some_search(seed))), default=None
        )
        search = some_search(seed)
        divided = SideBySide(search, Crew(3), 1)
        reached: int | None = None
        nothing = np.zeros(search.left.shape[1], dtype=np.int64)
        while (status := divided.run(9)) is not Status.EXHAUSTED:
            if status is Status.FOUND:
                worth = leaf_worth(search, tuple(divided.finder.leaf.tolist()))
                reached = worth if reached is None else max(reached, worth)
                for part in divided.parts:
                    part.raise_floor(reached, nothing)
        assert reached == best, seed


def leaf_worth(search: DepthFirst, leaf: tuple[int, ...]) -> int:
    return int(search.worth[list(leaf)].sum())


def test_two_threads_share_a_tree_evenly() -> None:
    rng = np.random.default_rng(5)
    offsets = np.arange(31) * 3
    costs = rng.integers(0, 1_000, (90, 4))
    for first in offsets[:-1]:
        menu = costs[first : first + 3] - costs[first : first + 3].min(axis=0)
        costs[first : first + 3] = menu[np.argsort(menu[:, 0], kind="stable")]
    tree = DepthFirst.begin(offsets, costs, np.full(4, 5_200), np.ones(90, dtype=np.int64), 10**6)
    divided = SideBySide(tree, Crew(2), 100_000)
    longest = 0
    status = Status.OUT_OF_NODES
    while status is not Status.EXHAUSTED and divided.nodes < 4_000_000:
        parts = list(divided.parts)
        before = divided.nodes, [part.nodes for part in parts]
        status = divided.run(40_000)
        spent = [part.nodes - count for part, count in zip(parts, before[1], strict=True)]
        longest += max(max(spent), divided.nodes - before[0] - sum(spent))
    assert divided.nodes > 3_000_000
    assert longest < 0.6 * divided.nodes


def test_a_whole_call_repeats_with_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(menu_search, "_ALONE", 1_000)
    rng = np.random.default_rng(1)
    jobs, options = 30, 4
    uses = rng.integers(1, 1_000, (jobs * options, 5))
    model = apportion.MultipleChoiceKnapsack.from_arrays(
        values=uses.sum(axis=1) + rng.integers(0, 1_000, jobs * options),
        uses=uses,
        offsets=np.arange(jobs + 1) * options,
        capacities=uses.sum(axis=0) // (2 * options),
        required=False,
    )
    alone, once, again = (
        apportion.solve(model, deterministic=True, time_limit=60.0, threads=threads) for threads in (1, 3, 3)
    )
    assert alone.solution == once.solution == "optimal"
    assert once.objective == pytest.approx(alone.objective, abs=0)
    np.testing.assert_array_equal(once.require(), again.require())
