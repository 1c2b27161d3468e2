"""The cases of Kueue's own test tables, as data, turned into quota trees, rules and workloads."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from apportion.cluster.policies.rounds.cycle_state import CycleState
from apportion.cluster.policies.rounds.kueue_objects import PodSet, QueueRules, ResourceGroup, Workload
from apportion.cluster.policies.rounds.kueue_tournament import CycleRules
from apportion.cluster.policies.rounds.quota_tree import UNLIMITED, Pair, Quota, QuotaTree, TreeNode

GATES = {
    "FairSharingPrioritizeNonBorrowing": "nominal_first",
    "FairSharingPreemptWithinNominal": "within_nominal_reclaims",
    "PrioritizePreemptorWorkloads": "preemptors_first",
    "RecomputeAssignmentUponPreemptionTargetsOverlap": "recompute",
}


def fairness_cases(data: Path, name: str) -> list[dict[str, Any]]:
    path = data / "fairness" / f"{name}.json"
    if not path.is_file():
        pytest.skip(f"no {path}: the cases of {name} did not run")
    return json.loads(path.read_text())["cases"]


def amount(value: Any) -> int:
    return UNLIMITED if value == "unlimited" else int(value)


def limit(value: Any) -> int | None:
    return None if value is None else amount(value)


def pairs(listed: list[dict[str, Any]]) -> dict[Pair, int]:
    found: dict[Pair, int] = {}
    for entry in listed:
        pair = (entry["flavor"], entry["resource"])
        found[pair] = found.get(pair, 0) + amount(entry["amount"])
    return found


def quotas(groups: list[Any]) -> dict[Pair, Quota]:
    return {
        (flavor["flavor"], quota["resource"]): Quota(
            amount(quota["nominal"]), limit(quota["borrowing_limit"]), limit(quota["lending_limit"])
        )
        for group in groups
        for flavor in group
        for quota in flavor["quotas"]
    }


def tree_of(case: dict[str, Any]) -> QuotaTree:
    cohorts = [
        TreeNode(node["name"], node["parent"], False, float(node["weight"]), quotas(node["resource_groups"]))
        for node in case["cohorts"]
    ]
    queues = [
        TreeNode(node["name"], node["cohort"], True, float(node["weight"]), quotas(node["resource_groups"]))
        for node in case["cluster_queues"]
    ]
    return QuotaTree.of([*cohorts, *queues])


def rules_of(case: dict[str, Any]) -> dict[str, QueueRules]:
    found = {}
    for queue in case["cluster_queues"]:
        preemption, search = queue["preemption"], queue["flavor_fungibility"]
        borrow = preemption["borrow_within_cohort"]
        found[queue["name"]] = QueueRules(
            tuple(
                ResourceGroup(
                    tuple(flavor["flavor"] for flavor in group),
                    frozenset(quota["resource"] for flavor in group for quota in flavor["quotas"]),
                )
                for group in queue["resource_groups"]
            ),
            preemption["within_cluster_queue"],
            preemption["reclaim_within_cohort"],
            borrow is not None and borrow.get("policy") != "Never",
            search["when_can_borrow"],
            search["when_can_preempt"],
            search["preference"] == "PreemptionOverBorrowing",
        )
    return found


def workload_of(entry: dict[str, Any]) -> Workload:
    pods = tuple(
        PodSet(pod["name"], pod["count"], {name: amount(each) for name, each in pod["requests"].items()})
        for pod in entry["pod_sets"]
    )
    admission, held = None, None
    if entry["admission"] is not None:
        by_name = {pod["name"]: pod["assigned"] for pod in entry["admission"]["pod_sets"]}
        given = [by_name[pod.name] for pod in pods]
        admission = tuple({name: one["flavor"] for name, one in each.items()} for each in given)
        held = tuple({name: amount(one["amount"]) for name, one in each.items()} for each in given)
    return Workload(
        entry["name"],
        entry["cluster_queue"],
        pods,
        entry["priority"],
        entry.get("created_s"),
        entry.get("reserved_at_s"),
        admission,
        held,
    )


def state_of(case: dict[str, Any], workloads: list[dict[str, Any]]) -> CycleState:
    admitted = [workload_of(entry) for entry in workloads if entry["admission"] is not None]
    return CycleState(tree_of(case), rules_of(case), admitted)


def cycle_rules(case: dict[str, Any]) -> CycleRules:
    switches = {GATES[name]: bool(on) for name, on in case["feature_gates"].items()}
    return CycleRules(fair_sharing=case["fair_sharing"], **switches)


def reported(value: float) -> float:
    return math.inf if value == "infinite" else float(value)
