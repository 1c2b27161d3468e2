"""Kueue's published cases of topology-aware scheduling, as trees of leaves and requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from apportion.cluster.policies.rounds.kueue_topology import (
    Leaf,
    NoFit,
    Request,
    placed,
    replaced,
    resized,
)

__all__ = ["HOST", "answers", "expected", "nodes_of", "parts", "refusal"]

HOST = "kubernetes.io/hostname"
Path = tuple[str, ...]


def nodes_of(case: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the nodes that count: ready, schedulable, with all levels and the flavor's labels."""
    for node in case["nodes"]:
        labels = node["labels"]
        flavor = all(labels.get(key) == value for key, value in case["flavor_node_labels"].items())
        if (
            node["ready"]
            and not node["unschedulable"]
            and flavor
            and all(level in labels for level in case["levels"])
        ):
            yield node


class Site:
    """What is free in every lowest place."""

    def __init__(self, case: Mapping[str, Any]) -> None:
        self.levels: list[str] = case["levels"]
        self.free: dict[Path, dict[str, int]] = {}
        self.nodes: dict[Path, Mapping[str, Any]] = {}
        at: dict[str, Path] = {}
        for node in nodes_of(case):
            path = tuple(node["labels"][level] for level in self.levels)
            at[node["name"]] = path
            self.nodes.setdefault(path, node)
            for resource, amount in node["allocatable"].items():
                free = self.free.setdefault(path, {})
                free[resource] = free.get(resource, 0) + amount
        for pod in case["other_pods"]:
            if pod["phase"] not in ("Failed", "Succeeded") and pod["node"] in at:
                self.take(at[pod["node"]], pod["requests"], 1)
        for used in case["prior_usage"]:
            if (there := self.full(used["domain"])) is not None:
                self.take(there, used["requests_per_pod"], used["count"])

    def full(self, domain: list[str]) -> Path | None:
        """Return the path of a lowest place that is named in full or by its last part."""
        paths = [path for path in self.free if path == tuple(domain) or path[-1:] == tuple(domain)]
        return paths[0] if paths else None

    def earlier(self, assignment: Mapping[str, Any] | None) -> list[tuple[Path, int]] | None:
        """Return pods by place of an earlier assignment; ``None`` for none, or where a place is gone."""
        found = []
        for one in assignment["domains"] if assignment else ():
            if (path := self.full(one["values"])) is None:
                return None
            found.append((path, one["count"]))
        return found if assignment else None

    def take(self, path: Path, requests: Mapping[str, int], pods: int) -> None:
        """Use what pods need."""
        for resource, amount in {**requests, "pods": 1}.items():
            self.free[path][resource] = self.free[path].get(resource, 0) - amount * pods

    def room(self, path: Path, requests: Mapping[str, int], beside: Mapping[str, int]) -> tuple[int, str]:
        """Return how many pods fit, beside what something else takes, and the resource that decides."""
        free = self.free[path]
        needs = {resource: amount for resource, amount in requests.items() if amount}
        if "pods" in self.nodes[path]["allocatable"]:
            needs["pods"] = 1
        left = {resource: max(0, free.get(resource, 0) - beside.get(resource, 0)) for resource in needs}
        return min(((left[name] // amount, name) for name, amount in needs.items()), default=(10**9, ""))


def refusal(case: Mapping[str, Any], pods: Mapping[str, Any], node: Mapping[str, Any]) -> str:
    """Return why pods may not be at a node; nothing where they may."""
    if case["levels"][-1] != HOST:
        return ""
    labels = node["labels"]
    for taint in node["taints"]:
        tolerated = any(_tolerates(one, taint) for one in pods.get("tolerations") or ())
        if taint["effect"] in ("NoSchedule", "NoExecute") and not tolerated:
            return f"taint:{taint['key']}={taint['value']}:{taint['effect']}"
    if any(labels.get(key) != value for key, value in (pods.get("node_selector") or {}).items()):
        return "nodeSelector"
    return "" if all(_matches(term, labels) for term in pods.get("required_affinity") or ()) else "affinity"


def _weight(case: Mapping[str, Any], pods: Mapping[str, Any], node: Mapping[str, Any]) -> int:
    """Return the score of preferred affinity of a node."""
    if case["levels"][-1] != HOST or not case["feature_gates"]["TASRespectNodeAffinityPreferred"]:
        return 0
    terms = pods.get("preferred_affinity") or ()
    return sum(term["weight"] for term in terms if _matches(term, node["labels"]))


def _matches(term: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    value, values = labels.get(term["key"]), term.get("values", [])
    held = {"In": value in values, "NotIn": value not in values, "Exists": value is not None}
    return held.get(term["operator"], value is None)


def _tolerates(one: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    if one.get("effect") not in (None, "", taint["effect"]):
        return False
    if one.get("operator") == "Exists":
        return one.get("key") in (None, "", taint["key"])
    return one.get("key") == taint["key"] and one.get("value", "") == taint["value"]


def parts(case: Mapping[str, Any]) -> list[list[int]]:
    """Return the pod sets that are placed together, the leader first where there is one."""
    found: list[list[int]] = []
    grouped: dict[str, list[int]] = {}
    for at, pods in enumerate(case["pod_sets"]):
        name = pods.get("group")
        if name in grouped:
            grouped[name].append(at)
            first, second = grouped[name]
            if case["pod_sets"][first]["count"] >= case["pod_sets"][second]["count"]:
                grouped[name].reverse()
        else:
            found.append([at])
            if name is not None:
                grouped[name] = found[-1]
    return found


def _request(case: Mapping[str, Any], pods: Mapping[str, Any], *, leader: bool) -> Request:
    asked, levels = pods["topology_request"] or {}, case["levels"]
    slices: list[tuple[int, int]] = []
    if "slice_layers" in asked:
        slices = [(levels.index(one["level"]), one["size"]) for one in asked["slice_layers"]]
    elif "slice_level" in asked:
        if "slice_size" not in asked:
            raise ValueError("slices without a size")
        slices = [(levels.index(asked["slice_level"]), asked["slice_size"])]
    mixed = case["feature_gates"]["TASProfileMixed"]
    for mode in ("required", "preferred"):
        if mode in asked:
            level = levels.index(asked[mode])
            even = case["feature_gates"]["TASBalancedPlacement"]
            return Request(pods["count"], level, mode, tuple(slices), leader, mixed, even)  # type: ignore[arg-type]
    return Request(pods["count"], 0 if slices else None, "unconstrained", tuple(slices), leader, mixed)


def answers(case: Mapping[str, Any]) -> list[Any]:
    """Return what the rules of this package give every pod set: counts by place, or why there is nothing."""
    site = Site(case)
    found: list[Any] = [None] * len(case["pod_sets"])
    existing = case.get("existing", {})
    stuck = len(existing.get("owner_kinds", ())) == 1 and not existing.get("pod_group", False)
    stuck &= case["feature_gates"]["SkipReassignmentForPodOwnedWorkloads"]
    shown = -1 if case["levels"][-1] == HOST else 0
    for part in parts(case):
        sets = [case["pod_sets"][at] for at in part]
        lead, pods = (sets[0], sets[1]) if len(sets) == 2 else (None, sets[0])
        earlier = [site.earlier(one.get("previous_assignment")) for one in sets]
        if existing:
            before = existing["assignments"][pods["name"] or "main"]["domains"]
            if stuck:
                found[part[0]] = [(tuple(one["values"]), one["count"]) for one in before]
                continue
            gone = existing["unhealthy_nodes"][0]
            lost = sum(one["count"] for one in before if one["values"][-1] == gone)
            kept = site.earlier({"domains": [one for one in before if one["values"][-1] != gone]})
            if kept is None:
                raise ValueError("a place of the rest is gone")
            leaves = _leaves(case, site, pods, None)
            taken = replaced(leaves, len(site.levels), _request(case, pods, leader=False), kept, lost)
        elif all(one is not None for one in earlier):
            for one, there in zip(sets, earlier, strict=True):
                for path, count in there or ():
                    site.take(path, one["requests"], count)
            if lead is not None:
                found[part[0]] = [(path[shown:], count) for path, count in earlier[0] or ()]
            leaves = _leaves(case, site, pods, None)
            request = _request(case, pods, leader=False)
            taken = resized(leaves, len(site.levels), request, earlier[-1] or ())
            for path, count in earlier[-1] or ():
                site.take(path, pods["requests"], -count)
        else:
            request = _request(case, pods, leader=lead is not None)
            taken = placed(_leaves(case, site, pods, lead), len(site.levels), request)
        if isinstance(taken, NoFit):
            for at in part:
                found[at] = taken
            continue
        found[part[-1]] = [(one.path[shown:], one.pods) for one in taken if one.pods]
        for one in taken:
            site.take(one.path, pods["requests"], one.pods)
            if one.leader and lead is not None:
                found[part[0]] = [(one.path[shown:], 1)]
                site.take(one.path, lead["requests"], 1)
    return found


def _leaves(case: Mapping[str, Any], site: Site, pods: Mapping[str, Any], lead: Any) -> list[Leaf]:
    found = []
    for path, node in site.nodes.items():
        why, weight = refusal(case, pods, node), _weight(case, pods, node)
        own, least = (0, "") if why else site.room(path, pods["requests"], {})
        holds = lead is not None and not why and site.room(path, lead["requests"], {})[0] >= 1
        beside = site.room(path, pods["requests"], {**lead["requests"], "pods": 1})[0] if holds else own
        found.append(Leaf(path, own, beside, holds, weight, why if own or why else f"resource:{least}"))
    return found


def expected(pods: Mapping[str, Any]) -> Any:
    """Return the counts by place that a case states, or its failure."""
    told = pods["expected"]
    if told.get("assignment") is None:
        return told.get("failure", {})
    return [(tuple(one["values"]), one["count"]) for one in told["assignment"]["domains"]]
