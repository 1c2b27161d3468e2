"""Neighbours never look alike, and a job keeps its colour where it can."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from apportion.draw.svg import COLORS, color, neighbourly


@given(st.integers(1, 60).flatmap(lambda jobs: st.tuples(st.just(jobs), st.permutations(range(jobs)))))
def test_two_orders_never_put_the_same_colour_side_by_side(drawn: tuple[int, list[int]]) -> None:
    jobs, order = drawn
    rows = [list(range(jobs)), order]  # at most four neighbours, fewer than there are colours
    fills = neighbourly(jobs, rows)
    assert all(fills[one] != fills[other] for row in rows for one, other in pairwise(row))
    assert set(fills) <= set(COLORS)


def test_a_job_without_such_a_neighbour_keeps_its_place_in_the_list() -> None:
    assert neighbourly(20, [list(range(20))]) == [color(job) for job in range(20)]
    jobs = len(COLORS) + 1
    first, last = (neighbourly(jobs, [[0, jobs - 1]])[job] for job in (0, jobs - 1))
    assert first == color(0) and last != first
