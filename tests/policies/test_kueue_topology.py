"""Kueue's own cases of topology-aware scheduling: the baseline gives its answers verbatim."""

from __future__ import annotations

import json
from collections import Counter
from random import Random
from typing import Any

import pytest

from apportion.cluster.policies.rounds.kueue_topology import (
    Domain,
    Leaf,
    NoFit,
    Request,
    Taken,
    Tree,
    fewest,
    placed,
    replaced,
    resized,
    shared_evenly,
)
from tests.conftest import data_folder
from tests.policies.topology_cases import answers, expected, nodes_of

PATH = data_folder() / "topology" / "topology_cases.json"
CASES = json.loads(PATH.read_bytes())["cases"] if PATH.is_file() else []
ASSIGNED = [case for case in CASES if case["kind"] in ("assign", "replace")]
STEPS = [case for case in CASES if case["kind"] in ("select_domains", "place_balanced", "balanced_threshold")]
"""Single steps of balanced placement."""
WORKED = [case for case in CASES if case["kind"] == "worked_example"]


def holds(case: dict[str, Any]) -> bool:
    """Return whether every pod set of a case gets what it states, or fails as it states."""
    try:
        found = answers(case)
    except ValueError:  # a level that there is not, or slices that cannot be
        return all("error" in expected(pods) for pods in case["pod_sets"])
    for pods, got in zip(case["pod_sets"], found, strict=True):
        stated = expected(pods)
        if isinstance(got, NoFit) and isinstance(stated, dict):
            layers = [{"level": case["levels"][at], "fit": fit, "of": of} for at, fit, of in got.layers]
            told = {"fit": got.fit, "of": got.of, "slices_per_level": layers, "excluded": got.excluded}
            told |= {"nodes": len(list(nodes_of(case))), "unit": got.unit}
            if any(stated.get(key, value) != value for key, value in told.items()):
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


def leaf(path: str, room: int, beside: int | None = None, weight: int = 0) -> Leaf:
    """Return a lowest place; with the room beside a leader it can hold one."""
    return Leaf(tuple(path), room, room if beside is None else beside, beside is not None, weight)


def found(leaves: list[Leaf], request: Request) -> dict[str, tuple[int, bool]]:
    """Return the pods of every lowest place that gets some, and whether the leader."""
    taken = placed(leaves, len(leaves[0].path), request)
    assert not isinstance(taken, NoFit)
    return {"".join(one.path): (one.pods, one.leader) for one in taken}


def test_affinity_comes_before_room_but_never_loses_a_required_place() -> None:
    hosts = [leaf("ax", 5), leaf("ay", 6, weight=1), leaf("az", 4), leaf("bx", 3, weight=3)]
    assert found(hosts, Request(4, 1, "required", ((1, 4),))) == {"ay": (4, False)}
    # the last place is the tightest of those that are preferred as much
    hosts = [leaf("ax", 6, weight=1), leaf("ay", 5, weight=3), leaf("az", 1)]
    assert found(hosts, Request(6, 0, "required")) == {"ay": (5, False), "ax": (1, False)}


def test_the_leader_goes_to_the_largest_place_that_leaves_room_for_all() -> None:
    hosts = [leaf("w", 3, 3), leaf("x", 1, 0), leaf("y", 1, 0), leaf("z", 5, 3)]
    one_rack = [Leaf(("r", *one.path), one.room, one.room_beside_leader, True) for one in hosts]
    assert found(one_rack, Request(4, 0, "required", leader=True)) == {"rx": (1, False), "rz": (3, True)}


def test_a_balanced_place_that_cannot_hold_the_leader_keeps_its_pods() -> None:
    hosts = [leaf("aax", 4, 3), leaf("aay", 6, 6), leaf("bax", 6, 5), leaf("cax", 1), leaf("cbx", 5, 4)]
    asked = Request(12, 0, "preferred", ((1, 2),), leader=True, balanced=True)
    assert found(hosts, asked) == {"aax": (3, True), "aay": (3, False), "bax": (6, False)}


def test_shares_that_inner_slices_do_not_find_are_no_placement() -> None:
    hosts = [leaf("aax", 3), leaf("aay", 5), leaf("abx", 1), leaf("aby", 3)]
    asked = Request(8, 0, "preferred", ((1, 2), (2, 2)), balanced=True)
    assert placed(hosts, 3, asked) == NoFit(3, 4, unit="slice")


def test_lost_pods_stay_in_the_place_that_is_required_and_join_the_others() -> None:
    hosts, rest = [leaf("ax", 2), leaf("bx", 1), leaf("by", 1)], [(("b", "x"), 2)]
    moved = replaced(hosts, 2, Request(3, 0, "required"), rest, 1)
    assert moved == [Taken(("b", "x"), 3, False)]
    anywhere = replaced(hosts, 2, Request(3, 0, "preferred"), rest, 1)
    assert anywhere == [Taken(("a", "x"), 1, False), Taken(("b", "x"), 2, False)]
    lone = replaced(hosts, 2, Request(4, 0, "required", ((0, 4), (1, 2))), rest, 2)
    # two more pods of the slice of b: no host of b has room for both
    assert lone == NoFit(0, 1, (), {"topologyDomain": 1}, "slice")


def test_an_elastic_workload_keeps_its_first_places_and_adds_what_is_missing() -> None:
    hosts, earlier = [leaf("ax", 1), leaf("bx", 1)], [(("a", "x"), 2), (("b", "x"), 1)]
    assert resized(hosts, 2, Request(2), earlier) == [Taken(("a", "x"), 2, False)]
    grown = resized(hosts, 2, Request(5), earlier)
    assert grown == [Taken(("a", "x"), 3, False), Taken(("b", "x"), 2, False)]
    assert resized(hosts, 2, Request(6), earlier) == NoFit(2, 3)


@pytest.mark.parametrize("slices", [((0, 4),), ((1, 4), (1, 2)), ((1, 4), (2, 3))])
def test_slices_that_cannot_be_are_refused(slices: tuple[tuple[int, int], ...]) -> None:
    with pytest.raises(ValueError, match="slices"):
        Request(4, 1, "required", slices)


def drawn(seed: int) -> tuple[list[Leaf], Request]:
    """Return lowest places of three levels, and what is asked for."""
    random = Random(seed)
    hosts = []
    for path in sorted({"".join(random.choices("abc", k=3)) for _ in range(random.randint(1, 9))}):
        room = random.randint(0, 6)
        beside = random.choice([None, max(0, room - random.randint(0, 2))])
        hosts.append(leaf(path, room, beside, random.choice([0, 0, 2])))
    mode = random.choice(["required", "preferred", "unconstrained"])
    level, slices = random.randint(0, 2), ()
    if random.random() < 0.6:
        slices = random.choice([((level, 4),), ((level, 4), (level + 1, 2))][: 3 - level])  # type: ignore[assignment]
    count = random.randint(1, 3) * 4 if slices else random.randint(1, 12)
    asked = Request(
        count,
        level if mode != "unconstrained" else 0 if slices else None,
        mode,  # type: ignore[arg-type]
        slices,
        leader=random.random() < 0.5,
        least_free=random.random() < 0.5,
        balanced=random.random() < 0.5,
    )
    return hosts, asked


@pytest.mark.parametrize("first", range(0, 2000, 250))
def test_every_pod_is_placed_and_has_room(first: int) -> None:
    for seed in range(first, first + 250):
        check(*drawn(seed))


def check(hosts: list[Leaf], asked: Request) -> None:
    """Check that what is found for a request holds all pods, has room, and keeps places and slices."""
    taken = placed(hosts, 3, asked)
    if isinstance(taken, NoFit):
        assert taken.of == asked.count // (asked.slices[0][1] if asked.slices else 1)
        return
    rooms = {one.path: one for one in hosts}
    assert sum(one.pods for one in taken) == asked.count
    assert sum(one.leader for one in taken) == asked.leader
    for one in taken:
        host = rooms[one.path]
        assert one.pods <= (host.room_beside_leader if one.leader else host.room)
        assert host.holds_leader or not one.leader
    if asked.mode == "required":
        assert len({one.path[: (asked.level or 0) + 1] for one in taken}) == 1
    for at, size in asked.slices:
        there = Counter[tuple[str, ...]]()
        for one in taken:
            there[one.path[: at + 1]] += one.pods
        assert not any(pods % size for pods in there.values())
