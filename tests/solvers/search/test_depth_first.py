"""The depth-first search: compiled and uncompiled, against enumeration, in slices, with wrong arrays."""

from __future__ import annotations

import pickle
import sys
from itertools import pairwise, product
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.solvers.compiled import NAMES, SWITCH, import_compiled, load, outdated
from apportion.solvers.search.depth_first import LARGEST, DepthFirst, Status
from tests.budgets import examples


def some_search(seed: int) -> DepthFirst:
    """Return a small search with random rows, some of them of the largest numbers there may be."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 5, rng.integers(1, 6))
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    top = int(rng.choice([5, 100, LARGEST]))
    costs = rng.integers(0, top, (offsets[-1], rng.integers(1, 7)), endpoint=True)
    for first, last in pairwise(offsets):
        costs[first:last] -= costs[first:last].min(axis=0)
        costs[first:last] = costs[first:last][np.argsort(costs[first:last, 0], kind="stable")]
    budgets = rng.integers(0, min(LARGEST, int(top * 0.4 * sizes.size)), costs.shape[1], endpoint=True)
    worth = rng.integers(-50, 50, offsets[-1])
    return DepthFirst.begin(offsets, costs, budgets, worth, int(rng.integers(-60, 60)))


def enumerated(search: DepthFirst) -> list[tuple[int, ...]]:
    """Return every choice that keeps all budgets and is worth more than the floor."""
    menus = [range(a, b) for a, b in zip(search.offsets[:-1], search.offsets[1:], strict=True)]
    budgets = search.left[0].astype(np.int64)
    return [
        choice
        for choice in product(*menus)
        if (search.costs[list(choice)].sum(axis=0, dtype=np.int64) <= budgets).all()
        and search.worth[list(choice)].sum() > search.control[3]
    ]


def all_leaves(search: DepthFirst, slice_nodes: int) -> list[tuple[int, ...]]:
    """Run to the end in slices and return every leaf."""
    import_compiled = []
    while (status := search.run(slice_nodes)) is not Status.EXHAUSTED:
        if status is Status.FOUND:
            import_compiled.append(tuple(search.leaf.tolist()))
        else:
            assert status is Status.OUT_OF_NODES
    return import_compiled


@pytest.mark.parametrize("nodes", [1, 7, 1_000_000])
def test_every_leaf_is_found_and_no_other(road: str, nodes: int) -> None:
    leaves = 0
    for seed in range(count := examples(1000)):
        search = some_search(seed)
        expected = enumerated(search)
        assert sorted(all_leaves(search, nodes)) == sorted(expected), (road, seed)
        leaves += len(expected)
    assert leaves > 1.7 * count


@given(seed=st.integers(0, 2**32 - 1), nodes=st.integers(1, 50))
def test_both_roads_visit_the_same_nodes(seed: int, nodes: int) -> None:
    if load("search.depth_first_c") is None:
        pytest.skip("the compiled search was not built")
    one, other = some_search(seed), some_search(seed)
    for _ in range(40):
        status = one.run(nodes)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(SWITCH, "1")
            assert other.run(nodes) is status
        np.testing.assert_array_equal(one.control, other.control)
        depth = int(one.control[0]) + 1
        np.testing.assert_array_equal(one.cursor[:depth], other.cursor[:depth])
        np.testing.assert_array_equal(one.left[:depth], other.left[:depth])
        if status is Status.EXHAUSTED:
            break


def test_a_raised_floor_cuts_the_rows_of_values_too(road: str) -> None:
    search = DepthFirst.begin(
        np.array([0, 2, 4]),
        np.array([[0, 1], [3, 0], [0, 1], [2, 0]]),
        np.array([5, 2]),
        np.array([3, 0, 2, 0]),
        -1,
    )
    assert search.run(100) is Status.FOUND
    assert search.leaf.tolist() == [0, 2]
    search.raise_floor(5, np.array([5, 0]))  # nothing is worth more: row 0 has nothing to lose any more
    nodes = search.nodes
    assert search.run(100) is Status.EXHAUSTED
    assert search.nodes - nodes <= 2, road


def test_wrong_arrays_are_refused_not_read() -> None:
    compiled = load("search.depth_first_c")
    if compiled is None:
        pytest.skip("the compiled search was not built")
    good = some_search(1)
    arrays = [good.offsets, good.costs, good.worth, good.left, good.earned, good.cursor, good.control]
    for place in range(len(arrays)):
        short = [array[:-1].copy() if k == place else array.copy() for k, array in enumerate(arrays)]
        with pytest.raises(ValueError, match=r"do not fit together|outside the options"):
            compiled.run(*short)
    for wild in (-1, 10**6):
        cursor = good.cursor.copy()
        cursor[0] = wild
        with pytest.raises(ValueError, match="outside the options"):
            compiled.run(*arrays[:5], cursor, arrays[6])


def test_every_compiled_part_is_named_and_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "1")
    assert [load(name) for name in NAMES] == [None] * len(NAMES)


def test_a_part_older_than_its_source_is_told_and_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """It used to end as a TypeError in the middle of a search."""
    if load("search.depth_first_c") is None:
        pytest.skip("the compiled search was not built")
    name = "apportion.solvers.search.depth_first_c"
    assert not outdated(sys.modules[name])
    older = ModuleType(name, "00000000")
    older.__file__ = sys.modules[name].__file__
    assert outdated(older)
    monkeypatch.setitem(sys.modules, name, older)
    with pytest.warns(RuntimeWarning, match=r"search\.depth_first_c was built from another version"):
        assert import_compiled("search.depth_first_c") is None


def test_a_part_without_its_source_beside_it_is_used(tmp_path: Path) -> None:
    """Wheels hold no C files."""
    alone = ModuleType("apportion.solvers.search.depth_first_c", "00000000")
    alone.__file__ = str(tmp_path / "depth_first_c.abi3.so")
    assert not outdated(alone)


def test_a_stored_search_goes_on_where_it_was(road: str) -> None:
    for seed in range(40):
        search = some_search(seed)
        status = search.run(5)
        again = pickle.loads(pickle.dumps(search))
        for _ in range(30):
            if status is Status.EXHAUSTED:
                break
            status = search.run(7)
            assert again.run(7) is status, (road, seed)
            np.testing.assert_array_equal(search.control, again.control)
            np.testing.assert_array_equal(search.cursor, again.cursor)
