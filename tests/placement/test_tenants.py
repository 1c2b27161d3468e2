"""Tenants of placements: limits, guarantees and levels beside the enumeration of all plans."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from msgspec import structs

import apportion
from apportion.formulations import placement as menus
from apportion.formulations.placement_bundles import PlacementByBundle
from apportion.instances import PlacementInstance
from apportion.instances.kinds import kind_of
from apportion.instances.placement import kind
from apportion.instances.placement.generator import generate_menus
from apportion.instances.tenants.ledger import under_floors
from apportion.instances.tenants.schema import Tenant
from apportion.io.stored import document, verify
from apportion.proofs import reference
from apportion.proofs.certificate import encode
from apportion.proofs.statement import statement_of
from apportion.solvers.packing.patterns import relaxed, rounded
from tests.budgets import examples
from tests.hunt import truth_tenants
from tests.hunt.draw_tenants import placement_of_tenants


def wrong(told: dict[str, Any], rng: Random) -> list[str]:
    """Return what is wrong with the answer to a round."""
    given: Any = apportion.read(told)
    way, backend = rng.choice((None, "by_pod", "by_bundle")), rng.choice(("auto", "auto", "highs"))
    found: Any = apportion.solve(given, backend, formulation=way, proof=rng.random() < 0.3)
    best = truth_tenants.best(told)[1]
    if found.plan is None:
        return [] if best is None and found.termination == "infeasible" else [f"{found.termination}, {best}"]
    if found.termination != "optimal":  # bundles do not tell who moves
        return [] if way == "by_bundle" else [f"ends {found.termination}"]
    said = [*truth_tenants.misshared(told, found)]
    worth, can = truth_tenants.worth(told, found.plan), truth_tenants.best(told, found.floors or {})[1]
    if worth is None or (worth != can and way != "by_bundle"):
        said.append(f"is worth {worth}, not {can}")
    record = json.loads(json.dumps(document(found, proof_name=None if found.proof is None else "p")))
    lines = verify(given, record, None if found.proof is None else encode(found.proof))
    return said if lines.ok else [*said, f"check refuses it: {lines}"]


@pytest.mark.parametrize("options_first", [False, True])
def test_rounds_against_enumeration(options_first: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """`python -m tests.hunt --kind tenants` draws them as well, none so large that options come first."""
    if options_first:
        monkeypatch.setattr(kind, "_SOME_SHAPES", 0)
    seen = 0
    for number in range(examples(600)):
        rng = Random(f"tenants of placements {number}")
        told = placement_of_tenants(rng)
        try:
            apportion.read(told)
        except apportion.InvalidInstance:  # guarantees beyond what there is
            continue
        assert wrong(told, rng) == [], number
        seen += 1
    assert seen > examples(600) // 2


def test_what_runs_is_the_plan_where_nothing_else_is_placed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A choice was placed anew wherever it was asked for, and the plan that it came from was lost."""
    monkeypatch.setattr(menus, "fit_all", lambda asked, near, late: {})
    monkeypatch.setattr(menus, "fit_most", lambda asked, placed, late: None)
    monkeypatch.setattr(menus, "_MOST_PAIRS", 0)
    monkeypatch.setattr(kind, "_MANY_SHAPES", 0)
    running = {"option": "r", "on": {"p": {"n0": 2}}}
    option = {"id": "r", "value": 1.0, "pods": [{"name": "p", "count": 2, "needs": {"gpu": 2}}]}
    told = site(
        nodes=[{"names": "n[0-1]", "capacity": {"gpu": 4}, "at": {"rack": "r"}}],
        jobs=[
            {"id": "a", "tenant": "t", "options": [option], "current": running},
            {"id": "b", "tenant": "u", "options": [{**option, "value": 5.0}]},
        ],
        tenants=[{"id": "t"}, {"id": "u"}],
        fairness={"share": "dominant_share"},
    )
    found = apportion.solve(apportion.read(told))
    assert found.require()["placement"] == {"a": running} and found.termination != "optimal"
    assert {level.name: level.share for level in found.levels} == {"t": 0.5, "u": 0.0}


def test_no_model_is_made_that_takes_longer_than_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kind, "_SOME_SHAPES", 0)
    monkeypatch.setattr(kind, "_SHAPED", 1e-6)
    monkeypatch.setattr(menus, "_MOST_PAIRS", 0)
    monkeypatch.setattr(menus.PlacementByShape, "__init__", lambda *_: pytest.fail("a model was made"))
    rng = Random(7)
    solved = 0
    for _ in range(40):
        try:
            given: Any = apportion.read(placement_of_tenants(rng))
        except apportion.InvalidInstance:  # guarantees beyond what there is
            continue
        if kind.takes_options(given):
            apportion.solve(given, time_limit=100.0)
            solved += 1
    assert solved > 3


def site(**more: Any) -> dict[str, Any]:
    """Return two racks of two nodes with 8 GPUs, where `a` and `b` have a gang of two nodes each."""
    gang = {"id": "2x8", "value": 1.0, "pods": [{"count": 2, "needs": {"gpu": 8}, "required": "rack"}]}
    return {
        "kind": "placement",
        "schema_version": "1",
        "levels": ["rack", "node"],
        "nodes": [{"names": "n[0-3]", "at": {"rack": "r[0-1]"}, "capacity": {"gpu": 8}}],
        "jobs": [{"id": f"{name}{k}", "tenant": name, "options": [gang]} for name in "ab" for k in range(2)],
        "tenants": [{"id": "a"}, {"id": "b"}],
    } | more


def test_a_limit_is_a_row_with_a_price_that_check_derives() -> None:
    limited = {"id": "a", "quotas": {"gpu": {"borrowing_limit": 16}}}
    jobs = site()["jobs"]
    for job in jobs[:2]:
        job["options"] = [{**job["options"][0], "value": 5.0}]
    given = apportion.read(site(jobs=jobs, tenants=[limited, {"id": "b"}]))
    found = apportion.solve(given)
    assert found.objective == 6.0 and found.evidence == "by_multipliers"
    assert (found.certificate.multipliers or {})["gpu of a"] > 0
    assert verify(given, json.loads(json.dumps(document(found)))).ok
    both: Any = {
        "placement": {
            f"a{k}": {"option": "2x8", "on": {"pods": {f"n{2 * k}": 1, f"n{2 * k + 1}": 1}}} for k in range(2)
        }
    }
    assert [str(one) for one in apportion.check(given, both).violations] == [
        "quota[gpu of a]: claims 32, may have 16"
    ]


def test_the_independent_checker_reads_what_a_proof_of_a_placement_is_about() -> None:
    """Statements were of options, proofs of placed shapes: every proof was refused."""
    for more in ({}, {"tenants": [{"id": "a", "quotas": {"gpu": {"borrowing_limit": 16}}}, {"id": "b"}]}):
        given = apportion.read(site(**more))
        found = apportion.solve(given, proof=True)
        assert found.proof is not None and apportion.verify(given, found.proof).proved
        statement = json.loads(json.dumps(statement_of(given, found.plan)))
        assert "plan" not in statement
        assert reference.check(statement, encode(found.proof))[0] is True
        false = found.proof.claim.bound - 0.5
        claim = replace(found.proof, claim=replace(found.proof.claim, bound=false))
        assert reference.check(statement, encode(claim))[0] is not True


def test_a_share_that_has_no_place_on_the_nodes_is_not_due() -> None:
    """16 of 32 GPUs are free for `b`, one node in each rack: its gang has no place there."""
    jobs = site()["jobs"]
    for job, nodes in zip(jobs, (("n0",), ("n2",), (), ()), strict=True):
        if nodes:
            job["options"] = [{"id": "8", "pods": [{"needs": {"gpu": 8}}]}]
            job |= {"current": {"option": "8", "on": {"pods": {nodes[0]: 1}}}, "preemptible": False}
    found = apportion.solve(apportion.read(site(jobs=jobs, fairness={"share": "dominant_share"})))
    assert found.termination == "optimal" and found.floors == {"a": 16, "b": 0}
    assert [(one.name, one.evidence) for one in found.levels] == [("b", "by_search"), ("a", "by_search")]
    free = [{**job, "preemptible": True} for job in jobs[:2]] + jobs[2:]
    found = apportion.solve(apportion.read(site(jobs=free, fairness={"share": "dominant_share"})))
    assert found.floors == {"a": 16, "b": 16}


def test_pods_of_which_some_may_have_no_node_are_refused_beside_tenants() -> None:
    jobs = site()["jobs"]
    jobs[0]["options"] = [{"id": "some", "pods": [{"count": 3, "least": 1, "needs": {"gpu": 1}}]}]
    with pytest.raises(apportion.InvalidInstance, match=r"options\[0\]\.pods\[0\]\.least: does not go"):
        apportion.read(site(jobs=jobs))


def test_tenants_are_explained_and_changed() -> None:
    quota = {"gpu": {"guarantee": 16, "borrowing_limit": 0}}
    given = apportion.read(site(tenants=[{"id": "a", "quotas": quota}, {"id": "b"}]))
    found = apportion.solve(given)
    assert found.floors == {"a": 16} and found.objective == 2.0
    text = str(apportion.explain(given, found))
    assert "gpu: uses 16, 16 guaranteed" in text and "waits" in text
    session = apportion.Session(given)
    assert session.decide().objective == 2.0
    session.remove_job("b0")
    plan: Any = session.decide().plan
    assert {*plan["placement"]} in ({"a0", "b1"}, {"a1", "b1"})


def _between_three(seed: int) -> PlacementInstance:
    """Return menus of three tenants on sixteen nodes, which have room for half of what they want."""
    made = generate_menus(seed, 24, 16)
    jobs = tuple(structs.replace(job, tenant=f"t{at % 3}") for at, job in enumerate(made.jobs))
    return structs.replace(made, jobs=jobs, tenants=tuple(Tenant(f"t{at}") for at in range(3)))


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_rounded_patterns_keep_floors_under_every_tenant(seed: int) -> None:
    instance = under_floors(_between_three(seed), dict.fromkeys(("t0", "t1", "t2"), 450))
    near = PlacementByBundle(instance)
    menus = near.pod_menus()
    assert menus is not None and near.keeps is not None
    found = relaxed(menus, None)
    assert found is not None and found.within
    *_, (rows, nodes) = rounded(menus, found, None, near.keeps)
    assert near.keeps(rows, nodes)
    worth = float(menus.values[rows[rows >= 0]].sum())
    assert 0.93 * found.worth <= worth <= found.worth * (1 + 1e-9)
    # and where it begins with a plan, that is on the nodes where its pods are
    choice = near.placed_on(rows, nodes)
    assert choice is not None
    known = {name: packing.known or () for name, packing in near.packings(choice).items()}
    assert kind_of(instance).check(instance, near.plan_on(choice, known)).feasible
    lying = near.lying(choice)
    assert {row: sorted(lying[row]) for row in rows[rows >= 0].tolist()} == {
        row: sorted(nodes[job]) for job, row in enumerate(rows.tolist()) if row >= 0
    }


def test_floors_that_nodes_cannot_hold_are_said_to_be_beyond() -> None:
    instance = under_floors(_between_three(0), dict.fromkeys(("t0", "t1", "t2"), 1200))  # a node is 96
    menus = PlacementByBundle(instance).pod_menus()
    assert menus is not None
    found = relaxed(menus, None)
    assert found is not None and not found.within
