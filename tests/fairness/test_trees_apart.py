"""Trees of tenants that lend each other nothing: solved one by one, the answer is that of the whole."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.instances.tenants.small import drawn, instance_of

import apportion
from apportion.fairness import disjoint_groups
from apportion.io.stored import document, verify


def of_two_trees(seed: int) -> dict[str, Any]:
    """Two drawn rounds side by side on the same capacities, neither of which may borrow from the other."""
    rng = random.Random(seed)
    halves = [drawn(seed * 2 + place, lending=rng.random() < 0.5) for place in range(2)]
    tenants, jobs = [], []
    for place, told in enumerate(halves):
        roof = {
            name: {"guarantee": amount, "borrowing_limit": 0} for name, amount in told["capacities"].items()
        }
        tenants.append({"id": f"tree{place}", "quotas": roof})
        for tenant in told["tenants"]:
            parent = f"{place}{tenant['parent']}" if tenant.get("parent") else f"tree{place}"
            tenants.append({**tenant, "id": f"{place}{tenant['id']}", "parent": parent})
        for job in told["jobs"]:
            jobs.append({**job, "id": f"{place}{job['id']}", "tenant": f"{place}{job['tenant']}"})
    capacities = {name: sum(told["capacities"][name] for told in halves) for name in halves[0]["capacities"]}
    over, inside = rng.choice(["tenants", "tree", "jobs"]), rng.choice(["sum", "fair", "first_come"])
    fairness = {"over": over, "inside": inside, "keep": rng.choice([1.0, 1.0, 0.5])}
    return {**halves[0], "capacities": capacities, "tenants": tenants, "jobs": jobs, "fairness": fairness}


@pytest.mark.one_in(8)
@pytest.mark.parametrize("seed", range(40))
def test_one_by_one_is_as_together(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    instance = instance_of(of_two_trees(seed))
    assert len(disjoint_groups.parts_of(instance)) == 2
    ours = apportion.solve(instance, deterministic=True)
    monkeypatch.setattr(disjoint_groups, "parts_of", lambda _: ())
    together = apportion.solve(instance, deterministic=True)
    assert ours.termination.value == together.termination.value == "optimal"

    def shares(solution: apportion.Solution) -> list[tuple[float, float]]:
        return sorted((level.share / level.weight, level.weight) for level in solution.levels)

    assert shares(ours) == shares(together)
    if ours.floors == together.floors:
        assert ours.objective == together.objective
    assert ours.certificate.verified_bound is not None and ours.objective is not None
    assert ours.certificate.verified_bound >= ours.objective
    verification = verify(instance, document(ours))
    assert verification.ok, verification.checks


@pytest.mark.parametrize("change", ["no limit", "too much", "one tree"])
def test_trees_that_may_meet_stay_together(change: str) -> None:
    told = of_two_trees(1)
    roof = told["tenants"][0]
    if change == "no limit":
        del roof["quotas"]["gpu"]["borrowing_limit"]
    elif change == "too much":
        roof["quotas"]["gpu"]["borrowing_limit"] = 1
    else:
        told["jobs"] = [job for job in told["jobs"] if job["tenant"][0] == "0"]
    assert disjoint_groups.parts_of(instance_of(told)) == ()
    solution = apportion.solve(instance_of(told))
    assert solution.termination.value == "optimal"
