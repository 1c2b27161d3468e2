"""Kueue's published cases of topology-aware scheduling, solved exactly: legal, proved, in no more places."""

from __future__ import annotations

import json
from typing import Any

import pytest

import apportion
from tests.conftest import data_folder
from tests.policies.topology_cases import HOST, expected, nodes_of, parts, refusal

PATH = data_folder() / "topology" / "topology_cases.json"
CASES = json.loads(PATH.read_bytes())["cases"] if PATH.is_file() else []
FEWER = {"topology_cases-114": (2, 3)}
"""Cases in which fewer hosts suffice than are stated: so many, instead of so many."""


def stated(case: dict[str, Any]) -> bool:
    """Return whether a case is one placement on hosts, of workloads that are not there yet."""
    return (
        case["kind"] == "assign"
        and case["levels"][-1] == HOST
        and "existing" not in case
        and len({node["labels"].get(HOST) for node in case["nodes"]}) == len(case["nodes"])
        and not any("previous_assignment" in pods for pods in case["pod_sets"])
        and not any(
            pods.get("group") and "required" not in pods["topology_request"] for pods in case["pod_sets"]
        )
        and not any("error" in expected(pods) for pods in case["pod_sets"])
    )


def instance(case: dict[str, Any]) -> dict[str, Any]:
    """Return a case as an instance: a job per pod set or group, as many as possible, in the fewest places."""
    names = [level.rpartition("/")[2] for level in case["levels"]]
    short = dict(zip(case["levels"], names, strict=True))
    nodes, used = [], {node["labels"][HOST]: dict[str, int]() for node in nodes_of(case)}
    for pod in case["other_pods"]:
        if pod["phase"] not in ("Failed", "Succeeded"):
            host = next((n["labels"][HOST] for n in nodes_of(case) if n["name"] == pod["node"]), None)
            _use(used, host, pod["requests"], 1)
    for one in case["prior_usage"]:
        _use(used, one["domain"][-1], one["requests_per_pod"], one["count"])
    for node in nodes_of(case):
        host = node["labels"][HOST]
        able = [str(at) for at, pods in enumerate(case["pod_sets"]) if refusal(case, pods, node)]
        nodes.append(
            {
                "names": host,
                "at": {short[level]: node["labels"][level] for level in case["levels"][:-1]},
                "capacity": node["allocatable"],
                "taints": able,
                "used": {name: amount for name, amount in used[host].items() if name in node["allocatable"]},
            }
        )
    jobs = []
    for part in parts(case):
        own = [_pods(case, at, short) for at in part]
        level = {"required": own[0]["required"]} if len(own) > 1 else {}  # leader and workers lie together
        option = {"id": "run", "value": len(part), "pods": own, **level}
        jobs.append({"id": f"j{part[0]}", "options": [option]})
    goals = [{"goal": "value"}, {"goal": "levels_climbed"}, *({"goal": "used", "level": n} for n in names)]
    told = {"kind": "placement", "schema_version": "1", "name": case["id"], "levels": names}
    return {**told, "nodes": nodes, "jobs": jobs, "goals": goals}


def _pods(case: dict[str, Any], at: int, short: dict[str, str]) -> dict[str, Any]:
    """Return a pod set as the pods of an option."""
    pods = case["pod_sets"][at]
    asked = pods["topology_request"] or {}
    own: dict[str, Any] = {"name": f"p{at}", "count": pods["count"], "needs": dict(pods["requests"])}
    own["tolerates"] = [str(k) for k in range(len(case["pod_sets"])) if k != at]
    own |= {mode: short[asked[mode]] for mode in ("required", "preferred") if mode in asked}
    layers = asked.get("slice_layers") or (
        [{"level": asked["slice_level"], "size": asked["slice_size"]}]
        if "slice_level" in asked and "slice_size" in asked
        else []
    )
    return own | {"slices": {short[one["level"]]: one["size"] for one in layers}}


def _use(used: dict[str, dict[str, int]], host: str | None, requests: dict[str, int], count: int) -> None:
    if host in used:
        for resource, amount in {**requests, "pods": 1}.items():
            used[host][resource] = used[host].get(resource, 0) + amount * count


def places(case: dict[str, Any], hosts: set[str]) -> list[int]:
    """Return in how many places of every level some hosts lie."""
    paths = {node["labels"][HOST]: [node["labels"][one] for one in case["levels"]] for node in nodes_of(case)}
    return [len({tuple(paths[host][: k + 1]) for host in hosts}) for k in range(len(case["levels"]))]


@pytest.mark.parametrize("case", [pytest.param(c, id=f"{c['id']} {c['title']}") for c in CASES if stated(c)])
def test_exact_placements_are_legal_and_in_no_more_places(case: dict[str, Any]) -> None:
    given: Any = apportion.read(instance(case))
    solution: Any = apportion.solve(given, time_limit=120.0)
    stated_ = [expected(pods) for pods in case["pod_sets"]]
    if any(isinstance(one, dict) for one in stated_):  # an admission is of all or none
        assert solution.objective < len(stated_)
        return
    assert solution.objective == len(stated_)
    assert solution.termination == "optimal"
    assert all(goal.proven for goal in solution.goals), solution.goals
    hosts = {node for got in solution.plan["placement"].values() for on in got["on"].values() for node in on}
    there = {values[-1] for one in stated_ for values, _ in one}
    wish = all("preferred" not in (p["topology_request"] or {}) for p in case["pod_sets"])
    own, theirs = places(case, hosts), places(case, there)
    if wish and not any(p.get("preferred_affinity") for p in case["pod_sets"]):
        assert own <= theirs
    if case["id"] in FEWER:
        assert (own[-1], theirs[-1]) == FEWER[case["id"]]
