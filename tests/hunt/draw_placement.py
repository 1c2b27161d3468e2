"""Tiny placements with rules, as JSON: nodes one by one, few enough plans to try all of them."""

from __future__ import annotations

from random import Random
from typing import Any

__all__ = ["GOALS", "RULES", "instance"]

_MOST_PLANS = 1_500
RULES = (
    *("limit", "spread", "share", "at_least", "together", "exclusive", "apart", "avoid", "require", "drain"),
    *(
        "closed",
        "stay",
        "moving",
        "max_moves",
        "max_stops",
        "spare",
        "standby",
        "keep_free",
        "ratio",
        "least_use",
    ),
)
GOALS = (
    *(
        "jobs_stopped",
        "pods_stopped",
        "pods_moved",
        "used",
        "left",
        "spread_excess",
        "together_excess",
        "balance",
    ),
    "levels_climbed",
    "stranded",
    "value",
)


def instance(rng: Random, rules: tuple[str, ...] | None = None, *, bundles: bool = False) -> dict[str, Any]:
    """Draw an instance, with rules of these names or of any; for `bundles` one that names no node.

    In those no rule, goal or pods speak of the level of nodes, and nothing runs where they speak of others.
    """
    upper = ["rack"] if rng.random() < 0.7 else ["block", "rack"]
    levels = [*upper, "node"]
    feeds = ["feed"] if rng.random() < 0.25 else []  # a second tree
    upper += feeds
    nodes = []
    for number in range(rng.randint(2, 4)):
        node: dict[str, Any] = {
            "names": f"n{number}",
            "at": {level: f"{level[0]}{rng.randint(0, 1)}" for level in upper},
            "capacity": {"cpu": rng.randint(1, 4), "mem": rng.randint(1, 4)},
        }
        if rng.random() < 0.15:
            node["used"] = {"cpu": rng.randint(0, 2)}
        if rng.random() < 0.1:
            node["labels"] = {"zone": "a"}
        if rng.random() < 0.1:
            node["taints"] = ["special"]
        if rng.random() < 0.07:
            node["ready"] = False
        if rng.random() < 0.1:
            node["capacity"]["pods"] = rng.randint(1, 2)
        nodes.append(node)
    jobs: list[dict[str, Any]] = []
    shares = bundles and rng.random() < 0.5  # places matter to pods that share one, and to nothing else
    plans = 1
    for number in range(rng.randint(1, 4)):
        job = _job(
            rng, f"j{number}", upper if bundles else [*upper, "node"], [node["names"] for node in nodes]
        )
        if bundles:
            _forget_nodes(job, runs=shares and rng.random() < 0.6)
        plans *= _at_most(job, len(nodes))
        if plans > _MOST_PLANS and jobs:
            break
        jobs.append(job)
    found = {"kind": "placement", "schema_version": "1", "levels": levels, "nodes": nodes, "jobs": jobs}
    if feeds:
        found["trees"] = [feeds]
    names = rules or tuple(rng.choice(RULES) for _ in range(rng.choice((0, 1, 2, 2, 3))))
    goals = rng.sample(GOALS, rng.randint(1, 4))
    if bundles and not shares:
        names = tuple(name for name in names if name not in ("drain", "moving"))
        goals = [goal for goal in goals if goal != "left"]
    if shares:
        names = tuple(name for name in names if name in ("drain", "limit", "max_moves", "max_stops"))
        goals = ["value", *rng.sample(("jobs_stopped", "pods_stopped", "pods_moved"), rng.randint(0, 3))]
        alone = rng.random() < 0.3  # one resource
        for pods in (pods for job in jobs for option in job["options"] for pods in option["pods"]):
            pods["needs"] = {name: need for name, need in pods["needs"].items() if name != "mem" or not alone}
            for key in ("preferred", "slices", *(["required"] if rng.random() < 0.5 else [])):
                pods.pop(key, None)
        if alone:
            names = tuple(name for name in names if name == "drain")
            for node in nodes:
                del node["capacity"]["mem"]
    if rng.random() < 0.7 or not goals:
        goals = ["value", *(goal for goal in goals if goal != "value")]
    seen = found | {"levels": upper if bundles else [*upper, "node"]}
    known = [rule for name in names if (rule := _rule(rng, name, seen)) is not None]
    if shares and rng.random() < 0.4:  # which bundles keep as well
        known.append({"rule": "spread", "level": "node", "by": "job", "max": 1})
    wanted = [_goal(rng, goal, seen) for goal in goals]
    if any("least_priority" in goal for goal in wanted) and rng.random() < 0.6:
        wanted.append({"goal": "value"})
    return found | {"rules": known, "goals": wanted}


def _forget_nodes(job: dict[str, Any], *, runs: bool) -> None:
    """Take away what a job says of single nodes, but for those where it runs, if it does."""
    for key in () if runs else ("current", "fixed", "pinned"):
        job.pop(key, None)
    for option in job["options"]:
        for pods in option["pods"]:
            pods.pop("value_at", None)


def _at_most(job: dict[str, Any], nodes: int) -> int:
    total = 1
    for option in job["options"]:
        ways = 1
        for pods in option["pods"]:
            ways *= (nodes + 1) ** pods.get("count", 1)
        total += ways
    return total


def _job(rng: Random, name: str, levels: list[str], nodes: list[str]) -> dict[str, Any]:
    kinds = [
        {
            "name": f"p{k}",
            "needs": {r: rng.randint(0, 2) for r in ("cpu", "mem")},
            "move_cost": rng.randint(0, 3),
        }
        for k in range(rng.choice((1, 1, 2)))
    ]
    if rng.random() < 0.05:
        kinds[-1]["needs"]["tpu"] = rng.randint(0, 1)  # which no node has
    options: list[dict[str, Any]] = []
    for number in range(rng.choice((1, 1, 2))):
        own = []
        for kind in kinds[: rng.randint(1, len(kinds))]:
            pods = dict(kind) | {"value": rng.randint(0, 3)}
            count = pods["count"] = rng.choice((1, 1, 2, 3) if len(kinds) == 1 else (1, 1, 2))
            if rng.random() < 0.4:
                pods["least"] = rng.randint(0, count)
            if rng.random() < 0.2:
                pods["required"] = rng.choice(levels)
            if rng.random() < 0.3:
                pods["preferred"] = rng.choice(levels)
            if rng.random() < 0.15 and count > 1:
                pods["slices"] = {rng.choice(levels): rng.choice([k for k in (1, 2, 3) if count % k == 0])}
            if rng.random() < 0.15:
                pods["tolerates"] = ["special"]
            if rng.random() < 0.05:
                pods["selector"] = {"zone": "a"}
            if rng.random() < 0.3:
                pods["value_at"] = {rng.choice(nodes): rng.randint(-2, 4)}
            own.append(pods)
        options.append({"id": f"o{number}", "pods": own, "value": rng.choice((0, 0, 1, 2, 5))})
        if rng.random() < 0.15:
            options[-1]["required"] = rng.choice(levels)
    job: dict[str, Any] = {"id": name, "options": options, "stop_cost": rng.randint(0, 3)}
    if rng.random() < 0.3:
        job["priority"] = rng.randint(-1, 2)
    if rng.random() < 0.7:
        job["labels"] = {"app": rng.choice("ab")}
    if rng.random() < 0.15:
        job["required"] = True
    if rng.random() < 0.6:
        option = rng.choice(options)
        on: dict[str, dict[str, int]] = {}
        for pods in option["pods"]:
            for _ in range(rng.randint(0, pods["count"])):
                at = on.setdefault(pods["name"], {})
                node = rng.choice([*nodes, "gone"] if rng.random() < 0.2 else nodes)
                at[node] = at.get(node, 0) + 1
        if rng.random() < 0.1:
            on["old"] = {rng.choice(nodes): rng.randint(1, 2)}
        job["current"] = {"option": option["id"] if rng.random() < 0.9 else "lost", "on": on}
        often = 0.4 if any("gone" in at for at in on.values()) else 0.1
        if rng.random() < often and job["current"]["option"] != "lost":
            job["fixed"] = True
    elif rng.random() < 0.05:
        job["fixed"] = True
    if rng.random() < 0.07:
        job["forbidden"] = [rng.choice(options)["id"]]
    elif rng.random() < 0.07 and not job.get("fixed"):
        job["pinned"] = rng.choice(options)["id"]
    return job


def _places(told: dict[str, Any], level: str) -> list[str]:
    if level == "node":
        return [node["names"] for node in told["nodes"]]
    above = [level] if level == "feed" else told["levels"][: told["levels"].index(level) + 1]
    return list(dict.fromkeys("/".join(node["at"][one] for one in above) for node in told["nodes"]))


def _pods(rng: Random, told: dict[str, Any], *, single: bool = False) -> list[str]:
    """Return names of jobs and of pods, of those that are one pod where asked."""
    names = []
    for job in told["jobs"]:
        own = {pods["name"]: [] for option in job["options"] for pods in option["pods"]}
        for option in job["options"]:
            for pods in option["pods"]:
                own[pods["name"]].append(pods["count"])
        names += [f"{job['id']}/{name}" for name, counts in own.items() if not single or set(counts) == {1}]
        if not single and rng.random() < 0.3:
            names.append(job["id"])
    return rng.sample(names, min(len(names), rng.randint(1, 4)))


def _rule(rng: Random, name: str, told: dict[str, Any]) -> dict[str, Any] | None:
    level = rng.choice(told["levels"])
    places, by = _places(told, level), rng.choice(("job", "app", "app"))
    some = rng.sample(places, rng.randint(1, len(places)))
    resource = rng.choice(("cpu", "mem", "pods"))
    nodes = rng.sample(_places(told, "node"), rng.randint(1, 2))
    found: dict[str, Any] = {"rule": name}
    if name == "limit":
        when = rng.choice(("after", "during", "new"))
        limits = {place: rng.randint(0, 4) for place in some}
        return found | {"level": level, "resource": resource, "limits": limits, "when": when}
    if name == "spread":
        return found | {"level": level, "by": by, "max": rng.randint(0, 2), "of": {"a": rng.randint(0, 3)}}
    if name == "share":
        return found | {"level": level, "by": by, "fraction": rng.choice((0.25, 0.34, 0.5, 0.75))}
    if name == "at_least":
        return found | {"level": level, "by": by, "min": rng.randint(2, 3)}
    if name == "together":
        return found | {"level": level, "by": by, "max_places": rng.randint(0, 2), "of": {"b": 1}}
    if name == "exclusive":
        return found | {"level": level, "by": by, "max_groups": rng.randint(1, 2)}
    if name == "apart":
        if len(places) < 2:
            return None
        pairs = [rng.sample(places, 2) for _ in range(rng.randint(1, 2))]
        return found | {"level": level, "pairs": pairs} | ({"by": by} if rng.random() < 0.7 else {})
    if name in ("avoid", "require"):
        return found | {"pods": _pods(rng, told), "level": level, "places": some}
    if name == "drain":
        return found | {"nodes": nodes}
    if name == "closed":
        return found | {"level": level, "places": some}
    if name == "stay":
        return found | {"pods": _pods(rng, told)[:2]}
    if name == "moving":
        return found | {"to": {pods: rng.choice(_places(told, "node")) for pods in _pods(rng, told)[:1]}}
    if name == "max_moves":
        limit = {"limit": rng.randint(0, 3), "resource": resource}
        return found | limit | ({"by": by, "of": {"a": rng.randint(0, 2)}} if rng.random() < 0.5 else {})
    if name == "max_stops":
        return found | {"limit": rng.randint(0, 1)} | ({"by": by} if rng.random() < 0.5 else {})
    if name == "spare":
        if len(places) < 2:
            return None
        main, spare = rng.sample(places, 2)
        return found | {"level": level, "by": by, "main": main, "spare": spare, "slack": rng.randint(0, 1)}
    if name == "standby":
        names = _pods(rng, told, single=True)
        if len(names) < 2:
            return None
        pairs = {names[0]: names[1:3]} | ({names[1]: [names[0]]} if rng.random() < 0.3 else {})
        amount, limits = (
            {pods: rng.randint(1, 3) for pods in names},
            {place: rng.randint(1, 4) for place in some},
        )
        return found | {"level": level, "pairs": pairs, "amount": amount, "limits": limits}
    if name == "keep_free":
        kept = rng.choice(({"amount": rng.randint(1, 3)}, {"places": rng.randint(1, 2)}))
        return found | {"level": level, "resource": rng.choice(("cpu", "mem")), **kept}
    if name == "least_use":
        listed = {"places": some} if rng.random() < 0.5 else {}
        return found | {
            "level": level,
            "resource": resource,
            "fraction": rng.choice((0.3, 0.5, 1.0)),
            **listed,
        }
    return found | {"level": level, "resource": "cpu", "times": rng.randint(0, 2), "other": "mem"}


def _goal(rng: Random, name: str, told: dict[str, Any]) -> Any:
    level = rng.choice(told["levels"])
    found: dict[str, Any] = {"goal": name}
    if name == "used":
        cost = {place: rng.randint(0, 3) for place in _places(told, level) if rng.random() < 0.4}
        found |= {"level": level, "cost": cost}
        if rng.random() < 0.2:
            return [found | {"weight": 3}, {"goal": "pods_moved", "weight": 2}]
    elif name == "left":
        nodes = rng.sample(_places(told, "node"), 2)
        found |= {"nodes": nodes, "count": rng.choice(("pods", "nodes"))}
    elif name == "spread_excess":
        found |= {"level": level, "by": rng.choice(("job", "app")), "max": rng.randint(0, 1)}
    elif name == "together_excess":
        found |= {"level": level, "by": rng.choice(("job", "app")), "max_places": 1}
    elif name == "stranded":
        found |= {"level": level, "needs": {"cpu": rng.randint(1, 2), "mem": rng.randint(0, 2)}}
    elif name == "value" and rng.random() < 0.3:
        found |= {"per_stop": rng.choice((0, 1, 3)), "per_move": rng.choice((0, 1, 2))}
        if rng.random() < 0.5:
            found["least_priority"] = 1
    elif name == "balance":
        form = rng.choice(("max", "sum"))
        found |= {"level": level, "resource": rng.choice(("cpu", "mem")), "form": form}
        if rng.random() < 0.5:
            found["threshold"] = rng.choice((0.5, 1.0))
    return found
