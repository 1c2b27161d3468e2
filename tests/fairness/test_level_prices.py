"""Levels of a cluster of many tenants are found and proved by walks and prices, hardly ever by a search."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.budgets import examples

import apportion
from apportion.fairness.fair_solve import shared_out
from apportion.fairness.prices import SharePrices
from apportion.fairness.share_holders import LevelRequirement, ShareHolder
from apportion.formulations.tenants import TenantedMenus
from apportion.instances.multiple_choice_knapsack.generator import generate_tenants
from apportion.instances.tenants.schema import Fairness
from apportion.solving import registry
from apportion.solving.pipeline import compiled


def test_every_level_of_forty_tenants_is_proved_and_nearly_no_question_is_searched() -> None:
    instance = generate_tenants(1, 200, 40, 192, Fairness())
    menus = compiled(instance, registry.formulation("multiple_choice_knapsack", None))
    assert isinstance(menus, TenantedMenus)
    asked = list[Any]()

    def ask(model: Any) -> apportion.Solution:
        asked.append(model)
        return apportion.solve(model, deterministic=True, work_limit=1e7)

    sharing = shared_out(instance, menus, ask, lambda: None)
    assert sharing.levels
    assert all(level.evidence == "by_search" and level.bound == level.share for level in sharing.levels)
    assert len(asked) <= 4
    report = apportion.check(instance, sharing.plan)
    assert report.feasible, report.violations


def test_heights_beyond_64_bits_are_priced() -> None:
    """Prices that a level of hostile shares was asked at ended the call in an `OverflowError`."""
    holders = [ShareHolder("x", ("a",), Fraction(1)), ShareHolder("y", ("b",), Fraction(1))]
    rows = [np.array([0]), np.array([1])]
    uses, share = np.array([[2], [3]]), np.array([1 << 61, 1 << 61])
    owner = np.array([0, 1])
    prices = SharePrices(holders, rows, uses, share, owner, np.array([4]), [np.array([True])])
    higher = dict.fromkeys(holders, 1 << 70)
    assert prices.refuted(higher)
    assert prices.most_rising({}, [], higher) < 2
    assert not prices.refuted(dict.fromkeys(holders, 1))


def test_capacities_of_nearly_64_bits_are_priced() -> None:
    """A step of what two of them cost is no 64-bit number: tables of it ended the call in an error."""
    holder = ShareHolder("x", ("a", "b"), Fraction(1))
    uses, share, room = np.array([[10**18], [10**18]]), np.array([3, 3]), np.array([10**18])
    prices = SharePrices(
        [holder], [np.array([0, 1])], uses, share, np.array([0, 1]), room, [np.array([True])]
    )
    assert prices.refuted({holder: 4})
    assert not prices.refuted({holder: 3})
    both = [np.array([True, True])]
    two, rooms = np.repeat(uses, 2, axis=1), np.repeat(room, 2)
    prices = SharePrices([holder], [np.array([0, 1])], two, share, np.array([0, 1]), rooms, both)
    assert not prices.refuted_by_jobs({holder: 3})


_OPTION = st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(0, 9))


@settings(max_examples=examples(150), deadline=None)
@given(
    st.lists(st.lists(_OPTION, min_size=1, max_size=3), min_size=4, max_size=4),
    st.tuples(st.integers(1, 15), st.integers(0, 15)),
    st.tuples(st.integers(0, 18), st.integers(0, 18)),
    st.integers(0, 9),
)
def test_what_is_refuted_cannot_be_reached_and_on_one_capacity_all_else_can(
    menus: list[list[tuple[int, int, int]]], rooms: tuple[int, int], due: tuple[int, int], more: int
) -> None:
    """Two holders of two jobs each, one of whom has more than is due, against all choices."""
    holders = [ShareHolder("x", ("a", "b"), Fraction(1)), ShareHolder("y", ("c", "d"), Fraction(1))]
    options = np.array([option for menu in menus for option in menu])
    owner = np.repeat(np.arange(4), [len(menu) for menu in menus])
    rows = [np.flatnonzero(owner < 2), np.flatnonzero(owner >= 2)]
    for number in (1, 2):
        room, uses = np.array(rooms[:number]), options[:, :number]
        own = [np.ones(number, dtype=np.bool_)]
        prices = SharePrices(holders, rows, uses, options[:, 2], owner, room, own)
        reached = any(
            all(sum(o[k] for o in choice) <= rooms[k] for k in range(number))
            and (lead := choice[0][2] + choice[1][2] - due[0]) >= 0
            and (other := choice[2][2] + choice[3][2] - due[1]) >= 0
            and max(lead, other) >= more
            for choice in product(*([(0, 0, 0), *menu] for menu in menus))
        )
        floors = dict(zip(holders, due, strict=True))
        one_of_them = LevelRequirement({one: floor + more for one, floor in floors.items()}, 1)
        refuted = prices.refuted(floors, [one_of_them]) or prices.refuted_by_jobs(floors, [one_of_them])
        assert not (refuted and reached)
        assert number > 1 or refuted != reached
