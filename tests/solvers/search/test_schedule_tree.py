"""Schedules of one pool: against enumeration of all lists, both roads node by node, stopped and resumed."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from numpy.typing import NDArray

from apportion.models.packing import pack
from apportion.solvers.compiled import SWITCH, load
from apportion.solvers.search.depth_first import Status
from apportion.solvers.search.schedule_tree import ScheduleTree


def drawn(seed: int, most: int = 5) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Return times, widths and the machines of a pool."""
    rng = np.random.default_rng(seed)
    jobs, count = int(rng.integers(1, most + 1)), int(rng.integers(1, 6))
    times = rng.integers(1, int(rng.choice([4, 12, 1000])), jobs)
    return times, rng.integers(1, count + 1, jobs), count


def least(times: NDArray[np.int64], widths: NDArray[np.int64], count: int) -> int:
    """Return the least makespan: that of some list."""
    lists = itertools.permutations(range(times.size))
    return min(int(pack(times.astype(np.float64), widths, count, np.array(turns))[2]) for turns in lists)


def holds(tree: ScheduleTree, times: NDArray[np.int64], widths: NDArray[np.int64], count: int) -> bool:
    """Whether no moment has more machines held than there are."""
    starts = tree.starts
    return all(
        int(widths[(starts <= now) & (now < starts + times)].sum()) <= count for now in starts.tolist()
    )


def test_neither_road_misses_a_schedule(road: str) -> None:
    for seed in range(300):
        times, widths, count = drawn(seed)
        best = least(times, widths, count)
        within = ScheduleTree.begin(times, widths, count, best)
        assert within.run(10**6) is Status.FOUND, seed
        assert holds(within, times, widths, count)
        assert int((within.starts + times).max()) <= best
        assert ScheduleTree.begin(times, widths, count, best - 1).run(10**6) is Status.EXHAUSTED, seed


def test_both_roads_visit_the_same_nodes_also_when_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    if load("search.schedule_tree_c") is None:
        pytest.skip("the compiled search was not built")
    for seed in range(60):
        times, widths, count = drawn(seed, most=9)
        length = -(-int((times * widths).sum()) // count) + int(times.max()) // 8
        monkeypatch.setenv(SWITCH, "0")
        whole = ScheduleTree.begin(times, widths, count, length)
        ended = whole.run(20_000)
        monkeypatch.setenv(SWITCH, "1")
        parts = ScheduleTree.begin(times, widths, count, length)
        status = Status.OUT_OF_NODES
        while status is Status.OUT_OF_NODES and parts.nodes < 20_000:
            parts = pickle.loads(pickle.dumps(parts))
            status = parts.run(min(7, 20_000 - parts.nodes))
        assert (status, parts.nodes) == (ended, whole.nodes), seed
        assert np.array_equal(parts.end, whole.end)
        assert np.array_equal(parts.control[[0, 3]], whole.control[[0, 3]])


def test_one_job_and_a_length_that_is_too_short(road: str) -> None:
    one, wide = np.array([5]), np.array([3])
    assert ScheduleTree.begin(one, wide, 4, 5).run(10) is Status.FOUND
    assert ScheduleTree.begin(one, wide, 4, 4).run(10) is Status.EXHAUSTED
    two = np.array([5, 5])
    assert ScheduleTree.begin(two, np.array([3, 3]), 4, 9).run(100) is Status.EXHAUSTED
    assert ScheduleTree.begin(two, np.array([3, 3]), 4, 10).run(100) is Status.FOUND


def test_arrays_that_do_not_fit_together_are_refused() -> None:
    compiled = load("search.schedule_tree_c")
    if compiled is None:
        pytest.skip("the compiled search was not built")
    tree = ScheduleTree.begin(np.array([2, 3]), np.array([1, 1]), 2, 4)
    with pytest.raises(ValueError, match="do not fit together"):
        compiled.run(tree.times, tree.widths, tree.end[:1].copy(), tree.level, tree.control)
    tree.level[0, 3] = 9
    with pytest.raises(ValueError, match="outside the jobs"):
        compiled.run(tree.times, tree.widths, tree.end, tree.level, tree.control)
