"""What is due to a tenant is what it could have alone on its guarantee, whichever road derives it."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from tests.budgets import examples
from tests.hunt import truth_tenants
from tests.hunt.rounds import drawn_round, wrong_in

import apportion
from apportion.explanation import explain
from apportion.instances import edits


def _round(capacities: dict[str, int], jobs: list[dict[str, Any]], tenants: list[dict[str, Any]]) -> Any:
    told = {"kind": "multiple_choice_knapsack", "schema_version": "1", "sense": "maximize"}
    return {**told, "capacities": capacities, "jobs": jobs, "tenants": tenants}


def _job(name: str, tenant: str, value: float, required: bool = False, **uses: int) -> dict[str, Any]:
    option = {"id": "run", "value": value, "uses": uses}
    return {"id": name, "tenant": tenant, "required": required, "options": [option]}


@pytest.mark.parametrize("own", [2, 3])
def test_what_children_do_not_lend_is_not_due_to_their_parent(own: int) -> None:
    tenants = [
        {"id": "org", "quotas": {"cpu": {"guarantee": own}}},
        {"id": "a", "parent": "org", "quotas": {"cpu": {"guarantee": 2, "lending_limit": 0}}},
        {"id": "b", "parent": "org"},
        {"id": "z"},
    ]
    jobs = [_job("of-b", "b", 1.0, cpu=2), _job("of-z", "z", 10.0, cpu=2)]
    told = _round({"cpu": 4}, jobs, tenants)
    found = apportion.solve(apportion.read(told))
    assert found.objective == 10.0 and not found.floors  # was 1.0: b's job displaced z's
    assert truth_tenants.due_shares(told) == {}


def test_what_a_child_lends_is_due_to_its_parent() -> None:
    tenants = [
        {"id": "org", "quotas": {"cpu": {"guarantee": 3}}},
        {"id": "a", "parent": "org", "quotas": {"cpu": {"guarantee": 2}}},
        {"id": "b", "parent": "org"},
        {"id": "z"},
    ]
    told = _round({"cpu": 4}, [_job("of-b", "b", 1.0, cpu=3), _job("of-z", "z", 10.0, cpu=3)], tenants)
    found = apportion.solve(apportion.read(told))
    assert found.floors == {"org": 3} and found.objective == 1.0


@pytest.mark.parametrize("disk", [False, True])
def test_a_capacity_that_binds_nowhere_changes_no_guarantee(disk: bool) -> None:
    more = {"disk": 1} if disk else {}
    jobs = [
        _job("must", "a", 1.0, True, gpu=3, **more),
        _job("may", "a", 1.0, gpu=4, **more),
        _job("other", "b", 1.0, gpu=2, **more),
    ]
    quotas = {"gpu": {"guarantee": 5}} | ({"disk": {"guarantee": 100}} if disk else {})
    capacities = {"gpu": 8} | ({"disk": 1000} if disk else {})
    told = _round(capacities, jobs, [{"id": "a", "quotas": quotas}, {"id": "b"}]) | {"fairness": {}}
    found = apportion.solve(apportion.read(told))
    # was {a: 7, b: 0} without the disk: alone, a could have had its job of 4 without the one that must run
    unit = 1000 // 8 if disk else 1
    assert found.floors == {"a": 3 * unit, "b": 2 * unit}


def test_who_must_run_beyond_its_guarantee_is_due_nothing_more() -> None:
    jobs = [
        _job("must", "a", 1.0, True, gpu=3),
        _job("may", "a", 1.0, gpu=1),
        _job("other", "b", 5.0, gpu=1),
    ]
    told = _round({"gpu": 4}, jobs, [{"id": "a", "quotas": {"gpu": {"guarantee": 2}}}, {"id": "b"}])
    found = apportion.solve(apportion.read(told))
    assert found.plan == {"choice": {"must": "run", "other": "run"}} or found.objective == 6.0
    assert not found.floors


def test_random_rounds_against_every_choice() -> None:
    for number in range(examples(150)):
        told = drawn_round(Random(f"quick rounds {number}"))
        assert list(wrong_in(told)) == [], told


def test_a_pin_does_not_make_its_option_the_best_one() -> None:
    entries = {"fast": {"time_s": 1.0, "value": 4.0}, "slow": {"time_s": 2.0, "value": 9.0}}
    told = {
        "kind": "matching",
        "schema_version": "1",
        "objective": "value",
        "machines": [{"id": "slow", "capacity": 1}, {"id": "fast"}],
        "jobs": [{"id": "j", "tenant": "b", "required": False, "on": entries}],
        "tenants": [{"id": "b"}],
        "fairness": {"share": "normalised_throughput"},
    }
    pinned = edits.pin(apportion.read(told), {"j": "slow"})
    assert apportion.solve(pinned).floors == {"b": 500_000_000}  # half of what the fast one gives, as before
    assert apportion.solve(edits.pin(pinned, {"j": "slow"})).floors == {"b": 500_000_000}
    found = str(explain(apportion.read(told)))
    assert "an equally good plan has it" not in found


def test_a_pin_lifted_lets_throughputs_be_as_before() -> None:
    told = _round({"gpu": 2}, [_job("a", "t", 4.0, gpu=1)], [{"id": "t"}])
    told["jobs"][0]["options"].append({"id": "small", "value": 1.0, "uses": {"gpu": 1}})
    told["fairness"] = {"share": "normalised_throughput"}
    instance = apportion.read(told)
    pinned = edits.pin(instance, {"a": "small"})
    assert apportion.solve(pinned).floors == {"t": 250_000_000}
    assert edits.unpin(pinned, ["a"]) == instance
