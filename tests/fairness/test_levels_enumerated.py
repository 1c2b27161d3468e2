"""Levels of lexicographic max-min against enumeration of every plan, sharing no code with what finds them."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import pytest
from tests.instances.tenants.small import (
    alone,
    drawn,
    every_plan,
    instance_of,
    share_of,
    shares,
    sum_of,
)

import apportion
from apportion.instances.tenants.tree import unit_of
from apportion.io.stored import document as stored
from apportion.io.stored import verify

Choice = list[dict[str, Any] | None]


def guaranteed_plans(told: dict[str, Any]) -> list[Choice]:
    """Return the plans that leave every tenant what it would have alone."""
    due = {name: alone(told, name) for name in "abc"}
    return [
        choice
        for choice in every_plan(told)
        if all(share_of(told, choice, name) >= share for name, share in due.items())
    ]


def chosen(told: dict[str, Any], solution: apportion.Solution) -> Choice:
    named = solution.require()["choice"]
    return [
        next((option for option in job["options"] if option["id"] == named.get(job["id"])), None)
        for job in told["jobs"]
    ]


def fair(told: dict[str, Any], over: str, choice: Choice) -> dict[str, Fraction]:
    """Return the shares that are made equal, over their weights."""
    weights = {tenant["id"]: Fraction(tenant.get("weight", 1)) for tenant in told["tenants"]}
    if over == "jobs":
        owner = {job["id"]: job["tenant"] for job in told["jobs"]}
        return {job: share / weights[owner[job]] for job, share in shares(told, choice).items()}
    return {
        name: share_of(told, choice, name) / weights[name] for name in {job["tenant"] for job in told["jobs"]}
    }


def assert_nobody_gains(told: dict[str, Any], over: str, plans: list[Choice], ours: Choice) -> None:
    mine = fair(told, over, ours)
    for plan in plans:
        other = fair(told, over, plan)
        for name, share in mine.items():
            if other[name] > share:
                assert any(other[who] < mine[who] and other[who] <= share for who in mine), (name, plan)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("over", ["tenants", "jobs"])
@pytest.mark.parametrize("seed", range(30))
def test_nobody_can_gain_without_one_at_or_below_it_losing(seed: int, over: str) -> None:
    told = drawn(seed, stops=seed % 3 == 0)
    told["fairness"] = {"over": over}
    plans = guaranteed_plans(told)
    assert plans
    solution = apportion.solve(instance_of(told), time_limit=None)
    assert solution.termination.value == "optimal"
    assert all(level.evidence == "by_search" and level.bound == level.share for level in solution.levels)
    ours = chosen(told, solution)
    assert ours in plans
    assert_nobody_gains(told, over, plans, ours)
    best_least = max(min(fair(told, over, plan).values()) for plan in plans)
    assert min(fair(told, over, ours).values()) == best_least
    kept = sorted(fair(told, over, ours).values())
    equal = [plan for plan in plans if sorted(fair(told, over, plan).values()) == kept]
    assert solution.objective == solution.fair_bound == max(sum_of(told, plan) for plan in equal)
    verification = verify(solution.instance, stored(solution))
    assert verification.ok, verification.checks


@pytest.mark.parametrize("seed", range(30, 45))
def test_guarantees_are_kept_without_any_rule_of_fairness(seed: int) -> None:
    told = drawn(seed)
    plans = guaranteed_plans(told)
    solution = apportion.solve(instance_of(told), time_limit=None)
    ours = chosen(told, solution)
    assert ours in plans
    assert solution.objective == max(sum_of(told, plan) for plan in plans)


@pytest.mark.parametrize("seed", range(45, 55))
def test_sharing_is_an_incentive_where_everything_is_guaranteed(seed: int) -> None:
    """With an equal part of everything guaranteed, nobody is worse off than alone on that part."""
    told = drawn(seed, lending=False, stops=False)
    part = {name: amount // 3 for name, amount in told["capacities"].items()}
    told["tenants"] = [
        {"id": name, "quotas": {what: {"guarantee": amount} for what, amount in part.items()}}
        for name in "abc"
    ]
    told["fairness"] = {}
    ours = chosen(told, apportion.solve(instance_of(told), time_limit=None))
    for name in "abc":
        assert share_of(told, ours, name) >= alone(told, name)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("seed", range(55, 63))
@pytest.mark.parametrize("over", ["tenants", "tree", "jobs"])
def test_the_order_of_tenants_and_jobs_changes_nothing(seed: int, over: str) -> None:
    told = drawn(seed, jobs=6)
    told["fairness"] = {"over": over, "inside": "fair"}
    first = apportion.solve(instance_of(told), deterministic=True)
    rng = random.Random(seed)
    rng.shuffle(told["tenants"])
    rng.shuffle(told["jobs"])
    again = apportion.solve(instance_of(told), deterministic=True)
    assert first.levels == again.levels
    assert first.floors == again.floors
    assert first.plan == again.plan


@pytest.mark.parametrize("seed", range(63, 71))
def test_the_tree_is_fair_from_the_top_down(seed: int) -> None:
    told = drawn(seed, stops=False)
    told["fairness"] = {"over": "tree"}
    plans = guaranteed_plans(told)
    solution = apportion.solve(instance_of(told), time_limit=None)
    ours = chosen(told, solution)
    weights = {tenant["id"]: Fraction(tenant.get("weight", 1)) for tenant in told["tenants"]}
    with_jobs = {job["tenant"] for job in told["jobs"]}
    tops = [name for name in ("org", "c") if name in with_jobs or (name == "org" and with_jobs & {"a", "b"})]

    def least(plan: Choice) -> Fraction:
        return min(share_of(told, plan, name) / weights.get(name, Fraction(1)) for name in tops)

    assert least(ours) == max(map(least, plans))


@pytest.mark.parametrize("keep", [0.0, 0.5, 0.9])
def test_what_is_kept_of_the_levels_bounds_what_they_cost(keep: float) -> None:
    told = drawn(3)
    told["fairness"] = {"over": "tenants", "keep": keep}
    plans = guaranteed_plans(told)
    solution = apportion.solve(instance_of(told), time_limit=None)
    floors = {level.name: Fraction(level.share).limit_denominator(10**6) for level in solution.levels}
    unit = unit_of("dominant_share", told["capacities"])
    kept = [
        plan
        for plan in plans
        if all(
            share_of(told, plan, name) * unit >= int(keep * share * unit) for name, share in floors.items()
        )
    ]
    assert solution.objective == max(sum_of(told, plan) for plan in kept)
