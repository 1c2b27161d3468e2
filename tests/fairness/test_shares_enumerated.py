"""Shares of every sort, in turn and in every kind with tenants, against enumeration of all plans."""

from __future__ import annotations

import random
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest
from msgspec.structs import replace
from tests.fairness.test_every_kind import owned
from tests.fairness.test_levels_enumerated import Choice, assert_nobody_gains, chosen, fair, guaranteed_plans
from tests.instances.tenants.small import alone, drawn, instance_of, share_of, shares, sum_of

import apportion
from apportion.instances.freezing.generator import generate as freezing
from apportion.instances.gap_filling.generator import generate as gap_filling
from apportion.instances.kinds import kind_of
from apportion.instances.tenants import Quota, Tenant
from apportion.instances.tenants.tree import unit_of
from apportion.io.stored import document as stored
from apportion.io.stored import verify


def with_finish(told: dict[str, Any], seed: int) -> dict[str, Any]:
    """Return a document whose jobs say what their finish-time ratio follows from."""
    rng = random.Random(seed)
    for job in told["jobs"]:
        job["finish"] = {
            "elapsed_s": float(rng.randint(0, 300)),
            "remaining": float(rng.randint(100, 2000)),
            "isolated_s": float(rng.randint(50, 900)),
        }
    return told


@pytest.mark.one_in(7)
@pytest.mark.parametrize("share", ["finish_time_ratio", "normalised_throughput"])
@pytest.mark.parametrize("over", ["tenants", "jobs"])
@pytest.mark.parametrize("seed", range(12))
def test_nobody_gains_whatever_is_shared_out(seed: int, over: str, share: str) -> None:
    told = with_finish(drawn(100 + seed, stops=seed % 2 == 0), seed)
    told["fairness"] = {"share": share, "over": over}
    plans = guaranteed_plans(told)
    solution = apportion.solve(instance_of(told), time_limit=None)
    assert solution.termination.value == "optimal"
    assert all(level.evidence == "by_search" and level.bound == level.share for level in solution.levels)
    ours = chosen(told, solution)
    assert ours in plans
    assert_nobody_gains(told, over, plans, ours)
    kept = fair(told, over, ours)
    equal = [plan for plan in plans if all(fair(told, over, plan)[one] >= kept[one] for one in kept)]
    assert solution.objective == max(sum_of(told, plan) for plan in equal)
    assert verify(solution.instance, stored(solution)).ok


@pytest.mark.one_in(5)
@pytest.mark.parametrize("share", ["dominant_share", "finish_time_ratio"])
@pytest.mark.parametrize("seed", range(12))
def test_inside_a_tenant_who_came_first_goes_first(seed: int, share: str) -> None:
    told = with_finish(drawn(200 + seed, stops=False), seed)
    rng = random.Random(seed)
    for job in told["jobs"]:
        job["submitted_s"] = float(rng.randint(0, 3))
        if rng.random() < 0.3:
            job["priority"] = rng.choice([-1, 1])
    told["fairness"] = {"share": share, "over": "tenants", "inside": "first_come"}
    plans = guaranteed_plans(told)
    solution = apportion.solve(instance_of(told), time_limit=None)
    assert solution.termination.value == "optimal"
    ours = chosen(told, solution)
    assert_nobody_gains(told, "tenants", plans, ours)
    levels = fair(told, "tenants", ours)
    unit = unit_of(share, told["capacities"])
    due = {name: Fraction(floor, unit) for name, floor in (solution.floors or {}).items()}
    weights = {one["id"]: Fraction(one.get("weight", 1)) for one in told["tenants"]}
    left = [
        plan
        for plan in plans
        if all(fair(told, "tenants", plan)[one] >= due[one] / weights[one] for one in levels)
    ]
    turns = sorted(told["jobs"], key=lambda job: (-job.get("priority", 0), job["submitted_s"], job["id"]))
    for job in turns:
        best = max(shares(told, plan)[job["id"]] for plan in left)
        left = [plan for plan in left if shares(told, plan)[job["id"]] == best]
        assert shares(told, ours)[job["id"]] == best, job["id"]
    assert solution.objective == max(sum_of(told, plan) for plan in left)


def as_document(instance: Any) -> dict[str, Any]:
    """Return what an instance of any kind options in the form of the drawn ones."""
    option_set = kind_of(instance).option_set
    assert option_set is not None
    (capacity,) = instance.tenants[1].quotas
    total = len(instance.nodes) if capacity == "idle_nodes" else instance.gpus[capacity]
    quotas = ("guarantee", "borrowing_limit", "lending_limit")
    tenants = []
    for tenant in instance.tenants:
        told = {
            name: {field: getattr(quota, field) for field in quotas if getattr(quota, field) is not None}
            for name, quota in tenant.quotas.items()
        }
        tenants.append({"id": tenant.id, "parent": tenant.parent, "weight": tenant.weight, "quotas": told})
    jobs = [
        {
            "id": job.id,
            "tenant": job.tenant,
            "options": [
                {
                    "id": option.name,
                    "value": option.value,
                    "uses": {name: use for name, use in option.uses.items() if name == capacity},
                    "rate": option.rate,
                    "nothing": option.idle,
                }
                for option in option_set.options(instance, job)
            ],
        }
        for job in instance.jobs
    ]
    rule = {"share": instance.fairness.share, "over": instance.fairness.over}
    return {"capacities": {capacity: total}, "tenants": tenants, "jobs": jobs, "fairness": rule}


def in_kind(kind: str, seed: int, **fairness: Any) -> Any:
    if kind == "gap_filling":
        return owned(gap_filling(seed, jobs=4, nodes=8, max_nodes=5), "idle_nodes", 8, **fairness)
    return owned(replace(freezing(seed, 3, {"v100": 6}, depths=2), gpus_per_node={}), "v100", 6, **fairness)


def taken(instance: Any, told: dict[str, Any], plan: Any) -> Choice:
    """Return the options of a plan."""
    option_set = kind_of(instance).option_set
    assert option_set is not None
    names = option_set.taken(instance, plan)
    return [
        next(
            option
            for option in job["options"]
            if option["id"] == names.get(job["id"]) or (names.get(job["id"]) is None and option["nothing"])
        )
        for job in told["jobs"]
    ]


@pytest.mark.one_in(5)
@pytest.mark.parametrize("share", ["dominant_share", "normalised_throughput"])
@pytest.mark.parametrize("over", ["tenants", "jobs"])
@pytest.mark.parametrize("kind", ["gap_filling", "freezing"])
@pytest.mark.parametrize("seed", [3, 4, 5])
def test_in_every_kind_guarantees_are_met_and_nobody_gains(
    seed: int, kind: str, over: str, share: str
) -> None:
    instance = in_kind(kind, seed, over=over, share=share)
    told = as_document(instance)
    solution = apportion.solve(instance, time_limit=None)
    assert solution.termination.value == "optimal"
    ours = taken(instance, told, solution.require())
    for name in "ab":
        assert share_of(told, ours, name) >= alone(told, name)
    plans = guaranteed_plans({**told, "tenants": [*told["tenants"], {"id": "c"}]})
    assert ours in plans
    assert_nobody_gains(told, over, plans, ours)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", ["gap_filling", "freezing"])
@pytest.mark.parametrize("seed", [3, 4, 5])
def test_in_every_kind_the_order_of_tenants_and_jobs_changes_nothing(seed: int, kind: str) -> None:
    instance = in_kind(kind, seed, over="tree", inside="fair")
    rng = random.Random(seed)

    def shuffled(items: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(rng.sample(list(items), len(items)))

    other = replace(instance, tenants=shuffled(instance.tenants), jobs=shuffled(instance.jobs))
    first = apportion.solve(instance, deterministic=True)
    again = apportion.solve(other, deterministic=True)
    assert (first.levels, first.floors, first.plan) == (again.levels, again.floors, again.plan)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", ["gap_filling", "freezing"])
@pytest.mark.parametrize("seed", [3, 4, 5])
def test_in_every_kind_sharing_is_an_incentive(seed: int, kind: str) -> None:
    """With an equal part guaranteed, nobody is worse off than alone on that part."""
    instance = in_kind(kind, seed, share="normalised_throughput")
    (capacity,) = instance.tenants[1].quotas
    total = as_document(instance)["capacities"][capacity]
    quotas = {capacity: Quota(total // 2)}
    instance = replace(
        instance,
        tenants=(Tenant("lab"), Tenant("a", "lab", quotas=quotas), Tenant("b", "lab", quotas=quotas)),
    )
    told = as_document(instance)
    ours = taken(instance, told, apportion.solve(instance, time_limit=None).require())
    for name in "ab":
        assert share_of(told, ours, name) >= alone(told, name)
