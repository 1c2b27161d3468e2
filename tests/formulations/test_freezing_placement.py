"""Placement: rules kept, feasible exactly where brute force says so, and as few moves as possible."""

from __future__ import annotations

from itertools import combinations, product

from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.formulations.freezing.placement import place

Nodes = dict[str, tuple[int, ...]]


def _valid(num_nodes: int, per_node: int, gpus: dict[str, int], nodes: Nodes) -> bool:
    used = [0] * num_nodes
    for job, count in gpus.items():
        if len(set(nodes[job])) != max(1, count // per_node):
            return False
        for node in nodes[job]:
            used[node] += min(count, per_node)
    return all(taken <= per_node for taken in used)


def _fewest_moves(num_nodes: int, per_node: int, gpus: dict[str, int], current: Nodes) -> int | None:
    choices = [list(combinations(range(num_nodes), max(1, count // per_node))) for count in gpus.values()]
    best: int | None = None
    for told in product(*choices):
        nodes = dict(zip(gpus, told, strict=True))
        if _valid(num_nodes, per_node, gpus, nodes):
            moves = sum(set(nodes[job]) != set(current[job]) for job in gpus if job in current)
            best = moves if best is None else min(best, moves)
    return best


@given(st.data())
@settings(max_examples=200)
def test_it_is_as_good_as_brute_force(data: st.DataObject) -> None:
    num_nodes, per_node = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 4))
    counts = [*range(1, per_node + 1), *range(2 * per_node, num_nodes * per_node + 1, per_node)]
    gpus = {f"j{i}": data.draw(st.sampled_from(counts)) for i in range(data.draw(st.integers(0, 5)))}
    current: Nodes = {}
    for job, count in gpus.items():
        size = max(1, count // per_node)
        if size <= num_nodes and data.draw(st.booleans()):
            current[job] = data.draw(st.sampled_from(list(combinations(range(num_nodes), size))))
    found = place(num_nodes, per_node, gpus, current)
    fewest = _fewest_moves(num_nodes, per_node, gpus, current)
    assert (found is None) == (fewest is None)
    if found is not None:
        assert set(found) == set(gpus) and _valid(num_nodes, per_node, gpus, found)
        assert sum(set(found[job]) != set(current[job]) for job in current) == fewest


@given(st.lists(st.sampled_from([1, 2, 4, 8, 16, 24]), max_size=40), st.integers(1, 16))
def test_powers_of_two_and_whole_nodes_fit_wherever_their_sum_does(counts: list[int], num_nodes: int) -> None:
    gpus = {f"j{i:02d}": count for i, count in enumerate(counts)}
    found = place(num_nodes, 8, gpus)
    assert (found is not None) == (sum(counts) <= 8 * num_nodes)
    assert found is None or _valid(num_nodes, 8, gpus, found)


def test_nobody_moves_without_need_and_whole_nodes_are_kept_free() -> None:
    current: Nodes = {"a": (2,), "b": (1,)}
    assert place(3, 4, {"a": 2, "b": 2, "c": 1}, current) == {"a": (2,), "b": (1,), "c": (1,)}
    moved = place(3, 4, {"a": 2, "b": 2, "c": 8}, current)
    assert moved is not None and len({moved["a"], moved["b"]}) == 1
    assert moved["a"] == (2,) or moved["b"] == (1,)
    assert place(2, 4, {"a": 6}) is None
    assert place(2, 4, {"a": 3, "b": 3, "c": 2}) is None


def test_many_jobs_are_placed_quickly_enough_to_be_a_round() -> None:
    gpus = {f"j{i:04d}": (1, 2, 4, 8, 16)[i % 5] for i in range(600)}
    total = sum(gpus.values())
    first = place(-(-total // 8), 8, gpus)
    assert first is not None and _valid(-(-total // 8), 8, gpus, first)
    assert place(-(-total // 8), 8, gpus, first) == first
