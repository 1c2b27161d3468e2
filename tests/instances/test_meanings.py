"""The checkers against another reading of the same JSON: which plans keep the rules, their worth, bounds.

Instances are those of the hunt, plans are drawn good and bad; nothing here calls a solver.
"""

from __future__ import annotations

from fractions import Fraction
from random import Random
from typing import Any

import pytest

import apportion
from apportion.instances.kinds import kind_of
from tests.hunt import truth_freezing, truth_gap_filling, truth_knapsack, truth_matching
from tests.hunt.draw import KINDS
from tests.instances.meant import any_plan, defined_bound, priced, wrong_shapes

TRUTHS = {
    "gap_filling": truth_gap_filling,
    "multiple_choice_knapsack": truth_knapsack,
    "matching": truth_matching,
    "freezing": truth_freezing,
}
INSTANCES, PLANS = 150, 6


def drawn(kind: str) -> list[tuple[Random, dict[str, Any], Any]]:
    """Return instances of a kind as JSON and as the package reads them."""
    found = []
    for number in range(INSTANCES):
        rng = Random(f"meaning {kind} {number}")
        told = KINDS[kind][1](rng, None)
        try:
            found.append((rng, told, apportion.read(told)))
        except apportion.InvalidInstance:
            continue
    assert len(found) > INSTANCES / 2
    return found


@pytest.mark.parametrize("kind", TRUTHS)
def test_the_checker_passes_what_keeps_the_rules_and_nothing_else(kind: str) -> None:
    passed = refused = 0
    for rng, told, instance in drawn(kind):
        meaning = kind_of(instance)
        for _ in range(PLANS):
            plan = any_plan(rng, told)
            report, worth = meaning.check(instance, plan), TRUTHS[kind].worth(told, plan)
            assert report.feasible is (worth is not None), (told, plan, report)
            if worth is None:
                refused += 1
                assert report.violations
                continue
            passed += 1
            assert report.objective is not None
            assert abs(Fraction(report.objective) - worth) <= Fraction(1, 10**12) * abs(worth), (told, plan)
            assert meaning.exact_objective(instance, plan) == worth, (told, plan)
    assert passed > 100 and refused > 100, (passed, refused)


@pytest.mark.parametrize("kind", TRUTHS)
def test_what_is_no_plan_is_refused_and_worth_nothing(kind: str) -> None:
    instance = drawn(kind)[0][2]
    for shape in wrong_shapes(kind):
        report = kind_of(instance).check(instance, shape)
        assert not report.feasible and report.objective is None, shape


@pytest.mark.parametrize("kind", TRUTHS)
def test_the_bound_is_the_one_that_weak_duality_defines(kind: str) -> None:
    bounded = 0
    for rng, told, instance in drawn(kind):
        if told.get("objective") == "makespan":
            continue
        meaning = kind_of(instance)
        names = list(_capacities(told))
        for _ in range(3):
            prices = priced(rng, names)
            bound = meaning.exact_bound(instance, prices)
            assert bound == defined_bound(told, prices), (told, prices)
            bounded += bound is not None
    assert bounded > 100


@pytest.mark.parametrize("kind", TRUTHS)
def test_prices_that_are_none_are_refused(kind: str) -> None:
    refused = 0
    for _, told, instance in drawn(kind)[:40]:
        if told.get("objective") == "makespan":
            continue
        names = list(_capacities(told))
        good = dict.fromkeys(names, 0.0)
        kind_of(instance).exact_bound(instance, good)
        wrong: list[dict[str, Any]] = [{**good, "nothing": 1.0}]
        for name in names:
            wrong += [{**good, name: price} for price in (-1.0, -5e-324, float("nan"), float("inf"))]
            wrong.append({other: 0.0 for other in names if other != name})
        if kind != "matching":
            wrong += [{**good, name: price} for name in names[:1] for price in (True, "1")]
        for prices in wrong:
            with pytest.raises(apportion.InvalidInstance):
                kind_of(instance).exact_bound(instance, prices)
            refused += 1
    assert refused > 100


def _capacities(told: dict[str, Any]) -> list[str]:
    if told["kind"] == "gap_filling":
        return ["idle_nodes"]
    if told["kind"] == "multiple_choice_knapsack":
        return list(told["capacities"])
    if told["kind"] == "matching":
        return [machine["id"] for machine in told["machines"] if machine.get("capacity") is not None]
    return [*told["gpus"], *(["frozen_penalty"] if told.get("penalty_cap_millionths") is not None else [])]
