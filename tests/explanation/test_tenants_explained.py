"""Explanations and what-if questions in the words of tenants, held against plans solved again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import apportion
from apportion.cli.main import main
from apportion.core.errors import InvalidInstance
from apportion.explanation import explain, what_if
from apportion.instances.edits import change_tenant
from apportion.instances.tenants import Quota, Tenant
from tests.cli.calling import call

EXAMPLE = "examples/three_teams.json"


def test_who_borrows_from_whom_and_why_a_job_waits() -> None:
    instance = apportion.read(EXAMPLE)
    solution = apportion.solve(instance)
    told = explain(instance, solution)
    tenants = {tenant.name: tenant for tenant in told.tenants}
    for capacity in ("v100", "a100"):
        for name, tenant in tenants.items():
            beyond = max(0, tenant.uses[capacity] - tenant.guaranteed[capacity])
            covered = sum(tenant.above.get(capacity, {}).values())
            assert tenant.borrows.get(capacity, 0) + covered == beyond, name
    # 11 of the lab's 12 are guaranteed to its teams: the other is for whoever exceeds his own
    assert (tenants["speech"].borrows, tenants["speech"].above) == ({"v100": 2}, {"v100": {"lab": 1}})
    assert "vision" in tenants["speech"].lenders["v100"]
    for tenant in told.tenants:
        level = next(one for one in solution.levels if one.name == tenant.name)
        assert tenant.share >= level.share == tenant.due
    waits = {one.job: one for one in told.waiting}
    assert set(waits) == {job.id for job in instance.jobs} - set(solution.require()["choice"])
    assert all(one.limits and one.displaces for one in waits.values())
    assert "waits" in str(told) and json.dumps(told.to_dict())


def test_one_more_of_guarantee_is_what_solving_again_says() -> None:
    instance = apportion.read(EXAMPLE)
    told = explain(instance)
    speech = next(tenant for tenant in told.tenants if tenant.name == "speech")
    again = apportion.solve(change_tenant(instance, "speech", {"v100.guarantee": 4}))
    report = explain(instance=again.instance, solution=again)
    after = next(tenant for tenant in report.tenants if tenant.name == "speech")
    assert speech.one_more_guaranteed["v100"] == pytest.approx(after.share - speech.share)


def test_what_if_a_team_weighs_more_or_a_new_one_comes() -> None:
    instance = apportion.read(EXAMPLE)
    heavier = what_if(instance, tenant={"speech": {"weight": 4.0}})
    assert (
        heavier.objective_after
        == apportion.solve(change_tenant(instance, "speech", {"weight": 4.0})).objective
    )
    newcomer = Tenant("guests", "lab", quotas={"v100": Quota(1)})
    more = what_if(instance, add_tenants=[newcomer])
    assert more.objective_after is not None
    with pytest.raises(InvalidInstance, match="add up to"):
        what_if(instance, add_tenants=[Tenant("guests", "lab", quotas={"v100": Quota(9)})])
    with pytest.raises(InvalidInstance, match="there is no tenant 'visoin'"):
        what_if(instance, tenant={"visoin": {"weight": 2.0}})


def test_the_commands_show_tenants(tmp_path: Path) -> None:
    guests = tmp_path / "guests.json"
    guests.write_text('{"id": "guests", "parent": "lab"}')
    table = call(main, "solve", EXAMPLE)
    assert not table.code and "guaranteed" in table.out and "speech" in table.out
    borrowing = "speech.v100.borrowing_limit=0"
    changed = call(main, "what-if", EXAMPLE, "--tenant", borrowing, "--add-tenant", guests)
    assert not changed.code and "tenant guests is added" in changed.out
    assert call(main, "what-if", EXAMPLE, "--tenant", "speech=3").code == 2


def test_what_an_organisation_is_guaranteed_its_team_does_not_borrow() -> None:
    """After volcano issue 4817: three sentences took a guarantee of the parent for nobody's."""
    tree = {
        "kind": "multiple_choice_knapsack",
        "schema_version": "1",
        "sense": "maximize",
        "capacities": {"cpu": 100},
        "tenants": [
            {"id": "org-1", "quotas": {"cpu": {"guarantee": 0}}},
            {"id": "a", "parent": "org-1"},
            {"id": "org-2", "quotas": {"cpu": {"guarantee": 50}}},
            {"id": "b", "parent": "org-2"},
        ],
        "jobs": [
            {
                "id": name,
                "tenant": team,
                "required": False,
                "options": [{"id": "x", "value": use, "uses": {"cpu": use}}],
            }
            for name, team, use in (("big", "a", 100), ("own", "b", 50))
        ],
    }
    told = explain(apportion.read(tree))
    team = next(one for one in told.tenants if one.name == "b")
    assert (team.borrows, team.above) == ({}, {"cpu": {"org-2": 50}})
    assert [one.displaces for one in told.waiting] == [()]
    text = str(told)
    assert "cpu: uses 50, 0 guaranteed; 50 of what org-2 is guaranteed" in text
    assert "of what nobody owns" not in text and "whatever the price" not in text
    tree["jobs"] = [{**tree["jobs"][0], "required": True}]  # type: ignore[index]
    tree["tenants"] = [*tree["tenants"], {"id": "c", "parent": "org-2"}]  # type: ignore[misc]
    alone = explain(apportion.read(tree))
    team = next(one for one in alone.tenants if one.name == "a")
    assert (team.borrows, team.lenders) == ({"cpu": 100}, {"cpu": {"org-2": 50}})
