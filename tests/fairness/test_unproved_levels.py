"""A call is not optimal where a limit left levels or guarantees open: the word is about all that is due."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from msgspec import UNSET
from tests.budgets import examples
from tests.hunt.draw_tenants import placement_of_tenants
from tests.proofs.claims import KINDS

import apportion
from apportion.core.outcome import Termination
from apportion.fairness import fair_solve
from apportion.fairness.level_model import Placing
from apportion.instances import MultipleChoiceKnapsackInstance
from apportion.instances.kinds import kind_of
from apportion.instances.tenants.ledger import under_floors
from apportion.solving.pipeline import solved

PROVED = ("optimal", "gap_reached", "infeasible")


@pytest.mark.parametrize("number", range(12))
def test_unproved_levels_are_not_called_optimal(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under limits of milliseconds 83 of 1,680 answers were optimal beside a note that levels are open."""
    instance = KINDS["tenants"].case(Random(f"unproved levels {number}"))
    whole = apportion.solve(instance)
    monkeypatch.setattr(Placing, "late", lambda _: True)
    cut_off = apportion.solve(instance)
    open_levels = any(level.evidence is None for level in cut_off.levels)
    assert open_levels == any("not proved before a limit" in note for note in cut_off.notes)
    if open_levels:
        assert cut_off.termination.value == "time_limit" and cut_off.evidence is None
        assert whole.termination.value in PROVED and cut_off.plan is not None
    else:
        assert cut_off.termination is whole.termination


def test_unproved_levels_of_trees_apart_are_not_called_optimal(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs: list[Any] = [
        {
            "id": f"{leaf}{at}",
            "tenant": leaf,
            "options": [{"id": "x", "value": 2.0 + at, "uses": {"gpu": 1}}],
        }
        for leaf in "abcd"
        for at in range(3)
    ]
    tenants: list[Any] = [
        {"id": top, "quotas": {"gpu": {"guarantee": 2, "borrowing_limit": 0}}} for top in ("p", "q")
    ] + [{"id": leaf, "parent": "p" if leaf in "ab" else "q"} for leaf in "abcd"]
    document = {
        "kind": "multiple_choice_knapsack",
        "schema_version": "1",
        "sense": "maximize",
        "capacities": {"gpu": 4},
        "jobs": [{**job, "required": False} for job in jobs],
        "tenants": tenants,
        "fairness": {},
    }
    instance = apportion.read(document)
    assert isinstance(instance, MultipleChoiceKnapsackInstance)
    whole = apportion.solve(instance)
    assert whole.termination.value == "optimal" and "one by one" in whole.reason
    monkeypatch.setattr(Placing, "late", lambda _: True)
    cut_off = apportion.solve(instance)
    assert any(level.evidence is None for level in cut_off.levels)
    assert cut_off.termination.value == "time_limit" and cut_off.evidence is None


def test_a_guarantee_that_a_limit_left_open_is_not_called_optimal(monkeypatch: pytest.MonkeyPatch) -> None:
    """What somebody could have alone is asked of a search: where it ends early, less may be kept."""
    asked: list[Any] = []

    def cut_off(instance: Any, *rest: Any, **more: Any) -> Any:
        solution = solved(instance, *rest, **more)
        if not isinstance(instance, apportion.MultipleChoiceKnapsack):
            return solution
        asked.append(instance)
        return replace(solution, plan=None, termination=Termination.NODE_LIMIT)

    jobs = [
        {
            "id": f"j{at}",
            "tenant": "ab"[at % 2],
            "required": False,
            "options": [{"id": "x", "value": 3.0 + at, "uses": {"gpu": 2 + at, "cpu": 7 - at}}],
        }
        for at in range(6)
    ]
    instance = apportion.read(
        {
            "kind": "multiple_choice_knapsack",
            "schema_version": "1",
            "sense": "maximize",
            "capacities": {"gpu": 12, "cpu": 14},
            "jobs": jobs,
            "tenants": [
                {"id": name, "quotas": {"gpu": {"guarantee": 6}, "cpu": {"guarantee": 7}}} for name in "ab"
            ],
        }
    )
    assert apportion.solve(instance).termination.value == "optimal"
    monkeypatch.setattr("apportion.fairness.fair_solve.solved", cut_off)
    solution = apportion.solve(instance)
    assert asked and solution.plan is not None
    assert solution.termination is Termination.NODE_LIMIT and solution.evidence is None


def test_unproved_levels_of_placements_rise_as_far_as_plans_keep_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Choices that nodes do not hold ended the search at 0.12 of each, where plans give 0.18 to everybody."""
    monkeypatch.setattr(Placing, "late", lambda _: True)
    risen = 0
    for number in range(examples(60)):
        try:
            given: Any = apportion.read(placement_of_tenants(Random(f"levels of placements, 30: {number}")))
        except apportion.InvalidInstance:  # a rule beside which no tenants go
            continue
        if given.fairness is UNSET or given.fairness.keep < 1.0:
            continue
        found = apportion.solve(given, time_limit=20.0)
        if found.plan is None or not any(level.evidence is None for level in found.levels):
            continue
        with monkeypatch.context() as without:
            without.setattr(fair_solve, "_RAISES", 0)
            before = apportion.solve(given, time_limit=20.0)
        assert kind_of(given).check(under_floors(given, found.floors), found.plan).feasible
        assert all(level.share <= level.bound for level in found.levels)
        for name, floor in (before.floors or {}).items():
            assert (found.floors or {})[name] >= floor
        risen += found.floors != before.floors
    assert risen > 0
