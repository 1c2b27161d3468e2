"""HyperQueue's scheduler tests as placements: tasks by strict priority, variants, whole nodes, lifetimes.

A task is worth what its needs are of all that is free, and tasks of a priority come before all lower ones.
HyperQueue also reserves workers for tasks that wait: what rests on that is left out. Of its large rounds, in
which a task is worth more on earlier workers, nobody knows the optimum.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest

import apportion
from apportion.instances.kinds import kind_of
from apportion.instances.options import goal_values
from apportion.solving.api import check
from tests.conftest import data_folder

FILE = data_folder() / "placement" / "hyperqueue.json"
SLOTS = 1000
"""More tasks than run on any worker; a task of whole nodes takes all of these."""


GIVEN: dict[str, Any] = json.loads(FILE.read_bytes()) if FILE.is_file() else {}
LARGE = [pytest.param(case, id=case["name"]) for case in GIVEN.get("large", ())]


def cases() -> list[Any]:
    """Return the cases that strict priority decides."""
    every = GIVEN.get("cases", ())
    return [pytest.param(case, id=case["name"]) for case in every if case["strict_priority"] == "agrees"]


def free(worker: dict[str, Any], resource: str) -> int:
    """Return what of a resource is free on a worker."""
    used = sum(running.get(resource, 0) for running in worker["running"])
    return max(0, worker["total"].get(resource, 0) - used)


def options(case: dict[str, Any], request: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the options of a task: its variants, those that take all of something by what workers have."""
    workers = case["workers"]
    unit = math.lcm(*(max(1, sum(free(one, name) for one in workers)) for name in resources(case)), 1000)
    for at, variant in enumerate(request):
        least_time = {} if not variant["min_time_s"] else {f"time-{variant['min_time_s']}": "yes"}
        whole = variant["nodes"] > 0

        def worth(needs: dict[str, int], variant: dict[str, Any] = variant) -> int:
            parts = (
                Fraction(need * unit, max(1, sum(free(one, name) for one in workers)))
                for name, need in needs.items()
            )
            found = Fraction(str(variant["weight"])) * sum(parts, Fraction(0))
            assert found.denominator == 1
            return int(found)

        every = [] if whole else sorted({tuple(taken(one, variant).items()) for one in workers})
        for number, each in enumerate(every):
            needs, fits = dict(each), [name for name, need in variant["needs"].items() if need == "all"]
            labels = least_time | {f"{name}-{needs[name]}": "yes" for name in fits}
            pods = {"name": f"v{at}.{number}", "needs": {"slots": 1, **needs}, "selector": labels}
            yield {"id": f"v{at}.{number}", "value": worth(needs), "pods": [pods]}
        if whole:
            at_node = {f"w{k}": worth(one["total"]) for k, one in enumerate(workers)}
            pods = {"count": variant["nodes"], "needs": {"slots": SLOTS}, "value_at": at_node}
            yield {"id": f"v{at}", "pods": [pods | {"selector": least_time}], "required": "group"}


def taken(worker: dict[str, Any], variant: dict[str, Any]) -> dict[str, int]:
    """Return what a variant takes on a worker."""
    return {
        name: worker["total"].get(name, 0) if need == "all" else need
        for name, need in variant["needs"].items()
    }


def resources(case: dict[str, Any]) -> list[str]:
    return sorted({name for one in case["workers"] for name in one["total"]})


def placement(case: dict[str, Any]) -> dict[str, Any]:
    """Return a case as a placement."""
    times = {variant["min_time_s"] for request in case["requests"] for variant in request} - {0}
    nodes = []
    for at, worker in enumerate(case["workers"]):
        lasts = [one for one in times if worker["time_left_s"] is None or one <= worker["time_left_s"]]
        labels = [f"time-{one}" for one in lasts] + [f"{k}-{n}" for k, n in worker["total"].items()]
        used = Counter({"slots": len(worker["running"])})
        for running in worker["running"]:
            used.update(running)
        node = {"names": f"w{at}", "at": {"group": worker["group"]}, "labels": dict.fromkeys(labels, "yes")}
        nodes.append(node | {"capacity": {"slots": SLOTS, **worker["total"]}, "used": dict(used)})
    jobs = [
        {
            "id": f"b{batch}.{number}",
            "priority": task["priority"],
            "options": list(options(case, case["requests"][task["request"]])),
        }
        for batch, task in enumerate(case["tasks"])
        for number in range(task["count"])
    ]
    rules = [
        {"rule": "least_use", "level": "node", "resource": "cpus", "fraction": least, "places": [f"w{at}"]}
        for at, worker in enumerate(case["workers"])
        if (least := worker["min_utilization"])
    ]
    priorities = sorted({task["priority"] for task in case["tasks"]}, reverse=True) or [0]
    return {
        "kind": "placement",
        "schema_version": "1",
        "levels": ["group", "node"],
        "nodes": nodes,
        "jobs": jobs,
        "rules": rules,
        "goals": [{"goal": "value", "least_priority": one} for one in priorities],
    }


def expected_plan(case: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Return the plan that a case states worker by worker."""
    waiting = {job["id"]: job for job in given["jobs"]}
    plan = {}
    for at, placed in enumerate(case["expected"]["on"]):
        for one in placed:
            mine = [name for name in waiting if name.startswith(f"b{one['batch']}.")]
            variant = case["requests"][case["tasks"][one["batch"]]["request"]][one["variant"]]
            needs = {"slots": 1, **taken(case["workers"][at], variant)}
            for name in mine[: one["count"]]:
                option = next(
                    own
                    for own in waiting.pop(name)["options"]
                    if own["id"].startswith(f"v{one['variant']}.") and own["pods"][0]["needs"] == needs
                )
                on = {option["pods"][0]["name"]: {f"w{at}": 1}}
                plan[name] = {"option": option["id"], "on": on}
    return {"placement": plan}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("case", cases())
def test_what_hyperqueue_expects_is_an_optimum(case: dict[str, Any]) -> None:
    given = placement(case)
    instance: Any = apportion.read(given)
    solution: Any = apportion.solve(instance, time_limit=60.0)
    values = [solution.objective, *(goal.value for goal in solution.goals)]
    assert solution.termination == "optimal" and all(goal.proven for goal in solution.goals)
    expected, plan = case["expected"], solution.plan["placement"]
    if "on" in expected:
        stated = expected_plan(case, given)
        report = check(instance, stated)
        assert report.feasible, report
        options_of: Any = kind_of(instance).option_set
        assert [report.objective, *goal_values(options_of, instance, stated).values()] == values
    batches = Counter(int(name[1:].partition(".")[0]) for name in plan)
    if "assigned" in expected:
        assert all(one is None or batches[batch] == one for batch, one in enumerate(expected["assigned"]))
    if "by_request" in expected:
        found = Counter(case["tasks"][batch]["request"] for batch in batches.elements())
        assert [found[request] for request in range(len(expected["by_request"]))] == expected["by_request"]
    if "tasks_of_workers" in expected:
        where = Counter(node for got in plan.values() for on in got["on"].values() for node in on)
        assert [where[f"w{at}"] for at in range(len(case["workers"]))] == expected["tasks_of_workers"]


def large(case: dict[str, Any]) -> tuple[dict[str, Any], int]:
    """Return a large round as a placement, and in how many parts a value of 1 is counted."""
    names, workers = case["resources"], case["workers"]
    total = [sum(worker[at] for worker in workers) for at in range(len(names))]
    parts, jobs = 10**7, []
    for shape, (*needs, count) in enumerate(case["shapes"]):
        worth = sum(need / of for need, of in zip(needs, total, strict=True))
        there = {f"w{k}": round(parts * worth * (1 - k / len(workers))) for k in range(len(workers))}
        amounts = {name: need for name, need in zip(names, needs, strict=True) if need}
        option = {"id": "run", "pods": [{"needs": amounts, "value_at": there}]}
        jobs += [{"id": f"{shape}.{one}", "options": [option]} for one in range(count)]
    nodes = [
        {"names": f"w{k}", "at": {}, "capacity": dict(zip(names, worker, strict=True))}
        for k, worker in enumerate(workers)
    ]
    told = {"kind": "placement", "schema_version": "1", "levels": ["node"], "goals": [{"goal": "value"}]}
    return {**told, "nodes": nodes, "jobs": jobs}, parts


@pytest.mark.slow
@pytest.mark.parametrize("case", LARGE)
def test_large_rounds_come_near_the_best_plan_known(case: dict[str, Any]) -> None:
    given, parts = large(case)
    solution: Any = apportion.solve(apportion.read(given), time_limit=20.0)
    best = parts * case["best"]["value"]
    assert solution.objective >= 0.99 * best  # 0.997 on a quiet machine, in 5 s
    assert solution.bound >= (1 - 1e-6) * best
