"""Every sentence about random rounds of tenants, held against enumeration and re-solving."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

import apportion
from apportion.explanation import explain
from apportion.explanation.tenants import Claims
from apportion.instances.tenants.schema import Quota, Tenant
from apportion.instances.tenants.tree import tree_of
from tests.hunt.explained_rounds import wrong_sentences
from tests.hunt.rounds import drawn_round


@pytest.mark.one_in(5)
@pytest.mark.parametrize("number", range(1, 13))
def test_no_sentence_of_a_random_round_is_wrong(number: int) -> None:
    told, seen = drawn_round(Random(f"sentences {number}")), Counter[str]()
    assert list(wrong_sentences(told, seen)) == []


def _told(jobs: list[dict[str, Any]], sense: str = "maximize", gpus: int = 4, **quota: int) -> dict[str, Any]:
    tenants = [{"id": "a"}, {"id": "b", "quotas": {"gpu": quota}}]
    told = {"kind": "multiple_choice_knapsack", "schema_version": "1", "sense": sense, "fairness": {}}
    return {**told, "capacities": {"gpu": gpus}, "jobs": jobs, "tenants": tenants}


def _job(name: str, tenant: str, required: bool, *options: tuple[float, int]) -> dict[str, Any]:
    menu = [{"id": str(gpus), "value": value, "uses": {"gpu": gpus}} for value, gpus in options]
    return {"id": name, "tenant": tenant, "required": required, "options": menu}


def test_one_more_may_make_it_worse_where_more_is_shared_out() -> None:
    jobs = [_job("small", "a", False, (11.0, 1)), _job("big", "b", False, (5.0, 2), (1.0, 3))]
    found = explain(apportion.read(_told(jobs, gpus=3)))
    more, fewer = found.capacities[0].one_more, found.capacities[0].one_fewer
    assert more is not None and more.exact == -4.0
    assert fewer is not None and fewer.exact == 11.0  # "leaves nothing feasible" was told
    assert "one more unit of gpu makes it worse by 4" in str(found)


def test_a_job_beyond_its_tenants_limit_has_no_room() -> None:
    jobs = [_job("j", "b", False, (9.0, 4))]
    found = str(explain(apportion.read(_told(jobs, guarantee=1, borrowing_limit=1))))
    assert "no room for 4: gpu of b: 0 of 2" in found and "there is room" not in found


def test_an_option_that_uses_nothing_has_room_and_displaces_nobody() -> None:
    jobs = [_job("full", "a", True, (2.0, 4)), _job("free", "a", False, (1.5, 0))]
    found = str(explain(apportion.read(_told(jobs, "minimize"))))
    assert "there is room for 0" in found and "displace" not in found


@pytest.mark.parametrize(("changes", "displaced"), [(0, ()), (1, ("runs",))])
def test_who_may_not_change_is_not_displaced(changes: int, displaced: tuple[str, ...]) -> None:
    runs = {**_job("runs", "b", False, (9.0, 4)), "current": "4"}
    told = {**_told([runs, _job("waits", "a", False, (1.0, 4))]), "max_changes": changes}
    instance = apportion.read({**told, "fairness": {"floors": {}}})
    found = explain(instance, apportion.solve(instance))
    assert [one.displaces for one in found.waiting] == [displaced]


def test_what_no_plan_has_is_what_no_plan_that_keeps_the_shares_has() -> None:
    jobs = [_job("small", "a", False, (11.0, 1)), _job("big", "b", False, (5.0, 2), (1.0, 3))]
    assert "no plan that keeps these shares has it" in str(explain(apportion.read(_told(jobs, gpus=3))))


@pytest.mark.parametrize(
    ("used", "bound"),
    [({"lab": 6, "guest": 2}, []), ({"lab": 7, "guest": 2}, ["gpu: all 10 are used or withheld"])],
)
def test_what_jobs_keep_beyond_a_lowered_capacity_is_no_limit_of_others(
    used: dict[str, int], bound: list[str]
) -> None:
    """The lab lends none of its 8, guests keep 2, and of 9 GPUs so many are left as are not used."""
    tree = tree_of([Tenant("lab", quotas={"gpu": Quota(8, lending_limit=0)}), Tenant("guest")])
    claims = Claims(tree, "gpu", used, 9, {"guest": 2})
    assert claims.binding("lab", 1) == bound and claims.keep({"lab": 1}) is not bool(bound)
