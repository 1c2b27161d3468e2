"""The checker of placements against another reading of the same JSON: plans good and bad, nothing solved."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from random import Random
from typing import Any

import pytest

import apportion
from apportion.instances.kinds import kind_of
from apportion.instances.options import goal_values
from tests.hunt import truth_placement as truth
from tests.hunt.placement import drawn

PARTS, ROUNDS, PLANS = 6, 220, 12


def any_plan(rng: Random, told: dict[str, Any]) -> dict[str, Any]:
    """Draw a plan of the right form, most of whose jobs get what they may."""
    round_, plan = truth.Round(told), dict[str, Any]()
    for job in told["jobs"]:
        allowed = list(truth.of_job(round_, job))
        if allowed and rng.random() < 0.9:
            got = rng.choice(allowed)
        elif rng.random() < 0.2:
            got = None
        else:
            option, on = rng.choice(job["options"]), dict[str, dict[str, int]]()
            for pods in option["pods"]:
                for _ in range(rng.randint(0, pods["count"] + (rng.random() < 0.2))):
                    node, at = rng.choice(list(round_.nodes)), on.setdefault(pods["name"], {})
                    at[node] = at.get(node, 0) + 1
            got = {"option": option["id"], "on": on}
        if got is not None:
            plan[job["id"]] = got
    return {"placement": plan}


def is_plan(told: dict[str, Any], plan: dict[str, Any]) -> bool:
    """Return whether every job gets what it may and no node has too many pods."""
    round_, got = truth.Round(told), plan["placement"]
    mine = (got.get(job["id"]) in list(truth.of_job(round_, job)) for job in told["jobs"])
    return all(mine) and truth.fits(round_, got)


def instances(part: int) -> Iterator[tuple[Random, dict[str, Any], Any]]:
    for number in range(ROUNDS * part, ROUNDS * (part + 1)):
        rng, told = drawn(number, seed=31)
        yield rng, told, apportion.read(told)


@pytest.mark.parametrize("part", range(PARTS))
def test_plans_keep_the_rules_or_break_them_alike(part: int) -> None:
    kept = broken = 0
    for rng, told, given in instances(part):
        kind = kind_of(given)
        assert kind.option_set is not None
        for _ in range(PLANS):
            plan = any_plan(rng, told)
            report = kind.check(given, plan)
            meant = is_plan(told, plan)
            rules = truth.broken(told, plan)
            assert report.feasible == (meant and not rules), (told, plan, report)
            assert set(rules) <= {one.rule for one in report.violations}
            if report.feasible:
                own = truth.values(told, plan)
                assert [Fraction(report.objective or 0)] == [Fraction(float(own[0]))]
                assert kind.exact_objective(given, plan) == own[0]
                assert [*goal_values(kind.option_set, given, plan).values()] == own[1:]
            kept += report.feasible
            broken += bool(rules) and meant
    assert kept > 60 and broken > 200


WRONG: list[Any] = [
    None,
    [],
    {},
    {"placement": []},
    {"placement": {}, "more": 1},
    {"placement": {"nobody": {"option": "o", "on": {}}}},
    {"placement": {"a": 1}},
    {"placement": {"a": {"option": "run"}}},
    {"placement": {"a": {"option": "run", "on": {}, "more": 1}}},
    {"placement": {"a": {"option": "walk", "on": {}}}},
    {"placement": {"a": {"option": "run", "on": []}}},
    {"placement": {"a": {"option": "run", "on": {"others": {}}}}},
    {"placement": {"a": {"option": "run", "on": {"pods": ["n0"]}}}},
    {"placement": {"a": {"option": "run", "on": {"pods": {"n9": 1}}}}},
    {"placement": {"a": {"option": "run", "on": {"pods": {"n0": 0, "n1": 1}}}}},
    {"placement": {"a": {"option": "run", "on": {"pods": {"n0": True}}}}},
    {"placement": {"a": {"option": "run", "on": {"pods": {"n0": 1.0}}}}},
]


@pytest.mark.parametrize("plan", WRONG)
def test_what_is_no_plan_is_refused_and_not_counted(plan: Any) -> None:
    job = {"id": "a", "options": [{"id": "run", "pods": [{"needs": {"gpu": 1}}]}]}
    nodes = [{"names": "n[0-1]", "capacity": {"gpu": 1}}]
    told = {"kind": "placement", "schema_version": "1", "levels": ["node"], "nodes": nodes, "jobs": [job]}
    report = kind_of(given := apportion.read(told)).check(given, plan)
    assert not report.feasible
    assert report.objective is None
    for kept in ({"a": {"option": "run", "on": {"pods": {"n1": 1}}}}, {"a": None}, {}):
        assert kind_of(given).check(given, {"placement": kept}).feasible
