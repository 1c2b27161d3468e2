"""Quotas, lending, borrowing and the cost of stopping against enumeration, by every backend."""

from __future__ import annotations

import pytest
from tests.instances.tenants.small import drawn, every_plan, instance_of, sum_of, within_quotas

import apportion
from apportion.io.stored import document as stored
from apportion.io.stored import verify


@pytest.mark.parametrize("seed", range(40))
def test_the_best_plan_within_quotas_is_found(seed: int) -> None:
    told = drawn(seed)
    told["fairness"] = {"floors": {"c": 0}}  # no shares are due: the quotas alone
    best = max(sum_of(told, choice) for choice in every_plan(told))
    instance = instance_of(told)
    solution = apportion.solve(instance, "exact" if seed % 2 else "highs")
    assert solution.termination.value == "optimal"
    assert solution.objective == best
    chosen = solution.require()["choice"]
    named = [
        next((option for option in job["options"] if option["id"] == chosen.get(job["id"])), None)
        for job in told["jobs"]
    ]
    assert within_quotas(told, named)
    verification = verify(instance, stored(solution))
    assert verification.ok, verification.checks


@pytest.mark.parametrize("seed", range(40, 60))
def test_the_checker_agrees_with_enumeration_on_every_plan(seed: int) -> None:
    from itertools import product

    told = drawn(seed, jobs=4)
    instance = instance_of(told)
    for choice in product(*([*job["options"], None] for job in told["jobs"])):
        plan = {
            "choice": {
                job["id"]: option["id"]
                for job, option in zip(told["jobs"], choice, strict=True)
                if option is not None
            }
        }
        report = apportion.check(instance, plan)
        assert report.feasible == within_quotas(told, list(choice)), report.violations
        if report.feasible:
            assert report.objective == sum_of(told, list(choice))


@pytest.mark.parametrize("seed", range(60, 70))
def test_a_proof_walks_over_the_quotas(seed: int) -> None:
    solution = apportion.solve(instance_of(drawn(seed)), proof=True)
    assert solution.proof is not None
    assert apportion.verify(solution.held, solution.proof).status == "proved"
