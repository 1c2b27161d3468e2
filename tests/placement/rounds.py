"""Rounds of placement: those in the neutral form of the shared cases, and gangs on racks of alike nodes."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from apportion.instances.placement.schema import (
    PlacementInstance,
    PlacementJob,
    PlacementNodes,
    PlacementOption,
    PlacementPods,
)

__all__ = ["gangs", "instance", "pods_at", "site"]

_RULES = {"capacity": "limit", "colocate": "together", "conflict": "apart", "max_group_moves": "max_moves"}
_GOALS = {
    "victims": "pods_stopped",
    "job_victims": "jobs_stopped",
    "moves": "pods_moved",
    "colocate_excess": "together_excess",
}
_FIELDS = ("level", "by", "max", "max_places", "cost", "resource", "threshold")
_FORMS = {"linear": "sum", "max": "max"}


def instance(case: Mapping[str, Any]) -> dict[str, Any]:
    """Return a round as JSON of an instance: every pod under its own name, jobs of one option."""
    given = {goal["goal"]: goal for bucket in case["goals"] for goal in bucket}
    value, moves, stops = (given.get(name, {}) for name in ("value", "moves", "job_victims"))
    bonus: dict[str, dict[str, float]] = {}
    for pod, node, more in value.get("at", ()):
        bonus.setdefault(pod, {})[node] = bonus.get(pod, {}).get(node, 0) + more
    full = {pod["name"]: f"{job['name']}/{pod['name']}" for job in case["jobs"] for pod in job["pods"]}
    jobs = []
    for told in case["jobs"]:
        pods = [
            {
                "name": pod["name"],
                "needs": {r: n for r, n in zip(case["resources"], pod["needs"], strict=True) if r != "pods"},
                "least": int(told["gang"] or told["must"]),
                "value": value.get("pods", {}).get(pod["name"], 0),
                "value_at": bonus.get(pod["name"], {}),
                "move_cost": moves.get("cost", {}).get(pod["name"], 1),
            }
            for pod in told["pods"]
        ]
        job = {
            "id": told["name"],
            "options": [{"id": "run", "pods": pods}],
            "labels": told["labels"],
            "required": told["must"],
            "stop_cost": stops.get("cost", {}).get(told["name"], 1),
        }
        if on := {pod["name"]: {pod["now"]: 1} for pod in told["pods"] if pod["now"] is not None}:
            job["current"] = {"option": "run", "on": on}
        jobs.append(job)
    return {
        "kind": "placement",
        "schema_version": "1",
        "name": case["name"],
        "levels": case["levels"],
        "nodes": [
            {
                "names": place["name"],
                "capacity": dict(zip(case["resources"], place["capacity"], strict=True)),
                "at": {level: place[level] for level in case["levels"][:-1]},
            }
            for place in case["places"]
        ],
        "jobs": jobs,
        "rules": [_rule(rule, full) for rule in case["rules"]],
        "goals": [_bucket(bucket) for bucket in case["goals"]],
    }


def _rule(told: Mapping[str, Any], full: Mapping[str, str]) -> dict[str, Any]:
    rule = {name: field for name, field in told.items() if field is not None}
    rule["rule"] = _RULES.get(told["rule"], told["rule"])
    if "pods" in rule:
        rule["pods"] = [full[pod] for pod in told["pods"]]
    if rule["rule"] == "drain":
        rule = {"rule": "drain", "nodes": told["places"]}
    elif rule["rule"] == "moving":
        rule["to"] = {full[pod]: node for pod, node in told["to"].items()}
    elif rule["rule"] == "max_moves":
        rule["limit"] = int(told["limit"])
        rule["of"] = {group: int(limit) for group, limit in told.get("of", {}).items()}
    elif rule["rule"] == "standby":
        rule["pairs"] = {full[pod]: [full[one] for one in those] for pod, those in told["pairs"].items()}
        rule["amount"] = {full[pod]: much for pod, much in told["amount"].items()}
    return rule


def _bucket(bucket: list[dict[str, Any]]) -> Any:
    entries = [_goal(told) for told in bucket]
    return entries if len(entries) > 1 else entries[0]


def _goal(told: Mapping[str, Any]) -> dict[str, Any]:
    goal = {"goal": _GOALS.get(told["goal"], told["goal"])}
    if "weight" in told:
        goal["weight"] = int(told["weight"])
    if told["goal"] == "left":
        return goal | {
            "nodes": told["places"],
            "count": {"places": "nodes"}.get(told["count"], told["count"]),
        }
    if told["goal"] in ("value", "victims", "job_victims", "moves"):
        return goal
    if told["goal"] == "balance":
        assert told["average"] == "now"
        goal["form"] = _FORMS[told["form"]]
    return goal | {name: told[name] for name in _FIELDS if name in told}


def pods_at(case: Mapping[str, Any], plan: Mapping[str, Any]) -> dict[str, str]:
    """Return the node of every pod of a round that has one in a plan."""
    return {
        pod: node
        for got in plan["placement"].values()
        for pod, on in got["on"].items()
        for node in on
        if any(pod == one["name"] for job in case["jobs"] for one in job["pods"])
    }


def site(jobs: list[PlacementJob], nodes: int, racks: int) -> PlacementInstance:
    """Return jobs on alike nodes of 8 GPUs, 96 cores and 96 GiB."""
    group = PlacementNodes(
        f"n[0-{nodes - 1}]", {"gpu": 8, "cpu": 96, "mem": 96}, {"rack": f"r[0-{racks - 1}]"}
    )
    return PlacementInstance("1", ("rack", "node"), (group,), tuple(jobs))


def gangs(seed: int, racks: int = 3) -> PlacementInstance:
    """Return jobs of one pod, or of two or three that share a rack, on racks of two nodes."""
    rng, jobs = Random(seed), []
    for k in range(rng.randint(5, 8)):
        options = []
        for count in sorted({1, rng.randint(1, 3)}):
            needs = {"gpu": rng.randint(2, 5), "cpu": rng.choice((10, 30, 60)), "mem": rng.choice((10, 60))}
            pods = PlacementPods(needs, count, name=str(count))
            options.append(
                PlacementOption(str(count), (pods,), float(count + rng.randint(1, 9)), required="rack")
            )
        jobs.append(PlacementJob(f"j{k}", tuple(options)))
    return site(jobs, 2 * racks, racks)
