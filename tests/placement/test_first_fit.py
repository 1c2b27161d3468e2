"""Plans found job by job: they keep every rule, are made better, and are what a search begins with."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from random import Random
from typing import Any

import msgspec
import pytest

import apportion
from apportion.instances.kinds import kind_of
from apportion.instances.placement import first_fit as module
from apportion.instances.placement.first_fit import first_fit, fit_all
from apportion.instances.placement.generator import generate
from apportion.instances.placement.kind import as_fixed
from tests.hunt.placement import drawn

RULES: dict[str, list[dict[str, Any]]] = {
    "nodes kept free": [{"rule": "keep_free", "level": "node", "places": 2, "resource": "gpu"}],
    "least use": [{"rule": "least_use", "level": "node", "resource": "gpu", "fraction": 0.25}],
    "two pods of a job on a node": [{"rule": "spread", "level": "node", "by": "job", "max": 2}],
    "nodes of one job": [{"rule": "exclusive", "level": "node", "by": "job"}],
}


@pytest.fixture(autouse=True)
def fewer_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_TRIES", 500)


def pods_on_nodes(
    rules: list[dict[str, Any]],
    pods: dict[str, Any] | None = None,
    goals: Sequence[dict[str, Any]] = ({"goal": "value"},),
) -> Any:
    """Return some 300 pods of one GPU on 32 nodes, a third of whose jobs run, which is worth 59."""
    told = json.loads(msgspec.json.encode(generate(31, 40, 4, nodes=8, running=0.3, scattered=True)))
    for job in told["jobs"]:
        for option in job["options"]:
            option["pods"] = [{**one, **(pods or {})} for one in option["pods"]]
    return apportion.read({"kind": "placement", **told, "rules": rules, "goals": goals})


def never() -> bool:
    return False


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
def test_a_plan_keeps_the_rules_and_is_made_better(rules: list[dict[str, Any]]) -> None:
    given = pods_on_nodes(rules)
    check = kind_of(given).check
    once, better = (first_fit(given, never, enough) for enough in (lambda: True, never))
    values = [check(given, plan).objective for plan in (once, better)]
    assert all(check(given, plan).feasible for plan in (once, better))
    assert values[0] is not None and values[1] is not None and 100.0 < values[0] <= values[1]
    assert values[0] < values[1] or rules not in (RULES["least use"], RULES["nodes kept free"])
    assert better == first_fit(given, never, never)  # no chance in it, and no clock


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
def test_a_search_ends_with_no_less(rules: list[dict[str, Any]]) -> None:
    """One over single pods ended with what runs, or with nothing where that broke a rule."""
    given = pods_on_nodes(rules)
    plan = first_fit(given, never, lambda: True)
    alone = kind_of(given).check(given, plan).objective
    solution = apportion.solve(given, deterministic=True, work_limit=20)
    assert solution.objective is not None and alone is not None and solution.objective >= alone


@pytest.mark.parametrize(
    "pods",
    [{"slices": {"rack": 1, "node": 1}}, {"slices": {"rack": 2}, "count": 4}, {"preferred": "node"}],
    ids=["slices of one", "slices of two", "preferred"],
)
def test_levels_of_pods_are_kept(pods: dict[str, Any]) -> None:
    given = pods_on_nodes([], pods)
    plan = first_fit(given, never, lambda: True)
    report = kind_of(given).check(given, plan)
    assert report.feasible and report.objective is not None and report.objective > 60.0


def test_no_time_leaves_what_runs() -> None:
    given = pods_on_nodes([])
    runs = {job.id: job.current for job in given.jobs if job.current is not None}
    plan = first_fit(given, lambda: True, lambda: True)
    assert plan is not None and set(runs) <= set(plan["placement"])


def test_who_runs_stays_where_that_is_wanted_first() -> None:
    given = pods_on_nodes([], goals=[{"goal": "pods_moved"}, {"goal": "jobs_stopped"}])
    plan = first_fit(given, never, never)
    report = kind_of(given).check(given, plan)
    assert report.feasible and report.objective == 0.0
    assert plan is not None and len(plan["placement"]) > sum(job.current is not None for job in given.jobs)


def test_few_pods_and_tenants_are_left_to_the_search() -> None:
    assert first_fit(generate(1, 6, 2, nodes=4), never, never) is None


ODD: list[tuple[dict[str, Any], float | None]] = [
    ({"options": [{"id": "o", "value": 3, "pods": [], "required": "rack"}]}, 8.0),
    ({"options": []}, 5.0),
    ({"options": [{"id": "o", "value": 3, "pods": [{"count": 2, "needs": {"tpu": 1}}]}]}, 5.0),
    ({"options": [{"id": "o", "value": 3, "pods": [{"count": 2, "needs": {}}]}]}, 8.0),
    ({"required": True, "options": [{"id": "o", "pods": [{"count": 400, "needs": {"gpu": 1}}]}]}, None),
    (
        {
            "current": {"option": "gone", "on": {"pods": {"n77": 2}}},
            "options": [{"id": "o", "value": 3, "pods": [{"count": 2, "needs": {"gpu": 1}}]}],
        },
        8.0,
    ),
    (
        {
            "fixed": True,
            "current": {"option": "o", "on": {"pods": {"n77": 2}}},
            "options": [{"id": "o", "value": 3, "pods": [{"count": 2, "needs": {"gpu": 1}}]}],
        },
        8.0,
    ),
]


@pytest.mark.parametrize(("job", "value"), ODD)
def test_options_of_no_pods_and_nodes_that_are_gone_are_no_error(
    job: dict[str, Any], value: float | None
) -> None:
    nodes = [{"names": "n[0-31]", "at": {"rack": "r[0-3]"}, "capacity": {"gpu": 8}}]
    head = {"kind": "placement", "schema_version": "1", "levels": ["rack", "node"], "nodes": nodes}
    other = {"id": "b", "options": [{"id": "o", "value": 5, "pods": [{"count": 40, "needs": {"gpu": 1}}]}]}
    rules = RULES["nodes kept free"]
    given: Any = apportion.read({**head, "rules": rules, "jobs": [{"id": "a", **job}, other]})
    plan = first_fit(as_fixed(given), never, never)
    assert (None if plan is None else kind_of(given).check(given, plan).objective) == value
    assert apportion.solve(given, time_limit=60.0).objective == value


@pytest.mark.one_in(4)
@pytest.mark.parametrize("part", range(4))
def test_no_plan_of_a_drawn_round_breaks_a_rule(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every pair of rules; most rounds have one, and the search from it finds as much as without it."""
    monkeypatch.setattr(module, "_FEW", 0)
    found = 0
    for number in itertools.islice(itertools.count(part, 4), 150):
        _, told = drawn(number, seed=20261129)
        given: Any = apportion.read(told)
        plan = first_fit(given, never, never)
        if plan is not None:
            found += 1
            assert kind_of(given).check(given, plan).feasible, (number, plan)
    assert found > 75


def filled(seed: int) -> Any:
    """Return jobs of which all must run and of which the nodes of three racks hold no more."""
    rng, jobs, left = Random(seed), list[dict[str, Any]](), {f"n{k}": 8 for k in range(24)}
    while max(left.values()) > 1:
        first, each = rng.choice((0, 8, 16)), rng.choice((2, 3, 5))
        rack = [f"n{first + k}" for k in range(8)]
        on = {node: left[node] // each for node in rack if left[node] >= each}
        count = min(sum(on.values()), rng.choice((1, 2, 4, 8)))
        taken = 0
        for node in on:
            some = min(on[node], count - taken)
            left[node], taken = left[node] - some * each, taken + some
        pods = {"name": "p", "count": taken, "needs": {"gpu": each}, "required": "rack"}
        option = {"id": "run", "value": 1.0, "pods": [pods]}
        jobs += [{"id": f"j{len(jobs)}", "options": [option], "required": True}] if taken else []
    nodes = [
        {"names": f"n[{8 * k}-{8 * k + 7}]", "capacity": {"gpu": 8}, "at": {"rack": f"r{k}"}}
        for k in range(3)
    ]
    told = {"schema_version": "1", "kind": "placement", "levels": ["rack", "node"], "nodes": nodes}
    return apportion.read({**told, "jobs": jobs})


def test_others_make_way_for_a_job_that_finds_no_room() -> None:
    """Full racks are packed where the smallest jobs came first, and the largest found no room."""
    short = packed = 0
    for given in map(filled, range(40)):
        fit = module._FirstFit(given)
        fit.fill(sorted(given.jobs, key=fit.size), never)
        some = fit.unplaced()
        fit.make_room(never)
        assert sum(fit.size(job)[1] for job in fit.unplaced()) <= sum(fit.size(job)[1] for job in some)
        if some and not fit.unplaced():
            assert kind_of(given).check(given, {"placement": fit.plan}).feasible
            packed += 1
        short += bool(some)
    assert short > 20 and packed > short // 2, (short, packed)


def test_jobs_are_placed_where_they_lie_in_another_plan() -> None:
    given = next(
        given for given in map(filled, range(40)) if len(fit_all(given, {}, never)) < len(given.jobs)
    )
    exact = apportion.solve(given).require()["placement"]
    assert fit_all(given, exact, lambda: True) == exact
