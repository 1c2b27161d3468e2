"""KAI's division: figures worked out by hand, and what holds for every division, past usage included."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.cluster.policies.rounds.kai_queues import KaiQueue, divided, divided_over_quota
from apportion.core.errors import InvalidOption
from tests.budgets import examples

QUEUES = st.lists(
    st.builds(
        KaiQueue,
        id=st.just("q"),
        deserved=st.none() | st.integers(0, 10),
        request=st.integers(0, 20) | st.fractions(0, 20, max_denominator=4),
        limit=st.none() | st.integers(0, 20),
        weight=st.integers(0, 4),
        usage=st.fractions(0, 1, max_denominator=10),
        priority=st.integers(0, 2),
        created=st.integers(0, 2),
    ),
    max_size=5,
).map(lambda queues: [KaiQueue(f"q{n}", *_rest(queue)) for n, queue in enumerate(queues)])
SENSITIVITY = st.sampled_from([0, 1, 2, Fraction(1, 2)])


def _rest(queue: KaiQueue) -> tuple[object, ...]:
    names = ("deserved", "request", "limit", "weight", "usage", "priority", "created")
    return tuple(getattr(queue, name) for name in names)


def test_remainders_go_to_the_largest_then_the_earliest() -> None:
    queues = [KaiQueue(name, 0, 9, weight=1, created=created) for name, created in (("a", 2), ("b", 1))]
    assert divided(queues, 5).shares == (2, 3)
    weighted = [KaiQueue("a", 0, 9, weight=1), KaiQueue("b", 0, 9, weight=2)]
    assert divided(weighted, 4).shares == (1, 3)


def test_priority_goes_before_weight() -> None:
    queues = [KaiQueue("low", 1, 9, weight=9), KaiQueue("high", 1, 6, weight=1, priority=1)]
    division = divided(queues, 8)
    assert division.shares == (2, 6)
    assert division.left == 0


def test_past_usage_counts_against_a_queue() -> None:
    queues = [KaiQueue("heavy", 0, 99, weight=1, usage=1), KaiQueue("light", 0, 99, weight=1, usage=0)]
    assert divided(queues, 10, sensitivity=0).shares == (5, 5)
    assert divided(queues, 10, sensitivity=1).shares == (0, 10)
    # effective weights 1/2 + 1/2 * (1/2 - 1) = 1/4 and 1/2 + 1/2 * 1/2 = 3/4
    assert divided(queues, 8, sensitivity=Fraction(1, 2)).shares == (2, 6)


def test_deserved_shares_may_exceed_the_total() -> None:
    assert divided([KaiQueue("a", 3, 3), KaiQueue("b", 3, 3)], 4).shares == (3, 3)


def test_a_negative_amount_is_named() -> None:
    with pytest.raises(InvalidOption, match="request must be 0 or more"):
        divided([KaiQueue("a", 1, -1)], 4)


@settings(max_examples=examples(40))
@given(QUEUES, st.integers(0, 40), SENSITIVITY)
def test_nothing_is_lost_and_nobody_gets_more_than_a_piece_beyond_what_it_asks(
    queues: list[KaiQueue], total: int, sensitivity: Fraction
) -> None:
    division = divided(queues, total, sensitivity)
    deserved = [min(total if q.deserved is None else q.deserved, q.request) for q in queues]
    asked = [q.request if q.limit is None else min(q.limit, q.request) for q in queues]
    for share, least, ask in zip(division.shares, deserved, asked, strict=True):
        assert share >= min(least, ask)
        assert share < ask + 1
    assert division.left >= 0
    if division.left or sum(division.shares) <= total:
        first = sum(min(least, ask) for least, ask in zip(deserved, asked, strict=True))
        if first < total:
            assert sum(division.shares) + division.left == total


@settings(max_examples=examples(40))
@given(QUEUES, st.integers(0, 40), SENSITIVITY, st.randoms())
def test_the_order_of_queues_changes_nothing(
    queues: list[KaiQueue], total: int, sensitivity: Fraction, random: object
) -> None:
    shuffled = list(queues)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    one, other = divided(queues, total, sensitivity), divided(shuffled, total, sensitivity)
    assert dict(zip((q.id for q in queues), one.shares, strict=True)) == dict(
        zip((q.id for q in shuffled), other.shares, strict=True)
    )


@settings(max_examples=examples(40))
@given(QUEUES, st.integers(1, 40))
def test_the_division_is_its_second_stage_after_the_deserved(queues: list[KaiQueue], total: int) -> None:
    base = divided([KaiQueue(q.id, *_rest(q)[:3], weight=0) for q in queues], total)
    whole = divided(queues, total)
    if base.left > 0:
        assert divided_over_quota(queues, base.shares, base.left) == whole
