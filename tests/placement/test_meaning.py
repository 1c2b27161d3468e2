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


@pytest.mark.one_in(6)
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


NODES = [{"names": f"n{k}", "at": {"rack": f"r{k // 2}"}, "capacity": {"gpu": 9}} for k in range(4)]
TWO = [
    {"name": "p", "count": 3, "needs": {"gpu": 1}, "least": 0},
    {"name": "q", "needs": {"gpu": 2}, "least": 0},
]
HELD = {"option": "run", "on": {"p": {"n0": 2, "n2": 1}, "q": {"n1": 1}}}
NOW = {"option": "run", "on": {"p": {"n0": 2, "n2": 1}, "q": {"n1": 1}, "lost": {"n0": 1}}}


@pytest.mark.parametrize(
    ("when", "on", "total"),
    [
        ("after", {"p": {"n0": 1, "n1": 2}, "q": {"n1": 1}}, 5),
        ("during", {"p": {"n0": 2, "n2": 1}, "q": {"n1": 1}}, 4),  # all stay
        ("during", {"p": {"n1": 3}}, 5),  # three come where two are, the other pod leaves
        ("during", {"p": {"n2": 3}, "q": {"n3": 1}}, 4),  # all leave, all count before they have
        ("new", {"p": {"n1": 3}, "q": {"n0": 1}}, 1),  # moves within the rack are none
        ("new", {"p": {"n2": 3}}, 0),
    ],
)
def test_limits_count_pods_before_and_after(when: str, on: dict[str, Any], total: int) -> None:
    """The rack r0 holds n0 and n1; pods of a name that is lost count nowhere."""
    job = {"id": "a", "current": NOW, "options": [{"id": "run", "pods": TWO}]}
    for limit in (total - 1, total):
        rule = {"rule": "limit", "level": "rack", "resource": "gpu", "limits": {"r0": limit}, "when": when}
        told = {"kind": "placement", "schema_version": "1", "levels": ["rack", "node"], "nodes": NODES}
        if limit >= 0:
            given = apportion.read({**told, "jobs": [job], "rules": [rule]})
            plan = {"placement": {"a": {"option": "run", "on": on}}}
            assert kind_of(given).check(given, plan).feasible == (limit == total)


@pytest.mark.parametrize(
    ("job", "on", "rules"),
    [
        ({"fixed": True}, {"p": {"n0": 2, "n2": 1}, "q": {"n2": 1}}, ["fixed"]),
        ({"fixed": True, "current": HELD}, {"p": {"n0": 2, "n2": 1}, "q": {"n1": 1}}, []),
        ({"fixed": True}, {"p": {"n0": 2, "n2": 1}, "q": {"n1": 1}}, ["fixed"]),  # other pods are lost
        (
            {"options": [{"id": "run", "pods": TWO, "required": "rack"}]},
            {"p": {"n0": 3}, "q": {"n2": 1}},
            ["level"],
        ),
        ({"options": [{"id": "run", "pods": TWO, "required": "rack"}]}, {"p": {"n0": 3}, "q": {"n1": 1}}, []),
    ],
)
def test_what_one_job_may_have(job: dict[str, Any], on: dict[str, Any], rules: list[str]) -> None:
    told = {"kind": "placement", "schema_version": "1", "levels": ["rack", "node"], "nodes": NODES}
    own = {"id": "a", "current": NOW, "options": [{"id": "run", "pods": TWO}], **job}
    given = apportion.read({**told, "jobs": [own, {**own, "id": "b"}]})
    got = {"option": "run", "on": on}
    report = kind_of(given).check(given, {"placement": {"a": got, "b": got}})
    assert [one.rule for one in report.violations] == 2 * rules


def test_every_job_of_a_wrong_plan_is_named() -> None:
    given = apportion.read(
        {"kind": "placement", "schema_version": "1", "levels": ["rack", "node"], "nodes": NODES, "jobs": []}
    )
    report = kind_of(given).check(given, {"placement": {"a": 1, "b": {"option": "run"}, "c": None}})
    assert [one.subject for one in report.violations] == ["a", "b", "c"]
    job = {"id": "a", "options": [{"id": "run", "pods": TWO}]}
    given = apportion.read(
        {
            **{"kind": "placement", "schema_version": "1", "levels": ["rack", "node"], "nodes": NODES},
            "jobs": [job, {**job, "id": "b"}],
        }
    )
    wrong = [{"option": "x", "on": {}}, {"option": "run"}, {"option": "run", "on": {"others": {}}}]
    for first in wrong:
        for second in wrong:
            report = kind_of(given).check(given, {"placement": {"a": first, "b": second}})
            assert [one.subject for one in report.violations] == ["a", "b"]


def test_pods_that_need_what_no_node_has_have_no_node() -> None:
    job = {"id": "a", "options": [{"id": "run", "value": 1, "pods": [{"needs": {"licence": 1}}]}]}
    told = {"kind": "placement", "schema_version": "1", "levels": ["rack", "node"], "nodes": NODES}
    given: Any = apportion.read({**told, "jobs": [job]})
    plan = {"placement": {"a": {"option": "run", "on": {"pods": {"n0": 1}}}}}
    assert [one.rule for one in kind_of(given).check(given, plan).violations] == ["node"]
    for way in ("by_shape", "by_pod"):
        assert apportion.solve(given, formulation=way).objective == 0.0
    assert apportion.Session(given).decide(policy="kueue").objective == 0.0


def test_a_balance_of_what_no_node_has_is_even() -> None:
    told = {
        "kind": "placement",
        "schema_version": "1",
        "levels": ["rack", "node"],
        "nodes": NODES,
        "jobs": [],
    }
    goals = [{"goal": "value"}, {"goal": "balance", "level": "rack", "resource": "pods"}]
    given: Any = apportion.read({**told, "goals": goals})
    solution = apportion.solve(given)
    assert [goal.value for goal in solution.goals] == [0]


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


def words(jobs: list[dict[str, Any]], placement: dict[str, Any], job: int = 0) -> list[str]:
    """Return what is said of a job in a plan of ten nodes of four GPUs in two racks."""
    from apportion.instances.placement.placed import Placed, remarks

    nodes = [{"names": "n[0-9]", "at": {"rack": "r[0-1]"}, "capacity": {"gpu": 4}}]
    head = {"kind": "placement", "schema_version": "1", "levels": ["rack", "node"], "nodes": nodes}
    given: Any = apportion.read({**head, "jobs": jobs})
    return list(remarks(Placed.of(given, {"placement": placement}), given.jobs[job]))


def option(*pods: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"id": "run", "value": 1, "pods": [{"needs": {"gpu": 1}, **one} for one in pods], **fields}


def test_what_a_job_has_is_said_by_node() -> None:
    runs = {"option": "run", "on": {"pods": {"n0": 2, "n1": 1}}}
    one = [{"id": "a", "current": runs, "options": [option({"count": 3})]}]
    assert words(one, {"a": runs}) == ["on n0 x2, n1"]
    # a pod that runs somewhere else has moved; with one there more, and one here less
    moved = {"option": "run", "on": {"pods": {"n0": 1, "n1": 1, "n2": 1}}}
    assert words(one, {"a": moved}) == ["on n0, n1, n2", "1 of its pods move or stop"]
    # what stops is no node's: the job waits, and says that it ran
    assert words(one, {}) == [
        "it runs now and is stopped",
        "run: of 3 pods 3 fit beside the others, 3 on empty nodes",
    ]
    assert words([{"id": "a", "options": [option({"count": 41})]}], {}) == [
        "run: of 41 pods 40 fit beside the others, 40 on empty nodes"
    ]


@pytest.mark.parametrize(("pods", "more"), [(8, ""), (9, " and 1 more"), (10, " and 2 more")])
def test_eight_nodes_are_named_and_the_others_counted(pods: int, more: str) -> None:
    on = {f"n{k}": 1 for k in range(pods)}
    named = ", ".join(list(on)[:8])
    jobs = [{"id": "a", "options": [option({"count": pods})]}]
    assert words(jobs, {"a": {"option": "run", "on": {"pods": on}}}) == [f"on {named}{more}"]


def test_several_pods_of_a_job_have_their_names_beside_them() -> None:
    both = [{"id": "a", "options": [option({"name": "leader", "count": 1}, {"name": "workers", "count": 2})]}]
    on = {"leader": {"n0": 1}, "workers": {"n1": 2}}
    assert words(both, {"a": {"option": "run", "on": on}}) == ["leader on n0", "workers on n1 x2"]
    assert words(both, {"a": {"option": "run", "on": {"leader": {"n0": 1}}}})[1] == "workers on no node"
    assert words(both, {}) == [
        "run: of 1 pods 'leader' 1 fit beside the others, 1 on empty nodes",
        "run: of 2 pods 'workers' 2 fit beside the others, 2 on empty nodes",
    ]


@pytest.mark.parametrize("whole", [False, True])
def test_how_many_fit_in_one_place_is_said_of_the_best_one(whole: bool) -> None:
    asked = option({"count": 30}, required="rack") if whole else option({"count": 30, "required": "rack"})
    beside = {"id": "b", "options": [option({"count": 7})]}
    on = {"n0": 4, "n1": 1, "n5": 2}  # five of the first rack, two of the second
    got = words([{"id": "a", "options": [asked]}, beside], {"b": {"option": "run", "on": {"pods": on}}})
    assert got == [
        "run: 30 pods must lie in one rack: 18 fit beside the others (in r1), 20 in an empty one; "
        "none fits on 1 of 10 nodes (no room of gpu: 1)"
    ]
    few = [{"id": "a", "options": [option({"count": 3, "required": "rack"})]}, beside]
    assert words(few, {}) == [
        "run: 3 pods must lie in one rack: 3 fit beside the others (in r0), 3 in an empty one"
    ]
