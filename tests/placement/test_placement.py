"""Tiny placements beside enumeration, what is wrong with an instance, and what the command prints."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

import apportion
from apportion.cli.main import main
from apportion.cli.solve_instance import main as solve
from apportion.cluster.policies.rounds.greedy_placing import PLACEMENT_POLICIES
from apportion.core.errors import InvalidInstance
from apportion.explanation import explain
from apportion.instances import edits
from apportion.instances.placement.generator import generate
from apportion.instances.placement.moves import steps
from apportion.instances.placement.placed import Placed
from apportion.instances.placement.site import PODS, site_of
from apportion.io.stored import document, verify
from tests.budgets import examples
from tests.cli.calling import call
from tests.hunt import explained_placements
from tests.hunt.placement import drawn, wrong

TOLD: dict[str, Any] = {
    "kind": "placement",
    "schema_version": "1",
    "levels": ["rack", "node"],
    "nodes": [{"names": "n[0-3]", "at": {"rack": "r[0-1]"}, "capacity": {"gpu": 4}}],
    "jobs": [
        {
            "id": "a",
            "options": [
                {"id": "run", "value": 5, "pods": [{"count": 8, "needs": {"gpu": 1}, "required": "rack"}]}
            ],
        },
        {
            "id": "b",
            "current": {"option": "run", "on": {"pods": {"n0": 1, "n2": 1}}},
            "options": [{"id": "run", "value": 1, "pods": [{"count": 2, "needs": {"gpu": 1}}]}],
        },
    ],
}


@pytest.mark.one_in(8)
@pytest.mark.parametrize("part", range(8))
def test_tiny_rounds_equal_enumeration(part: int) -> None:
    """Every pair of rules; the hunt goes on from here."""
    for number in range(200 * part, 200 * (part + 1)):
        rng, told = drawn(number, seed=20261125)
        assert list(wrong(rng, told, plans=number % 5 == 0)) == [], json.dumps(told)


@pytest.mark.parametrize("backend", ["highs", "cp-sat"])
def test_other_backends_find_the_same(backend: str) -> None:
    for number in range(30):
        rng, told = drawn(number, seed=7)
        assert list(wrong(rng, told, backend)) == [], json.dumps(told)


def test_a_gang_gets_a_rack_by_one_move() -> None:
    solution = apportion.solve(apportion.read(TOLD))
    assert solution.objective == 6.0
    assert [(goal.name, goal.value, goal.bound) for goal in solution.goals] == [
        ("jobs_stopped", 0, 0),
        ("pods_moved", 1, 1),
    ]


def test_a_lost_node_is_a_change_of_the_instance() -> None:
    left = edits.remove_nodes(apportion.read(TOLD), ["n1"])
    solution = apportion.solve(left)
    assert solution.objective == 6.0
    assert solution.plan is not None
    assert set(solution.plan["placement"]["a"]["on"]["pods"]) == {"n2", "n3"}


def test_rules_say_nothing_of_nodes_and_jobs_that_left() -> None:
    rules = [
        {"rule": "drain", "nodes": ["n3"]},
        {"rule": "limit", "level": "node", "resource": "gpu", "limits": {"n0": 1, "n3": 2}},
        {"rule": "apart", "level": "node", "pairs": [["n0", "n1"], ["n2", "n3"]]},
        {"rule": "least_use", "level": "node", "resource": "gpu", "fraction": 0.25, "places": ["n3"]},
        {"rule": "avoid", "pods": ["a", "b/pods"], "level": "node", "places": ["n2", "n3"]},
    ]
    pods = TOLD["jobs"][1]["options"][0]["pods"][0] | {"value_at": {"n3": 2}}
    job = TOLD["jobs"][1] | {"options": [{"id": "run", "pods": [pods]}]}
    goals = [{"goal": "left", "nodes": ["n2", "n3"]}, [{"goal": "used", "level": "node", "cost": {"n3": 5}}]]
    session = apportion.Session(
        apportion.read({**TOLD, "jobs": [TOLD["jobs"][0], job], "rules": rules, "goals": goals})
    )
    session.apply({"op": "remove_nodes", "nodes": ["n3"]}, {"op": "remove_job", "id": "b"})
    left: Any = session.instance
    assert [msgspec.to_builtins(rule) for rule in left.rules] == [
        {"rule": "drain", "nodes": ()},
        {**rules[1], "when": "after", "limits": {"n0": 1}},
        {**rules[2], "pairs": (("n0", "n1"),)},
        {**rules[4], "pods": ("a",), "places": ("n2",)},
    ]
    assert left.goals[0].nodes == ("n2",) and left.goals[1][0].cost == {}
    with pytest.raises(InvalidInstance, match="'n1' is no node"):
        session.apply(
            {"op": "set_fields", "fields": {"rules": [{"rule": "moving", "to": {"a": "n1"}}]}},
            {"op": "remove_nodes", "nodes": ["n1"]},
        )


@pytest.mark.parametrize("tenants", [False, True])
@pytest.mark.parametrize("lost", [None, {"ready": False}, {"taints": ["broken"]}, {"capacity": {}}], ids=str)
def test_a_job_that_must_stay_is_placed_anew_where_its_node_is_lost(lost: Any, tenants: bool) -> None:
    site = [{"names": f"n{k}", "at": {"rack": "r"}, "capacity": {"gpu": 4}} for k in (0, 1, 3)]
    site += [] if lost is None else [{"names": "n2", "at": {"rack": "r"}, "capacity": {"gpu": 4}, **lost}]
    stays = {"tenant": "t", "preemptible": False} if tenants else {"fixed": True}
    other = {**TOLD["jobs"][0], **({"tenant": "t"} if tenants else {})}
    told = {**TOLD, "nodes": site, "jobs": [other, {**TOLD["jobs"][1], **stays}]}
    given = apportion.read({**told, "tenants": [{"id": "t"}]} if tenants else told)
    solution = apportion.solve(given)
    assert solution.termination == "optimal" and solution.objective == 6.0
    assert sum(solution.require()["placement"]["b"]["on"]["pods"].values()) == 2
    assert verify(given, document(solution)).ok


def test_explanations_of_tiny_rounds_are_what_enumeration_says() -> None:
    """`python -m tests.hunt.explained_placements` explains more of them; rules name jobs that wait."""
    seen = Counter[str]()
    for seed in range(examples(60)):
        rng = Random(seed)
        told = explained_placements.drawn(rng)
        assert not [*explained_placements.wrong_sentences(told, rng, seen)], seed
    assert min(seen["explained"], seen["rivals"], seen["what if"]) > 2


def test_options_alone_say_nothing_of_rules_and_places() -> None:
    given = apportion.read(TOLD)
    told = apportion.solve(given, formulation="by_option")
    assert (told.termination, told.objective) == ("optimal", apportion.solve(given).objective)
    assert told.certificate.multipliers is None and verify(given, document(told)).ok
    worth = {**TOLD["jobs"][0]["options"][0]["pods"][0], "value_at": {"n0": 1.0}}
    option = {**TOLD["jobs"][0]["options"][0], "pods": [worth]}
    for beyond in (
        {"rules": [{"rule": "drain", "nodes": ["n0"]}]},
        {"goals": [{"goal": "value"}, {"goal": "used", "level": "rack"}]},
        {"jobs": [{**TOLD["jobs"][0], "options": [option]}]},
    ):
        with pytest.raises(apportion.InvalidOption, match="values of options alone"):
            apportion.solve(apportion.read({**TOLD, **beyond}), formulation="by_option")


def test_the_last_node_of_a_resource_may_be_lost() -> None:
    """Pods that need it were taken for pods that mean another one, and the node could not leave."""
    nodes = [{"names": "old", "capacity": {"a100": 4}}, {"names": "new", "capacity": {"h100": 4}}]
    pods = {of: [{"name": "p", "count": 2, "needs": {of: 1}}] for of in ("a100", "h100")}
    jobs = [{"id": of, "options": [{"id": "run", "value": 1.0, "pods": own}]} for of, own in pods.items()]
    head = {"kind": "placement", "schema_version": "1", "levels": ["node"]}
    session = apportion.Session(apportion.read({**head, "nodes": nodes, "jobs": jobs}))
    assert session.decide().require()["placement"].keys() == {"a100", "h100"}
    session.apply({"op": "remove_nodes", "nodes": ["new"]})
    assert session.decide().require()["placement"].keys() == {"a100"}
    with pytest.raises(apportion.InvalidInstance, match=r"did you mean 'a100'\? \(where its nodes are gone"):
        apportion.read({**head, "nodes": nodes[:1], "jobs": jobs})


def test_a_session_takes_rules_that_name_jobs_and_refuses_those_that_name_none() -> None:
    session = apportion.Session(apportion.read(TOLD))
    session.apply({"op": "set_fields", "fields": {"rules": [{"rule": "stay", "pods": ["a"]}]}})
    assert "a" not in session.decide().require()["placement"]
    session.apply({"op": "set_fields", "fields": {"name": "later"}})
    for wrong_rule, said in (({"pods": ["c"]}, "'c' is no job"), ({"pods": "a"}, "must be a list")):
        with pytest.raises(InvalidInstance, match=said) as refused:
            session.apply({"op": "set_fields", "fields": {"rules": [{"rule": "stay", **wrong_rule}]}})
        assert [problem.path for problem in refused.value.problems] == ["$.deltas[0].fields.rules[0].pods"]


def test_a_job_that_must_stay_and_is_pinned_to_another_option_has_no_plan() -> None:
    job = TOLD["jobs"][1]
    first = job["options"][0]
    stays = {**job, "options": [first, {**first, "id": "other"}], "fixed": True}
    for pinned, end in (("run", "optimal"), ("other", "infeasible")):
        given = apportion.read({**TOLD, "jobs": [{**stays, "pinned": pinned}]})
        assert apportion.solve(given).termination == end


def test_a_rule_that_cannot_be_kept_is_infeasible_for_tenants_without_jobs() -> None:
    node = {"names": "n", "at": {}, "capacity": {"gpu": 2}}
    rules = [{"rule": "keep_free", "level": "node", "resource": "gpu", "amount": 3, "places": 1}]
    tenants = [{"id": "t", "quotas": {"gpu": {"guarantee": 1}}}]
    head = {"kind": "placement", "schema_version": "1", "levels": ["node"], "nodes": [node], "jobs": []}
    found = apportion.solve(apportion.read({**head, "rules": rules, "tenants": tenants}))
    assert found.termination == "infeasible" and found.plan is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"levels": []}, "$.levels: must name one level"),
        ({"levels": ["block", "node"]}, "$.nodes[0].at: must name the block of these nodes"),
        ({"rules": [{"rule": "drain", "nodes": ["n9"]}]}, "$.rules[0].nodes: 'n9' is no node"),
        (
            {"rules": [{"rule": "spread", "level": "rck", "by": "job", "max": 1}]},
            "'rck' is not one of the levels",
        ),
        ({"rules": [{"rule": "stay", "pods": ["c"]}]}, "$.rules[0].pods: 'c' is no job"),
        (
            {"rules": [{"rule": "limit", "level": "rack", "resource": "tpu", "limits": {}}]},
            "no node has any 'tpu'",
        ),
        ({"rules": [{"rule": "apart", "level": "rack", "pairs": [["r0", "r7"]]}]}, "'r7' is no rack"),
        ({"goals": [[{"goal": "value"}, {"goal": "pods_moved"}]]}, "value stands alone"),
        ({"goals": []}, "$.goals: must name one goal"),
        (
            {"nodes": [{"names": "n[0-2]", "at": {"rack": "r[0-1]"}, "capacity": {}}]},
            "3 nodes cannot lie in 2",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_place(change: dict[str, Any], said: str) -> None:
    with pytest.raises(apportion.InvalidInstance) as caught:
        apportion.read({**TOLD, **change})
    assert said in str(caught.value)


def test_the_command_solves_the_file_to_start_from(tmp_path: Path) -> None:
    path = tmp_path / "start.yaml"
    assert call(main, "init", "placement", "-o", path).code == 0
    told = call(solve, path)
    assert told.code == 0
    assert "termination     optimal" in told.out
    assert "jobs_stopped 0; pods_moved 2; used(node) 5" in told.out


def test_kueue_waits_where_an_exact_plan_admits() -> None:
    """Racks of 6 and 5 free hosts, gangs of 3, 3 and 5 hosts in that order, each in one rack."""
    told = {
        **TOLD,
        "nodes": [
            {"names": "a[0-5]", "at": {"rack": "r0"}, "capacity": {"gpu": 1}},
            {"names": "b[0-4]", "at": {"rack": "r1"}, "capacity": {"gpu": 1}},
        ],
        "jobs": [
            {
                "id": f"j{number}",
                "options": [
                    {"id": "run", "value": 1, "pods": [{"count": n, "needs": {"gpu": 1}, "required": "rack"}]}
                ],
            }
            for number, n in enumerate((3, 3, 5))
        ],
    }
    session = apportion.Session(apportion.read(told))
    greedy, exact = session.decide(policy="kueue"), session.decide()
    assert (greedy.solution.objective, exact.solution.objective) == (2.0, 3.0)
    assert greedy.solution.certificate.bound is not None and greedy.solution.certificate.bound >= 3.0
    with pytest.raises(apportion.InvalidOption, match="kueue"):
        session.decide(policy="magic")


def test_no_node_is_overfull_on_the_way_to_a_plan() -> None:
    """Step by step, from every drawn placement that keeps the nodes' room to its optimum."""
    moved = 0
    count = examples(3000)
    for number in range(count):
        _, told = drawn(number, seed=12)
        given: Any = apportion.read(told)
        site = site_of(given)
        now = {job["id"]: job["current"] for job in told["jobs"] if job.get("current")}
        before = Placed(given, site, {name: one for name, one in now.items() if one["option"] != "lost"})
        if len(before.given) < len(now) or overfull(before.before, before) or "gone" in json.dumps(now):
            continue
        plan: Any = apportion.solve(given).plan
        if plan is None:
            continue
        at = {of: dict(on) for of, on in before.before.items()}
        for step in steps(given, plan):
            where = at.setdefault((step.job, step.pods), {})
            if step.source:
                where[step.source] -= step.number
            if step.target:
                where[step.target] = where.get(step.target, 0) + step.number
            assert not overfull(at, before), (told, plan, step)
            moved += step.does == "move"
        after = Placed(given, site, plan["placement"]).after
        assert {of: left for of, on in at.items() if (left := {k: n for k, n in on.items() if n})} == {
            of: on for of, on in after.items() if on
        }
    assert moved > count / 150


def overfull(at: Any, placed: Placed) -> bool:
    """Return whether pods at nodes need more than there is."""
    for resource in {*placed.site.resources, PODS}:
        if not placed.site.limits(resource):
            continue
        free = dict(zip(placed.site.nodes, placed.site.free(resource).tolist(), strict=True))
        for node, room in free.items():
            used = sum(
                on.get(node, 0) * placed.amount(of, resource) for of, on in at.items() if of in placed.pods
            )
            if used > room:
                return True
    return False


def test_why_a_gang_waits_is_told_by_what_fits_where() -> None:
    """Two running jobs may not move: of eight pods in one rack three fit, and all in an empty one."""
    told = {
        **TOLD,
        "rules": [{"rule": "stay", "pods": ["b", "c"]}],
        "jobs": [
            *TOLD["jobs"],
            {
                "id": "c",
                "current": {"option": "run", "on": {"pods": {"n1": 4, "n3": 3}}},
                "options": [{"id": "run", "value": 1, "pods": [{"count": 7, "needs": {"gpu": 1}}]}],
            },
        ],
    }
    explanation = explain(apportion.read(told))
    waits, stays = explanation.jobs[0], explanation.jobs[1]
    assert waits.remarks == (
        "run: 8 pods must lie in one rack: 4 fit beside the others (in r1), 8 in an empty one; "
        "none fits on 1 of 4 nodes (no room of gpu: 1)",
        "under the rules it cannot be placed, whoever makes room",
    )
    assert stays.remarks == ("on n0, n2",)
    assert "one more unit" not in str(explanation)
    free = {**told, "rules": [{"rule": "max_moves", "limit": 0}]}  # of today's plan, not of this question
    assert explain(apportion.read(free), job="a").jobs[0].remarks[1] == (
        "run would be placed if b stops and 3 pods of c move"
    )


AVOID = {"rule": "avoid", "level": "node", "places": ["n1"], "pods": ["j0", "j3"]}
LIMIT = {"rule": "limit", "level": "node", "resource": "gpu", "limits": {"n2": 3}}


@pytest.mark.parametrize("rules", [[], [AVOID], [LIMIT]], ids=["no rule", "avoid", "limit"])
def test_pods_of_many_jobs_on_few_nodes_are_placed_well(rules: list[Any]) -> None:
    """Some 300 pods of one GPU on 32 nodes: a search over pods alone ended with what runs, worth 59."""
    told = json.loads(msgspec.json.encode(generate(31, 40, 4, nodes=8, running=0.3, scattered=True)))
    given = apportion.read({"kind": "placement", **told, "rules": rules})
    solution = apportion.solve(given, time_limit=60.0)
    again = apportion.solve(given, backend="highs", formulation="by_bundle", time_limit=60.0)
    assert solution.termination == again.termination == "optimal"
    assert solution.objective == pytest.approx(again.objective)
    assert all(goal.proven for goal in solution.goals)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("scattered", [False, True])
def test_formulations_and_backends_agree_on_generated_rounds(seed: int, scattered: bool) -> None:
    given = generate(seed, 6, 2, nodes=2, scattered=scattered)
    answers = [
        apportion.solve(given, backend=backend, formulation=way, time_limit=120.0)
        for backend, way in (("auto", None), ("auto", "by_pod"), ("highs", None))
    ]
    told = [(one.objective, [(goal.value, goal.bound) for goal in one.goals]) for one in answers]
    assert all(one.termination == "optimal" for one in answers)
    assert told[0][0] == pytest.approx(told[1][0]) == pytest.approx(told[2][0])
    assert told[0][1] == told[1][1] == told[2][1]
    assert all(value == bound for value, bound in told[0][1])


def test_gangs_share_a_place_of_either_of_two_trees() -> None:
    """Half of every rack is on either feed: two gangs have a rack, and two what is left of a feed."""
    nodes = [
        {
            "names": f"n[{4 * k}-{4 * k + 3}]",
            "at": {"rack": f"r{k}", "feed": "f[0-1]"},
            "capacity": {"gpu": 8},
        }
        for k in range(4)
    ]
    jobs = [
        {
            "id": f"j{k}",
            "options": [
                {
                    "id": "x",
                    "value": 3.0 + k,
                    "pods": [{"count": 4, "needs": {"gpu": 5 + k}, "required": level}],
                }
            ],
        }
        for k, level in enumerate(("rack", "feed", "feed", "rack"))
    ]
    head = {"kind": "placement", "schema_version": "1", "levels": ["rack", "node"], "trees": [["feed"]]}
    given: Any = apportion.read({**head, "nodes": nodes, "jobs": jobs})
    site = site_of(given)
    for way in (None, "by_bundle", "by_pod"):
        found = apportion.solve(given, formulation=way)
        assert found.termination == "optimal" and found.objective == 18.0
        for job, level in (("j0", "rack"), ("j1", "feed"), ("j2", "feed"), ("j3", "rack")):
            on = found.require()["placement"][job]["on"]["pods"]
            assert len({int(site.place[level][site.number[node]]) for node in on}) == 1, (way, job)
    assert site.upwards("feed") == ("feed",) and site.upwards("node") == ("rack", "node")
    with pytest.raises(apportion.InvalidInstance, match="must name the feed"):
        apportion.read({**head, "nodes": [{"names": "n0", "at": {"rack": "r"}, "capacity": {}}], "jobs": []})
    with pytest.raises(apportion.InvalidInstance, match=r"trees\[0\]: must name one level"):
        apportion.read({**head, "trees": [[]], "nodes": nodes, "jobs": []})
    with pytest.raises(apportion.InvalidInstance, match="Kueue knows one tree of levels"):
        PLACEMENT_POLICIES["kueue"]()(given)


def test_values_are_integers_where_another_goal_comes_first() -> None:
    pods = [{"count": 1, "needs": {"gpu": 1}, "value": 0.5, "value_at": {"n1": 1.5}}]
    job = {"id": "a", "options": [{"id": "run", "value": 1.25, "pods": pods}]}
    told = {**TOLD, "jobs": [job], "goals": [{"goal": "pods_moved"}, {"goal": "value"}]}
    with pytest.raises(apportion.InvalidInstance) as error:
        apportion.read(told)
    said = str(error.value)
    for field in ("value", "pods[0].value", "pods[0].value_at.n1"):
        assert f"$.jobs[0].options[0].{field}: must be a whole number where value is not the first" in said
    assert apportion.solve(apportion.read({**told, "goals": [{"goal": "value"}]})).objective == 3.25


def test_every_node_that_holds_no_pod_has_one_reason() -> None:
    nodes = [
        {"names": "down", "capacity": {"cpu": 8, "gpu": 8}, "ready": False, "taints": ["spot"]},
        {"names": "spot[0-1]", "capacity": {"cpu": 8, "gpu": 8}, "taints": ["night", "spot"]},
        {"names": "old", "capacity": {"cpu": 8, "gpu": 8}, "labels": {"gpu": "p4"}},
        {"names": "both", "capacity": {"cpu": 8, "gpu": 8}, "used": {"cpu": 6, "gpu": 7}},
        {"names": "few", "capacity": {"cpu": 8}},
        {"names": "free", "capacity": {"cpu": 8, "gpu": 8}},
    ]
    nodes = [{"labels": {"gpu": "h100"}, **one} for one in nodes]
    pods = {"count": 3, "needs": {"gpu": 2, "cpu": 3}, "selector": {"gpu": "h100"}, "tolerates": ["night"]}
    job = {"id": "a", "options": [{"id": "run", "value": 1, "pods": [pods]}]}
    given = apportion.read({**TOLD, "levels": ["node"], "nodes": nodes, "jobs": [job]})
    assert explain(given).jobs[0].remarks[0] == (
        "run: of 3 pods 2 fit beside the others, 2 on empty nodes; none fits on 6 of 7 nodes "
        "(taint spot: 2, no room of cpu: 1, no room of gpu: 1, not ready: 1, other labels: 1)"
    )


@pytest.mark.parametrize("seed", range(10))
def test_as_many_nodes_are_refused_as_have_no_room(seed: int) -> None:
    given = generate(seed, 8, 2, nodes=4, scattered=True)
    site = site_of(given)
    free = {name: site.free(name) for name in site.limited}
    for job in given.jobs:
        for pods in job.options[0].pods:
            rooms = site.rooms(pods, free)
            assert site.refusals(pods, free).total() == int((rooms == 0).sum())
