"""The verified bound: which multipliers are usable, what is rounded outward, and when there is none."""

from __future__ import annotations

import math
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.solving.judge import certified_bound, outward, usable


@given(st.fractions(), st.booleans())
def test_outward_is_the_nearest_double_on_the_safe_side(exact: Fraction, upper: bool) -> None:
    told = outward(exact, upper=upper)
    inner = math.nextafter(told, -math.inf if upper else math.inf)
    assert (
        (Fraction(told) >= exact > Fraction(inner)) if upper else (Fraction(told) <= exact < Fraction(inner))
    )


def test_outward_leaves_a_double_as_it_is_and_moves_what_none_holds() -> None:
    assert outward(Fraction(3, 4), upper=True) == outward(Fraction(3, 4), upper=False) == 0.75
    for third in (Fraction(1, 3), Fraction(2, 3), Fraction(-1, 3), Fraction(-2, 3)):
        assert Fraction(outward(third, upper=False)) < third < Fraction(outward(third, upper=True))


@pytest.mark.parametrize(
    "multipliers",
    [
        None,
        [1.0, 2.0],
        np.array([1, 2]),
        np.array([1.0, 2.0], dtype=np.float32),
        np.array([1.0]),
        np.array([[1.0, 2.0]]),
        np.array([1.0, np.nan]),
        np.array([np.inf, 1.0]),
        np.array([-5e-324, 1.0]),
        np.array([1.0, -1.0]),
    ],
    ids=repr,
)
def test_what_is_no_price_for_every_capacity_is_not_used(multipliers: Any) -> None:
    assert not usable(multipliers, 2)
    assert bound(multipliers, quick=1.0) is None


@pytest.mark.parametrize("prices", [[0.0, 0.0], [0.5, 0.0], [1e300, 5e-324]])
def test_prices_of_nothing_or_very_much_are_used(prices: list[float]) -> None:
    assert usable(np.array(prices), 2)
    assert bound(np.array(prices), quick=1.0) == 1.0


def bound(
    multipliers: Any, quick: float | None = None, exact: Fraction | None = None, upper: bool = True
) -> float | None:
    """Return the bound of two capacities, whose closed form says `quick` and whose fractions say `exact`."""
    asked: list[Any] = []

    def exactly(instance: Any, named: Any) -> Fraction | None:
        asked.append(named)
        return exact

    kind: Any = SimpleNamespace(exact_bound=exactly, maximizes=lambda instance: upper)
    structure: Any = SimpleNamespace(capacity_names=("a", "b"), bound=lambda multipliers: quick)
    told = certified_bound(kind, None, structure, multipliers)
    assert asked in ([], [{"a": 1.0, "b": 2.0}])
    assert not (asked and quick is not None)
    return told


def test_fractions_are_asked_where_the_closed_form_would_show_its_rounding() -> None:
    prices = np.array([1.0, 2.0])
    third = Fraction(1, 3)
    assert bound(prices, quick=7.0, exact=Fraction(5)) == 7.0
    assert bound(prices, exact=third) == outward(third, upper=True)
    assert bound(prices, exact=third, upper=False) == outward(third, upper=False)
    assert bound(prices, exact=None) is None
    assert bound(prices, exact=Fraction(0)) == 0.0
    assert bound(prices, exact=-third) == outward(-third, upper=True)


def test_a_bound_that_no_double_holds_is_none() -> None:
    prices = np.array([1.0, 2.0])
    assert bound(prices, exact=Fraction(10**300)) is not None
    assert bound(prices, exact=Fraction(-(10**300))) is not None
    assert bound(prices, exact=Fraction(10**300 + 1)) is None
    assert bound(prices, exact=Fraction(-(10**400))) is None
