"""Packing: rules kept, feasible exactly where brute force says so, few moves, weights that prove."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.budgets import examples

from apportion.models.packing import NodePacking, heaviest
from apportion.solvers.packing.few_moves import (
    best_fit,
    fewest_moves,
    fewest_moves_by_cp_sat,
    is_chain,
    pack,
    violated_weights,
)


def admits(packing: NodePacking, nodes: Sequence[Sequence[int]]) -> bool:
    """Return whether nodes, per job, keep every rule."""
    if len(nodes) != len(packing.gpus):
        return False
    used: Counter[int] = Counter()
    for job, held in enumerate(nodes):
        if len(set(held)) != len(held) or len(held) != packing.needed(job):
            return False
        for node in held:
            used[node] += packing.share(job)
    return all(taken <= packing.room(node) for node, taken in used.items())


def _packing(size: int, whole: int, gpus: list[int], rest: int = 0, current: object = None) -> NodePacking:
    held = [None] * len(gpus) if current is None else current
    return NodePacking(size, whole, rest, tuple(gpus), tuple(held))  # type: ignore[arg-type]


@st.composite
def packings(draw: st.DrawFn, max_jobs: int = 5) -> NodePacking:
    """Few nodes, all but one alike, any counts, some jobs on nodes that may not suit them."""
    size, whole = draw(st.integers(1, 5)), draw(st.integers(0, 3))
    rest = draw(st.integers(0, size - 1))
    counts = [*range(1, size + 1), *range(2 * size, whole * size + 1, size)]
    gpus = draw(st.lists(st.sampled_from(counts), max_size=max_jobs))
    nodes = whole + (rest > 0)
    current = []
    for count in gpus:
        need = max(1, count // size)
        free = need <= nodes and draw(st.booleans())
        held = list(combinations(range(nodes), need)) if free else []
        current.append(draw(st.sampled_from(held)) if held else None)
    return _packing(size, whole, gpus, rest, current)


def _fewest(packing: NodePacking) -> int | None:
    """Moves of the best packing, by enumeration."""
    nodes = range(packing.whole + (packing.rest > 0))
    choices = [list(combinations(nodes, packing.needed(job))) for job in range(len(packing.gpus))]
    moves = [packing.moved(told) for told in product(*choices) if admits(packing, told)]
    return min(moves, default=None)


@given(packings())
@settings(max_examples=examples(300))
def test_it_is_as_good_as_enumeration(packing: NodePacking) -> None:
    found, fewest = pack(packing), _fewest(packing)
    assert found.proven
    if fewest is None:
        assert found.nodes is None
    else:
        assert found.nodes is not None and admits(packing, found.nodes)
        assert packing.moved(found.nodes) == fewest


@given(packings(max_jobs=6))
@settings(max_examples=examples(25))
def test_cp_sat_agrees_with_the_search(packing: NodePacking) -> None:
    stayers = [job for job in range(len(packing.gpus)) if packing.may_stay(job)]
    ours, other = fewest_moves(packing, stayers), fewest_moves_by_cp_sat(packing, stayers, None)
    assert ours.complete and other.complete
    assert (ours.nodes is None) == (other.nodes is None)
    if ours.nodes is not None and other.nodes is not None:
        assert admits(packing, ours.nodes) and admits(packing, other.nodes)
        assert packing.moved(ours.nodes) == packing.moved(other.nodes)
        used = [len({node for held in told for node in held}) for told in (ours.nodes, other.nodes)]
        assert used[0] == used[1]


@given(packings(max_jobs=8))
@settings(max_examples=examples(150))
def test_weights_show_that_nothing_fits_and_only_then(packing: NodePacking) -> None:
    weights = violated_weights(packing)
    free = _packing(packing.size, packing.whole, list(packing.gpus), packing.rest)
    fits = fewest_moves(free, []).nodes is not None
    if weights is not None:
        assert not fits
        most = heaviest(weights)
        weight = sum(
            count * (weights[size - 1] if size < packing.size else most[-1])
            for size, count in packing.sizes().items()
        )
        assert weight > packing.whole * most[-1] + most[packing.rest]
    else:
        assert fits or packing.rest  # beside nodes of one size, weights are complete for up to 15 GPUs


@pytest.mark.parametrize(
    ("size", "whole", "gpus"),
    [
        (8, 2, [5, 5, 5]),
        (8, 3, [3, 3, 3, 3, 3, 3, 3]),
        (7, 3, [4, 4, 4, 4, 2, 2]),
        (8, 3, [6, 6, 3, 3, 3, 3]),
    ],
)
def test_what_adds_up_but_does_not_fit_gets_weights(size: int, whole: int, gpus: list[int]) -> None:
    packing = _packing(size, whole, gpus)
    assert sum(gpus) <= size * whole
    found = pack(packing)
    assert found.nodes is None and found.proven and found.weights is not None


@given(st.lists(st.sampled_from([1, 2, 4, 8, 16, 24]), max_size=40), st.integers(1, 16), st.integers(0, 7))
def test_powers_of_two_fit_wherever_their_sum_does(counts: list[int], whole: int, rest: int) -> None:
    packing = _packing(8, whole, counts, rest)
    assert is_chain(packing)
    nodes = best_fit(packing, ())
    if rest == 0:
        assert (nodes is not None) == (sum(counts) <= 8 * whole)
    assert nodes is None or admits(packing, nodes)


def test_nobody_moves_without_need_and_whole_nodes_are_kept_free() -> None:
    current = [(2,), (1,), None]
    assert pack(_packing(4, 3, [2, 2, 1], current=current)).nodes == [(2,), (1,), (1,)]
    moved = pack(_packing(4, 3, [2, 2, 8], current=current)).nodes
    assert moved is not None and moved[0] == moved[1]
    assert moved[0] == (2,) or moved[1] == (1,)


def test_fragmentation_is_least_where_best_fit_misses_it() -> None:
    """Largest first fills 10-node bins as 6 3, 5 3 2, 3 2: three nodes; two suffice."""
    packing = _packing(12, 3, [6, 5, 4, 3, 3, 3])
    nodes = pack(packing).nodes
    assert nodes is not None and admits(packing, nodes)
    assert len({node for held in nodes for node in held}) == 2


def test_many_jobs_are_placed_quickly_and_stay() -> None:
    gpus = [(1, 2, 4, 8, 16)[i % 5] for i in range(600)]
    whole = -(-sum(gpus) // 8)
    first = pack(_packing(8, whole, gpus)).nodes
    assert first is not None
    again = _packing(8, whole, gpus, current=first)
    assert admits(again, first) and pack(again).nodes == first


def test_many_jobs_that_have_to_move_are_few_on_cp_sat() -> None:
    """Forty nodes with one 2-GPU job each, of which ten must become free."""
    gpus, held = [2] * 40 + [40], [(node,) for node in range(40)]
    packing = _packing(4, 40, gpus, current=[*held, None])
    found = pack(packing)
    assert found.nodes is not None and admits(packing, found.nodes)
    assert found.proven and packing.moved(found.nodes) == 10


def test_a_large_cluster_of_odd_counts_is_decided() -> None:
    gpus = [3, 5, 6, 7, 2] * 40
    packing = _packing(8, 125, gpus)
    found = pack(packing)
    assert found.proven
    assert found.nodes is None or admits(packing, found.nodes)
    fits = pack(_packing(8, 140, gpus))
    assert fits.nodes is not None
