"""Bounds of relaxed rows hold of every choice, and what they drop is in none above the threshold."""

from __future__ import annotations

from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.suite.making import make
from hypothesis import given, settings
from hypothesis import strategies as st

import apportion
from apportion.instances.readers import read_text
from apportion.proofs import relaxed_rows, verify
from apportion.proofs.certificate import decode, encode
from apportion.proofs.integer_menus import IntegerMenus, integer_menus
from apportion.proofs.reducing import rooted
from apportion.proofs.relaxed_rows import row_bounds, slacks_of_options
from apportion.proofs.verifying import Limits
from apportion.proofs.walking import walk
from tests.budgets import examples
from tests.proofs import naive


@st.composite
def menus(draw: st.DrawFn) -> IntegerMenus:
    """Up to four jobs and three capacities; options use none, one or several of them."""
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    width, rows = draw(st.integers(0, 3)), sum(sizes)
    uses = draw(
        st.lists(st.sampled_from([0, 0, 0, 2, 3, 4, 6]), min_size=rows * width, max_size=rows * width)
    )
    worths = draw(st.lists(st.integers(-9, 9), min_size=rows, max_size=rows))
    capacities = draw(st.lists(st.integers(0, 9), min_size=width, max_size=width))
    return integer_menus(
        np.array(worths), np.array(uses).reshape(rows, width), sizes, capacities, draw(st.integers(-20, 20))
    )


def choices(given: IntegerMenus) -> list[tuple[tuple[int, ...], int, np.ndarray]]:
    """Return every choice that fits: its rows, its worth, what it leaves."""
    ranges = [range(*given.offsets[job : job + 2]) for job in range(given.num_jobs)]
    found = []
    for rows in product(*ranges):
        left = given.capacities - given.uses[list(rows)].sum(axis=0)
        if (left >= 0).all():
            found.append((rows, int(given.worths[list(rows)].sum()), left))
    return found


@given(menus(), st.lists(st.integers(-12, 12), min_size=4, max_size=4), st.randoms())
@settings(max_examples=examples(300))
def test_no_choice_exceeds_what_rows_say_of_it_at_any_depth(
    given: IntegerMenus, numbers: list[int], random: object
) -> None:
    own = numbers[: given.num_jobs]
    best = np.maximum.reduceat(given.worths, given.offsets[:-1])
    losses = np.repeat(best, np.diff(given.offsets)) - given.worths
    slack = int(best.sum()) - given.threshold - 1
    order = np.array(sorted(range(given.num_jobs), key=lambda job: (own[job], job)))
    bounds = row_bounds(given, own, best, order)
    whole = zip(given.worths.tolist(), given.uses.tolist(), strict=True)
    options = [(worth, uses, None) for worth, uses in whole]
    by_job = [options[first:last] for first, last in pairwise(given.offsets.tolist())]
    naively = naive.relaxed(by_job, order.tolist(), own)
    of_options = slacks_of_options(given, own, losses, slack)
    for row in np.flatnonzero((given.uses <= given.capacities).all(axis=1)).tolist():
        decided = int(np.searchsorted(given.offsets, row, side="right")) - 1
        others = naive.relaxed(by_job, [job for job in order.tolist() if job != decided], own)
        left = others(0, (given.capacities - given.uses[row]).tolist())
        assert int(of_options[row]) == int(given.worths[row]) + left - given.threshold - 1
    for rows, worth, _ in choices(given):
        beyond = worth - given.threshold - 1
        assert all(of_options[row] >= beyond for row in rows)
        left, rest, taken = given.capacities.copy(), slack, 0
        for decided in range(given.num_jobs + 1):
            states = bounds.slack(decided, left.reshape(-1, 1), np.array([rest]))
            assert int(states[0]) >= beyond
            assert int(states[0]) == taken + naively(decided, left.tolist()) - given.threshold - 1
            if decided < given.num_jobs:
                row = rows[int(order[decided])]
                left, rest = left - given.uses[row], rest - int(losses[row])
                taken += int(given.worths[row])
        assert int(states[0]) == beyond


@pytest.mark.parametrize("worth", range(-2, 3))
@pytest.mark.parametrize("use", range(5))
def test_a_table_with_one_more_job_is_the_better_of_with_and_without_it(use: int, worth: int) -> None:
    table = np.array([0, 1, 3])
    found = relaxed_rows._with(table, [(0, -1), (use, worth)])
    assert [*found] == [max(table[r], table[r - use] + worth if use <= r else 0) for r in range(3)]
    assert [*table] == [0, 1, 3]


@given(menus(), st.lists(st.lists(st.integers(-12, 12), min_size=4, max_size=4), min_size=1, max_size=2))
@settings(max_examples=examples(300))
def test_a_walk_with_rows_proves_what_enumeration_finds_and_no_more(
    given: IntegerMenus, numbers: list[list[int]]
) -> None:
    root = rooted(given, [[1] * len(given.capacities)], [one[: given.num_jobs] for one in numbers])
    best = max((worth for _, worth, _ in choices(given)), default=None)
    walked = walk(root, np.arange(root.jobs.size), Limits())
    assert (walked.status == "proved") == (best is None or best <= given.threshold), walked


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("maker", ["generalised_assignment", "unrelated"])
def test_what_prices_leave_open_is_proved_by_the_rows_of_the_search(maker: str, seed: int) -> None:
    """100 jobs on 10 machines (costs of law C, or a makespan): without rows millions of states do not end."""
    arguments = {"jobs": 100, "machines": 10, "seed": seed}
    _is_proved_by_rows(make(maker, arguments, None))


@pytest.mark.one_in(7)
@pytest.mark.parametrize("name", ["fr0001", "fr0011", "fr0051", "fr0061", "fr0201", "fr0401", "fr0601"])
def test_published_makespans_are_proved_by_the_rows_of_the_search(name: str, data: Path) -> None:
    """100 or 200 jobs on 10 or 20 machines: the prices of the last decision without a plan are at hand."""
    _is_proved_by_rows(read_text((data / f"or/rcmax/{name}.txt").read_bytes(), "rcmax"))


def _is_proved_by_rows(instance: Any) -> None:
    solution = apportion.solve(instance, proof=True, time_limit=60.0)
    assert solution.evidence == "by_proof" and solution.proof is not None and solution.proof.rows
    data = encode(solution.proof)
    assert decode(data) == solution.proof
    verdict = verify(solution.instance, data)
    assert verdict.proved and verdict.states < 100_000
    assert len(data) < 4_000
