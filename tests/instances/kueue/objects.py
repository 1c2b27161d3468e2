"""Kueue objects as kubectl prints them, made from quota trees and workloads of the tests."""

from __future__ import annotations

import json
from typing import Any

from apportion.cluster.policies.rounds.quota_tree import QuotaTree, TreeNode

__all__ = ["dump", "queue_or_cohort", "workload"]


def queue_or_cohort(node: TreeNode, version: str, **spec: Any) -> dict[str, Any]:
    """Return a ClusterQueue or a Cohort of one API version."""
    newer = version == "v1beta2"
    parent = ("cohortName" if newer else "cohort") if node.is_queue else ("parentName" if newer else "parent")
    flavors: dict[str, list[dict[str, Any]]] = {}
    for (flavor, resource), quota in node.quotas.items():
        given = {"name": resource, "nominalQuota": _said(quota.nominal, resource)}
        for field, limit in (
            ("borrowingLimit", quota.borrowing_limit),
            ("lendingLimit", quota.lending_limit),
        ):
            if limit is not None:
                given[field] = _said(limit, resource)
        flavors.setdefault(flavor, []).append(given)
    group = {
        "coveredResources": sorted({resource for _, resource in node.quotas}),
        "flavors": [{"name": flavor, "resources": given} for flavor, given in flavors.items()],
    }
    own = {"resourceGroups": [group], "fairSharing": {"weight": str(node.weight)}, **spec}
    if node.parent is not None:
        own[parent] = node.parent
    kind = "ClusterQueue" if node.is_queue else "Cohort"
    return _object(kind, version, {"name": node.name}, spec=own)


def workload(
    name: str,
    queue: str,
    counts: tuple[int, int],
    requests: dict[str, int],
    version: str = "v1beta2",
    admitted: dict[str, str] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Return a Workload of one pod set; `admitted` is the flavor of each resource that it holds."""
    containers = [{"resources": {"requests": {key: _said(value, key) for key, value in requests.items()}}}]
    pods = {"name": "main", "count": counts[1], "template": {"spec": {"containers": containers}}}
    if counts[0] < counts[1]:
        pods["minCount"] = counts[0]
    metadata = {"namespace": "team", "name": name, **more.pop("metadata", {})}
    status = {}
    if admitted is not None:
        usage = {key: _said(value * counts[1], key) for key, value in requests.items()}
        one = {"name": "main", "count": counts[1], "flavors": admitted, "resourceUsage": usage}
        status["admission"] = {"clusterQueue": queue, "podSetAssignments": [one]}
    spec = {"queueName": queue, "podSets": [pods], **more}
    return _object("Workload", version, metadata, spec=spec, status=status)


def dump(*objects: dict[str, Any]) -> bytes:
    """Return the list that kubectl prints."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}).encode()


def tree_objects(tree: QuotaTree, version: str) -> list[dict[str, Any]]:
    """Return all nodes of a tree."""
    return [queue_or_cohort(node, version) for node in tree.nodes]


def _said(amount: int, resource: str) -> str:
    return f"{amount}m" if resource == "cpu" else str(amount)


def _object(kind: str, version: str, metadata: dict[str, Any], **parts: Any) -> dict[str, Any]:
    return {"apiVersion": f"kueue.x-k8s.io/{version}", "kind": kind, "metadata": metadata, **parts}
