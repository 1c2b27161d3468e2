"""Kueue's own cases of topology-aware scheduling: the baseline gives its answers verbatim."""

from __future__ import annotations

import json
from typing import Any

import pytest

from apportion.cluster.policies.rounds.kueue_topology import (
    Domain,
    Leaf,
    NoFit,
    Request,
    Tree,
    fewest,
    placed,
    shared_evenly,
)
from tests.conftest import data_folder
from tests.policies.topology_cases import answers, expected

PATH = data_folder() / "topology" / "topology_cases.json"
CASES = json.loads(PATH.read_bytes())["cases"] if PATH.is_file() else []
ASSIGNED = [case for case in CASES if case["kind"] in ("assign", "replace")]
STEPS = [case for case in CASES if case["kind"] in ("select_domains", "place_balanced", "balanced_threshold")]
"""Single steps of balanced placement."""
WORKED = [case for case in CASES if case["kind"] == "worked_example"]


def holds(case: dict[str, Any]) -> bool:
    """Return whether every pod set of a case gets what it states."""
    try:
        found = answers(case)
    except ValueError:  # a level that there is not
        return all("error" in expected(pods) for pods in case["pod_sets"])
    for pods, got in zip(case["pod_sets"], found, strict=True):
        stated = expected(pods)
        if isinstance(got, NoFit):
            same = isinstance(stated, dict) and stated.get("fit", got.fit) == got.fit
            if not same or stated.get("of", got.of) != got.of:
                return False
        elif got != stated:
            return False
    return True


@pytest.mark.parametrize("case", [pytest.param(one, id=f"{one['id']} {one['title']}") for one in ASSIGNED])
def test_the_stated_places_are_found(case: dict[str, Any]) -> None:
    assert holds(case)


def domains(case: dict[str, Any]) -> list[Domain]:
    """Return the places that a single step of balanced placement works on."""
    found = []
    for one in case["domains"]:
        found.append(Domain(tuple(one["values"]), 0))
        found[-1].pods, found[-1].slices, found[-1].leaders = one["pods"], one["slices"], one["leaders"]
        found[-1].pods_led, found[-1].slices_led = one["pods_with_leader"], one["slices_with_leader"]
    return found


@pytest.mark.parametrize("case", [pytest.param(one, id=f"{one['id']} {one['title']}") for one in STEPS])
def test_the_stated_steps_of_balanced_placement_come_out(case: dict[str, Any]) -> None:
    given, stated = domains(case), case["expected"]
    need, size, leader = case["slices"], case["slice_size"], bool(case["leaders"])
    if case["kind"] == "select_domains":
        chosen = fewest(given, need, size, leader, by_entropy=case["prefer_entropy"])
        assert sorted(one.path[-1] for one in chosen) == sorted(stated["domains"])
    elif case["kind"] == "place_balanced":
        shares = shared_evenly(given, need, size, leader, case["threshold"]) or []
        assert {one.path[-1]: pods for one, pods, _ in shares} == stated["pods"]
    else:
        leaves = [
            Leaf(one.path, one.pods, one.pods_led, bool(one.leaders)) for one in given if len(one.path) == 2
        ]
        least, number, _ = Tree(leaves, 2, Request(need * size, 0, "preferred", (), leader)).most_even()
        assert (least, number) == (stated["threshold"], stated["domain_count"])


@pytest.mark.parametrize("case", [pytest.param(one, id=f"{one['id']} {one['title']}") for one in WORKED])
def test_the_worked_examples_of_the_proposal_come_out(case: dict[str, Any]) -> None:
    blocks, levels = case.get("blocks") or [case["racks"]], case["levels"]
    paths = [
        (f"b{b}", f"r{r}", f"h{h:02}")[-len(levels) :]
        for b, racks in enumerate(blocks)
        for r, hosts in enumerate(racks)
        for h in range(len(hosts))
    ]
    rooms = [room for racks in blocks for hosts in racks for room in hosts]
    mode = "preferred" if "preferred" in case else "required"
    slices = ((levels.index(case["slice_level"]), case["slice_size"]),) if case["slice_level"] else ()
    even = case["placement"] == "balanced"
    asked = Request(case["count"], levels.index(case[mode]), mode, slices, balanced=even)  # type: ignore[arg-type]
    found = placed([Leaf(*one) for one in zip(paths, rooms, strict=True)], len(levels), asked)
    assert not isinstance(found, NoFit)
    got = {one.path: one.pods for one in found}
    stated = case["expected"]["pods"] if "blocks" in case else [case["expected"]["pods"]]
    flat = [pods for racks in stated for hosts in racks for pods in hosts]
    # equal places may be exchanged
    mine = sorted((room, got.get(path, 0)) for room, path in zip(rooms, paths, strict=True))
    assert mine == sorted(zip(rooms, flat, strict=True))
