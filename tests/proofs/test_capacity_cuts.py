"""What a cut of a capacity says: its room, what options take of it, and why every plan keeps it."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations, product
from random import Random
from typing import Any

import numpy as np
import pytest

import apportion
from apportion.instances.columns import Columns
from apportion.instances.freezing.nodes import TypeNodes
from apportion.proofs import Claim, capacity_cuts
from apportion.proofs.bare_models import columns
from apportion.proofs.capacity_cuts import exceed_nodes, greatest_sum, read
from apportion.proofs.certificate import MalformedProof, Proof


def given_columns(gpus: int = 11, size: int = 4) -> Columns:
    """Return the options of five jobs of 1 to 4, 8 or 12 GPUs of type g beside a type h."""
    menu = [
        {"gpu_type": kind, "gpus": n, "depths": [0], "effective_progress": [float(n)]}
        for kind, n in (("h", 1), ("g", 1), ("g", 2), ("g", 3), ("g", 4), ("g", 8))
    ]
    told = {
        "kind": "freezing",
        "schema_version": "1",
        "gpus": {"h": 2, "g": gpus},
        "round_s": 60.0,
        "power": 1.0,
        "queue_penalty": 0.0,
        "gpus_per_node": {"g": size},
        "jobs": [{"id": f"j{k}", "layers": 1, "menu": menu} for k in range(5)],
    }
    instance: Any = apportion.read(json.dumps(told).encode())
    return columns(instance)


def proof(*cuts: Any) -> Proof:
    return Proof("", Claim("no_better_plan", 0.0), 0, (), cuts=cuts)


def packs(rooms: list[int], sizes: list[int]) -> bool:
    """Return whether sizes lie on rooms, each on one of them."""
    for places in product(range(len(rooms)), repeat=len(sizes)):
        left = list(rooms)
        for place, size in zip(places, sizes, strict=True):
            left[place] -= size
        if min(left, default=0) >= 0:
            return True
    return not sizes


@pytest.mark.parametrize("seed", range(60))
def test_an_exclusion_is_shown_where_no_packing_exists(seed: int) -> None:
    random = Random(seed)
    size, whole = random.randint(1, 4), random.randint(0, 2)
    nodes = TypeNodes((), size, whole, random.randint(0, size - 1))
    gpus = [random.choice([*range(1, size + 1), 2 * size, size + 1]) for _ in range(random.randint(1, 4))]
    needed = [nodes.needed(one) for one in gpus]
    if None in needed:  # in no plan; shown only where those before it exceed the nodes
        before = gpus[: needed.index(None)]
        assert exceed_nodes(nodes, gpus) <= exceed_nodes(nodes, before)
        return
    parts = [min(one, size) for one, count in zip(gpus, needed, strict=True) for _ in range(count or 0)]
    fits = packs(nodes.room(), parts) if len(parts) <= 7 else False
    assert exceed_nodes(nodes, gpus) is not fits


def test_packings_are_counted_and_given_up_below_zero() -> None:
    nodes = TypeNodes((), 4, 2, 0)
    for left, shown in (([3], True), ([2], True), ([1], False), ([0], False)):
        assert exceed_nodes(nodes, [3, 3, 3], left) is shown
    left = [10]
    assert exceed_nodes(nodes, [3, 3, 3], left) and left == [8]
    # a packing of many nodes counts for more
    many = [1000]
    assert exceed_nodes(TypeNodes((), 2, 128, 0), [2] * 129, many) is True and many[0] < 1000 - 3 * 100
    # jobs of several nodes are counted before anything is packed, and a packing is looked at once
    assert exceed_nodes(nodes, [8, 8], [0])
    left = [100]
    assert exceed_nodes(TypeNodes((), 7, 2, 5), [4, 3, 5, 2, 5, 2], left) and left == [92]
    assert exceed_nodes(nodes, [8, 4]) and exceed_nodes(nodes, [12]) and not exceed_nodes(nodes, [8])


def test_what_options_take_of_a_cut_of_nodes() -> None:
    given = given_columns()
    own, rows = given.uses[:, list(given.capacities).index("g")], np.arange(given.uses.shape[0])
    excluded, weights = read(
        given,
        proof(
            {"gpu_type": "g", "excluded": {"0": 3, "2": 4, "3": 8}},
            {"gpu_type": "g", "node_weights": [0, 1, 1, 2]},
        ),
    )
    assert excluded.room == 2
    taken = excluded.amounts(given, rows, rows)
    least = {0: 3, 2: 4, 3: 8}
    jobs = given.owner
    assert [*taken] == [int(n > 0 and n >= least.get(int(job), 99)) for job, n in zip(jobs, own, strict=True)]
    weigh = {0: 0, 1: 0, 2: 1, 3: 1, 4: 2, 8: 4}
    assert [*weights.amounts(given, rows, rows)] == [weigh[int(n)] for n in own]
    assert weights.room == 2 + 2 + 1  # two nodes of 4, and one of 3


def test_a_divided_capacity_counts_multiples() -> None:
    given = given_columns(gpus=11)
    at = list(given.capacities).index("g")
    rows = np.arange(0, given.uses.shape[0], 2)
    for divisor in range(1, 13):
        [cut] = read(given, proof({"capacity": at, "divisor": divisor}))
        assert cut.room == 11 // divisor
        assert [*cut.amounts(given, rows, rows)] == [int(n) // divisor for n in given.uses[rows, at]]
    [largest] = read(given, proof({"capacity": at, "divisor": (1 << 62) - 1}))
    assert largest.room == 0


def test_a_cover_counts_who_uses_so_much_and_derives_how_many_can() -> None:
    given = given_columns(gpus=11)
    at, jobs = list(given.capacities).index("g"), len(given.jobs)
    rows, own = np.arange(0, given.uses.shape[0], 2), given.uses[:, at]
    random = Random(3)
    for _ in range(200):
        others = random.randint(1, 12)
        named = {job: random.randint(1, 12) for job in random.sample(range(jobs), random.randint(0, jobs))}
        thresholds = {str(job): least for job, least in named.items()}
        [cut] = read(given, proof({"capacity": at, "thresholds": thresholds, "others": others}))
        wanted = [named.get(job, others) for job in range(jobs)]
        sets = [some for many in range(jobs + 1) for some in combinations(wanted, many)]
        assert cut.room == max(len(some) for some in sets if sum(some) <= 11)
        enough = [int(own[row] >= wanted[given.owner[row]]) for row in rows.tolist()]
        assert [*cut.amounts(given, rows, rows)] == enough
    [none] = read(given_columns(gpus=0), proof({"capacity": at, "thresholds": {}, "others": 1}))
    assert none.room == 0


def test_what_a_capacity_can_reach_is_derived_once(monkeypatch: pytest.MonkeyPatch) -> None:
    given = given_columns(gpus=7)
    at = list(given.capacities).index("g")
    words = [100]  # of five jobs of 1, 2, 3 and 4 GPUs each; 8 are too many, and none take none
    assert greatest_sum(given, at, words) == 7 and words == [80]
    monkeypatch.setattr(capacity_cuts, "_MOST_WORDS", 20)
    assert len(read(given, proof(*[{"capacity": at, "divisor": 2}] * 500))) == 500
    # a capacity of which nobody uses anything is not listed at all
    idle = replace(given, uses=np.zeros_like(given.uses), rooms=[1 << 62] * len(given.rooms))
    assert greatest_sum(idle, at, [0]) == 0


REFUSED: dict[str, Any] = {
    "weights as text": {"gpu_type": "g", "node_weights": "0011"},
    "weights of fractions": {"gpu_type": "g", "node_weights": [0, 0, 1, 1.0]},
    "weights of truth": {"gpu_type": "g", "node_weights": [0, 0, 1, True]},
    "weights beyond a billion": {"gpu_type": "g", "node_weights": [0, 0, 1, 10**9 + 1]},
    "weights below 0": {"gpu_type": "g", "node_weights": [0, 0, 1, -1]},
    "more weights than a node has GPUs": {"gpu_type": "g", "node_weights": [0, 0, 1, 1, 1]},
    "weights and an exclusion": {"gpu_type": "g", "node_weights": [0, 0, 1, 1], "excluded": {"0": 12}},
    "a type by number": {"gpu_type": 1, "node_weights": [0, 0, 1, 1]},
    "a type as a list": {"gpu_type": ["g"], "node_weights": [0, 0, 1, 1]},
    "weights as a number": {"gpu_type": "g", "node_weights": 4},
    "no type": {"node_weights": [0, 0, 1, 1]},
    "a type whose nodes are not told": {"gpu_type": "h", "node_weights": [0]},
    "an exclusion as a list": {"gpu_type": "g", "excluded": [12]},
    "an exclusion of a job by a sign": {"gpu_type": "g", "excluded": {"+0": 12}},
    "an exclusion of a job by another digit": {"gpu_type": "g", "excluded": {"\u0660": 12}},
    "an exclusion of the job after the last": {"gpu_type": "g", "excluded": {"5": 12}},
    "an exclusion of a job far beyond": {"gpu_type": "g", "excluded": {"1" + "0" * 5_000: 12}},
    "an exclusion of true GPUs": {"gpu_type": "g", "excluded": {"0": True}},
    "an exclusion of 0 GPUs": {"gpu_type": "g", "excluded": {"0": 0}},
    "an exclusion of 0 GPUs beside others": {"gpu_type": "g", "excluded": {"0": 0, "1": 12}},
    "an exclusion of true GPUs beside others": {"gpu_type": "g", "excluded": {"0": True, "1": 12}},
    "an exclusion of fractions beside others": {"gpu_type": "g", "excluded": {"0": 1.0, "1": 12}},
    "an exclusion of nobody": {"gpu_type": "g", "excluded": {}},
    "an exclusion that packs": {"gpu_type": "g", "excluded": {"0": 4, "1": 4, "2": 3}},
    "an exclusion of what is no count of nodes": {"gpu_type": "g", "excluded": {"0": 5, "1": 12}},
    "a negative capacity": {"capacity": -1, "divisor": 2},
    "a capacity after the last": {"capacity": 2, "divisor": 2},
    "a capacity alone": {"capacity": 1},
    "a divisor of 2**62": {"capacity": 1, "divisor": 1 << 62},
    "a cover of no capacity": {"thresholds": {"0": 4}, "others": 4},
    "a cover of a capacity after the last": {"capacity": 2, "thresholds": {"0": 4}, "others": 4},
    "a cover of a negative capacity": {"capacity": -1, "thresholds": {"0": 4}, "others": 4},
    "a cover that says nothing of others": {"capacity": 1, "thresholds": {"0": 4}},
    "a cover that says how many": {"capacity": 1, "thresholds": {"0": 4}, "others": 4, "most": 0},
    "a cover and a divisor": {"capacity": 1, "thresholds": {"0": 4}, "others": 4, "divisor": 2},
    "a cover of a list": {"capacity": 1, "thresholds": [4], "others": 4},
    "a cover of a job by a sign": {"capacity": 1, "thresholds": {"+0": 4}, "others": 4},
    "a cover of a job by two digits": {"capacity": 1, "thresholds": {"00": 4}, "others": 4},
    "a cover of a job by another digit": {"capacity": 1, "thresholds": {"\u0660": 4}, "others": 4},
    "a cover of the job after the last": {"capacity": 1, "thresholds": {"5": 4}, "others": 4},
    "a cover of a job far beyond": {"capacity": 1, "thresholds": {"1" + "0" * 5_000: 4}, "others": 4},
    "a cover of nobody": {"capacity": 1, "thresholds": {"": 4}, "others": 4},
    "a threshold of 0": {"capacity": 1, "thresholds": {"0": 0}, "others": 4},
    "a threshold below 0": {"capacity": 1, "thresholds": {"0": -4}, "others": 4},
    "a threshold of truth": {"capacity": 1, "thresholds": {"0": True}, "others": 4},
    "a threshold of a fraction": {"capacity": 1, "thresholds": {"0": 4.0}, "others": 4},
    "a threshold of 2**62": {"capacity": 1, "thresholds": {"0": 1 << 62}, "others": 4},
    "others of 0": {"capacity": 1, "thresholds": {"0": 4}, "others": 0},
    "others of 2**62": {"capacity": 1, "thresholds": {"0": 4}, "others": 1 << 62},
    "others of truth": {"capacity": 1, "thresholds": {"0": 4}, "others": True},
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_gives_no_reason_is_refused(name: str) -> None:
    with pytest.raises(MalformedProof):
        read(given_columns(), proof(REFUSED[name]))


ALLOWED: dict[str, Any] = {
    "weights up to a billion": {"gpu_type": "g", "node_weights": [0, 0, 1, 10**9]},
    "an exclusion of the last job": {"gpu_type": "g", "excluded": {"4": 12}},
    "an exclusion that does not pack": {"gpu_type": "g", "excluded": {"0": 4, "1": 4, "2": 4}},
    "a divisor below 2**62": {"capacity": 1, "divisor": (1 << 62) - 1},
    "a divisor of 1": {"capacity": 0, "divisor": 1},
    "a cover of the last job": {"capacity": 1, "thresholds": {"4": 1}, "others": (1 << 62) - 1},
    "a cover of all alike": {"capacity": 0, "thresholds": {}, "others": 1},
}


@pytest.mark.parametrize("name", ALLOWED)
def test_what_gives_a_reason_is_read(name: str) -> None:
    [cut] = read(given_columns(), proof(ALLOWED[name]))
    assert cut.room >= 0


def test_cuts_are_counted_before_they_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    given = given_columns()
    weights = {"gpu_type": "g", "node_weights": [0, 0, 1, 1]}
    options = given.uses.shape[0]
    monkeypatch.setattr(capacity_cuts, "_MOST_USES", 2 * options)
    assert 2 * options > 3 * 4**2  # pairs of weights
    assert len(read(given, proof(weights, weights))) == 2
    with pytest.raises(MalformedProof, match="uses of cuts"):
        read(given, proof(weights, weights, weights))
    wide = given_columns(size=8)
    monkeypatch.setattr(capacity_cuts, "_MOST_USES", 8**2)
    assert len(read(wide, proof({"gpu_type": "g", "node_weights": [1] * 8}))) == 1
    monkeypatch.setattr(capacity_cuts, "_MOST_USES", 31)
    with pytest.raises(MalformedProof, match="pairs"):
        read(given, proof(weights, weights))
    # divided capacities are no cuts of nodes, and have their own count
    at = list(given.capacities).index("g")
    assert len(read(given, proof(*[{"capacity": at, "divisor": 2}] * 9))) == 9
    monkeypatch.setattr(capacity_cuts, "_MOST_WORDS", 3)
    with pytest.raises(MalformedProof, match="too many"):
        read(given, proof({"capacity": at, "divisor": 2}))


def test_all_but_one_of_the_jobs_that_are_excluded_may_have_so_many() -> None:
    nodes = TypeNodes((), 4, 2, 3)
    gpus = [4, 4, 4]
    assert exceed_nodes(nodes, gpus)
    assert not any(exceed_nodes(nodes, list(some)) for some in combinations(gpus, 2))


def test_a_cut_of_nodes_needs_an_instance_with_nodes() -> None:
    bare = replace(given_columns(), nodes=None)
    with pytest.raises(MalformedProof, match="no GPU type with nodes"):
        read(bare, proof({"gpu_type": "g", "node_weights": [0, 0, 1, 1]}))
