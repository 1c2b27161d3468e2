"""Kueue's and KAI's own test tables agree with rules written from words; half of each is public here."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from apportion.cluster.policies.rounds.cycle_state import TreeUsage
from apportion.cluster.policies.rounds.fair_preemption import Share, borrows_on, preemptions, share
from apportion.cluster.policies.rounds.kai_queues import Division, KaiQueue, divided, divided_over_quota
from apportion.cluster.policies.rounds.kueue_objects import Workload
from apportion.cluster.policies.rounds.kueue_tournament import head_order, scheduling_cycle
from tests.policies.tenancy.kueue_cases import (
    cycle_rules,
    fairness_cases,
    pairs,
    reported,
    state_of,
    tree_of,
    workload_of,
)


def test_dominant_shares(data: Path) -> None:
    cases = fairness_cases(data, "kueue_drs")
    for case in cases:
        checks = {
            "share": _share_agrees,
            "borrowing_on": _borrowing_agrees,
            "weighted_share": _weighted_agrees,
        }
        checks[case["kind"]](case)
    assert len(cases) >= 13


def _share_agrees(case: dict[str, Any]) -> None:
    tree = tree_of(case)
    usage = TreeUsage(tree)
    for entry in case["usage"]:
        usage.add(tree.queues[entry["cluster_queue"]], pairs([entry]))
    for expected in case["expected"]:
        numbers = tree.queues if expected["kind"] == "cluster_queue" else tree.cohorts
        found = share(usage, numbers[expected["node"]], pairs(case["extra_request"]))
        rounded = math.inf if found.rounded is None else found.rounded
        assert rounded == reported(expected["share"]), case["title"]
        assert found.dominant == expected["dominant_resource"], case["title"]
        assert found.borrows is expected["borrowing"], case["title"]


def _borrowing_agrees(case: dict[str, Any]) -> None:
    tree = tree_of(case)
    usage = TreeUsage(tree)
    for entry in case["usage"]:
        usage.add(tree.queues[entry["cluster_queue"]], pairs([entry]))
    node = tree.queues[case["expected"]["node"]]
    asked = [pair for pair, amount in pairs(case["requested"]).items() if amount > 0]
    assert share(usage, node).borrows is case["expected"]["borrowing"], case["title"]
    assert borrows_on(usage, node, asked) is case["expected"]["borrowing_on_requested"], case["title"]


def _weighted_agrees(case: dict[str, Any]) -> None:
    found = Share(float(case["unweighted_ratio"]), float(case["weight"])).weighted
    assert found == reported(case["expected"]), case["title"]


def test_fair_preemption(data: Path) -> None:
    cases = fairness_cases(data, "kueue_fair_preemption")
    for case in cases:
        state = state_of(case, case["admitted"])
        incoming = workload_of(case["incoming"])
        use: dict[tuple[str, str], int] = {}
        for pod in incoming.pod_sets:
            for resource, each in pod.requests.items():
                pair = (case["flavor"], resource)
                use[pair] = use.get(pair, 0) + pod.count * each
        node = state.node(incoming)
        lacking = [pair for pair, amount in use.items() if amount > max(0, state.usage.available(node, pair))]
        found = preemptions(state, incoming, use, lacking, case["strategies"])
        wanted = [(one["workload"], one["reason"]) for one in case["expected_preempted"]]
        assert sorted((one.workload.name, one.reason) for one in found) == sorted(wanted), case["title"]
    assert len(cases) >= 18


@pytest.mark.parametrize("resorted", [False, True])
def test_one_scheduling_cycle(data: Path, resorted: bool) -> None:
    cases = fairness_cases(data, "kueue_fair_scheduling")
    for case in cases:
        state = state_of(case, case["workloads"])
        heads: dict[str, Workload] = {}
        pending = [workload_of(entry) for entry in case["workloads"] if entry["admission"] is None]
        for workload in sorted(pending, key=head_order):
            heads.setdefault(workload.queue, workload)
        listed = list(heads.values())
        found = scheduling_cycle(state, listed[::-1] if resorted else listed, cycle_rules(case))
        expected = case["expected"]
        assert {one.name for one in found.admitted} == set(expected["admitted_now"]), case["title"]
        assert sorted((one.workload.name, one.reason) for one in found.preempted) == sorted(
            (one["workload"], one["reason"]) for one in expected["preempted"]
        ), case["title"]
        holders = {one.name: dict(one.use) for queue in state.holders.values() for one in queue.values()}
        assert holders == {name: _assigned(entry) for name, entry in expected["assignments"].items()}, case[
            "title"
        ]
        left = {
            name
            for queue in ("pending", "inadmissible")
            for all_ in expected[queue].values()
            for name in all_
        }
        assert left == {one.name for one in pending} - {one.name for one in found.admitted}, case["title"]
    assert len(cases) >= 11


def _assigned(entry: dict[str, Any]) -> dict[tuple[str, str], int]:
    use: dict[tuple[str, str], int] = {}
    for pod in entry["pod_sets"]:
        for resource, one in pod["assigned"].items():
            pair = (one["flavor"], resource)
            use[pair] = use.get(pair, 0) + one["amount"]
    return use


def test_division(data: Path) -> None:
    cases = fairness_cases(data, "kai_resource_division")
    for case in cases:
        for resource, total in case["total"].items():
            division = _divided(case, resource, total)
            shares = {
                queue["key"]: given for queue, given in zip(case["queues"], division.shares, strict=True)
            }
            for key, wanted in case["expected"]["fair_share"].items():
                if resource in wanted:
                    assert float(shares[key]) == pytest.approx(wanted[resource], abs=1e-9), case["title"]
            remaining = case["expected"]["remaining"]
            if remaining is not None and resource in remaining:
                assert float(division.left) == pytest.approx(remaining[resource], abs=1e-9), case["title"]
    assert len(cases) >= 35


def _divided(case: dict[str, Any], resource: str, total: float) -> Division:
    queues = []
    for queue in case["queues"]:
        of = queue["resources"][resource]
        queues.append(
            KaiQueue(
                queue["id"],
                of["deserved"],
                of["request"],
                of["limit"],
                of["over_quota_weight"],
                of["usage"],
                queue["priority"],
                queue["created"],
            )
        )
    if case["stage"] == "full":
        return divided(queues, total, case["k"])
    assert case["stage"] == "over_quota"
    before = [Fraction(queue["resources"][resource]["fair_share_before"]) for queue in case["queues"]]
    return divided_over_quota(queues, before, total, case["k"])
