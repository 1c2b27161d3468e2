"""Levels of a cluster of many tenants are found and proved by walks and prices, hardly ever by a search."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

import apportion
from apportion.fairness.fair_solve import shared_out
from apportion.fairness.prices import SharePrices
from apportion.fairness.share_holders import ShareHolder
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
    prices = SharePrices(holders, rows, uses, share, np.array([4]), [np.array([True])])
    higher = dict.fromkeys(holders, 1 << 70)
    assert prices.refuted(higher)
    assert prices.most_rising({}, [], higher) < 2
    assert not prices.refuted(dict.fromkeys(holders, 1))
