"""The tree that the exact search hands out: walked again in fractions, it leaves nothing open."""

from __future__ import annotations

from fractions import Fraction

import pytest
from tests.solvers.multiknapsack.test_several_capacities import random_mmkp

from apportion.core.options import SolveOptions
from apportion.core.outcome import SearchTree, Termination
from apportion.models import MultipleChoiceKnapsack
from apportion.solvers.multiknapsack.several_capacities import solve


def leaves_left_open(model: MultipleChoiceKnapsack, tree: SearchTree, best: Fraction) -> tuple[int, int]:
    """Return how many choices better than `best` the tree reaches, and the nodes it takes."""
    options = [
        [
            (Fraction(0), [0] * model.num_capacities),
            *(
                (Fraction(float(model.values[row])), model.uses[row].tolist())
                for row in range(model.offsets[job], model.offsets[job + 1])
            ),
        ][int(model.required[job]) :]
        for job in tree.order.tolist()
    ]
    vectors = [[int(price) * tree.unit for price in prices] for prices in tree.prices]

    def paid(prices: list[Fraction], uses: list[int]) -> Fraction:
        return sum((price * use for price, use in zip(prices, uses, strict=True)), Fraction(0))

    # what the jobs from each one on are worth at most at every vector of prices
    above = [[Fraction(0)] * len(vectors)]
    for menu in reversed(options):
        tops = [max(value - paid(prices, uses) for value, uses in menu) for prices in vectors]
        above.append([a + b for a, b in zip(above[-1], tops, strict=True)])
    above.reverse()
    nodes = found = 0

    def walk(job: int, value: Fraction, left: list[int]) -> None:
        nonlocal nodes, found
        nodes += 1
        if min(left) < 0:
            return
        bounds = (value + paid(prices, left) + top for prices, top in zip(vectors, above[job], strict=True))
        if min(bounds) <= best:
            return
        if job == len(options):
            found += value > best
            return
        for worth, uses in options[job]:
            walk(job + 1, value + worth, [have - use for have, use in zip(left, uses, strict=True)])

    walk(0, Fraction(0), model.capacities.tolist())
    return found, nodes


@pytest.mark.parametrize("seed", range(6))
def test_the_tree_leaves_nothing_open(seed: int) -> None:
    model = random_mmkp(8, 4, 3, seed, required=bool(seed % 2))
    outcome = solve(model, SolveOptions(deterministic=True))  # turns by work, not by the clock
    assert outcome.termination is Termination.OPTIMAL and outcome.objective is not None
    if outcome.tree is None:  # the multipliers proved it already
        assert outcome.counters["nodes"] == 0
        return
    assert (outcome.tree.prices >= 0).all()
    assert sorted(outcome.tree.order.tolist()) == list(range(model.num_jobs))
    found, nodes = leaves_left_open(model, outcome.tree, Fraction(outcome.objective))
    assert found == 0
    assert nodes < 4 * max(outcome.tree.nodes, 100)
    below = leaves_left_open(model, outcome.tree, Fraction(outcome.objective) - 1)
    assert below[0] > 0
