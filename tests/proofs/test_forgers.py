"""Forged and damaged proofs are refused, and none exhausts memory or time."""

from __future__ import annotations

import functools
import gzip
import json
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import apportion
from apportion import Assignment
from apportion.instances import MatchingEntry, MatchingInstance, MatchingJob, MatchingMachine
from apportion.instances.tenants.schema import Quota, Tenant
from apportion.models import MultipleChoiceKnapsack
from apportion.proofs import Claim, Proof, verify
from apportion.proofs.certificate import decode, encode, instance_digest
from apportion.proofs.walking import Limits

Document = dict[str, Any]


def menus() -> MultipleChoiceKnapsack:
    """Eight jobs that the bound at the root does not settle."""
    rng = np.random.default_rng(5)
    uses = rng.integers(1, 60, (32, 3))
    values = uses.sum(axis=1) + rng.integers(-5, 6, 32).astype(float)
    return MultipleChoiceKnapsack.from_arrays(
        values, uses, np.arange(0, 33, 4), uses.sum(axis=0) // 8, required=False
    )


def machines() -> Assignment:
    """Nine jobs on three machines, whose makespan prices alone do not prove."""
    return Assignment.from_matrix("makespan", np.random.default_rng(7).integers(10, 60, (9, 3)).astype(float))


def on_pools(*, divisible: bool = False) -> MatchingInstance:
    """Six jobs, some of them gangs, on a pool of three machines and one of one."""
    rng = np.random.default_rng(2)
    jobs = tuple(
        MatchingJob(
            f"j{at}",
            {
                "a": MatchingEntry(time_s=float(rng.integers(3, 20)), gpus=1 + at % 2),
                "b": MatchingEntry(time_s=float(rng.integers(9, 30))),
            },
        )
        for at in range(6)
    )
    pools = (MatchingMachine("a", count=3), MatchingMachine("b"))
    return MatchingInstance(
        schema_version="1", objective="makespan", machines=pools, jobs=jobs, divisible=divisible
    )


def of_tenants() -> MatchingInstance:
    """Seven jobs of two tenants, one of which may not use more than six of a pool's ten."""
    rng = np.random.default_rng(3)
    jobs = tuple(
        MatchingJob(
            f"j{at}",
            {
                "a": MatchingEntry(time_s=float(rng.integers(3, 20)), uses=1 + at % 3),
                "b": MatchingEntry(time_s=float(rng.integers(12, 30))),
            },
            tenant="xy"[at % 2],
        )
        for at in range(7)
    )
    return MatchingInstance(
        schema_version="1",
        objective="makespan",
        machines=(MatchingMachine("a", count=2, capacity=5), MatchingMachine("b")),
        jobs=jobs,
        tenants=(Tenant("x", quotas={"a": Quota(borrowing_limit=6)}), Tenant("y")),
    )


def costs() -> Assignment:
    """Sixty jobs on six machines, which rows prove and not the prices of capacities."""
    rng = np.random.default_rng(2)
    uses, values = rng.integers(5, 26, (60, 6)), rng.integers(10, 51, (60, 6)).astype(float)
    return Assignment.from_matrix("cost", values, uses=uses, capacities=uses.sum(axis=0) * 4 // 30)


SHAPES: dict[str, Callable[[], Any]] = {
    "menus": menus,
    "bare assignment": machines,
    "gangs": on_pools,
    "tenants": of_tenants,
    "shares of machines": lambda: on_pools(divisible=True),
}


@functools.cache
def proved(shape: str) -> tuple[Any, str]:
    """Return an instance of a shape, and its genuine proof as JSON."""
    subject = costs() if shape == "costs" else SHAPES[shape]()
    solution = apportion.solve(subject, proof=True, time_limit=120.0)
    assert solution.proof is not None and verify(subject, solution.proof).proved
    return subject, gzip.decompress(encode(solution.proof)).decode()


@pytest.fixture(scope="module")
def model() -> MultipleChoiceKnapsack:
    return proved("menus")[0]  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def genuine() -> Document:
    return json.loads(proved("menus")[1])  # type: ignore[no-any-return]


def packed(document: Any) -> bytes:
    return gzip.compress(json.dumps(document).encode())


def put(field: str, value: Any) -> Callable[[Document], None]:
    def forge(document: Document) -> None:
        document[field] = value

    return forge


_WORTH = 200.0
"""The menus here are worth more, so a bound below is false; makespans are shorter, so a bound above is."""


def stronger(document: Document, by: float = 1.0) -> None:
    """Claim what is better than the optimum."""
    document["claim"]["bound"] += -by if document["claim"]["bound"] > _WORTH else by


def listed(field: str, *further: Any) -> Callable[[Document], None]:
    def forge(document: Document) -> None:
        document[field] = [*document[field], *further]

    return forge


def twice(document: Document) -> None:
    document["order"] = [*document["order"], *(document["order"] or [0])[:1] * 2]


def both(*forgers: Callable[[Document], None]) -> Callable[[Document], None]:
    def forge(document: Document) -> None:
        for one in forgers:
            one(document)

    return forge


def first_price(change: Callable[[int], Any]) -> Callable[[Document], None]:
    def forge(document: Document) -> None:
        document["prices"] = document["prices"] or [[0]]
        document["prices"][0][0] = change(document["prices"][0][0])

    return forge


def scaled(shift: int, factor: int) -> Callable[[Document], None]:
    def forge(document: Document) -> None:
        document["shift"] += shift
        document["prices"] = [[price * factor for price in vector] for vector in document["prices"]]

    return forge


FORGED: dict[str, Callable[[Document], None]] = {
    "a bound that a plan beats by one unit of the grid": stronger,
    "a bound that a plan beats in the last digits": lambda d: stronger(d, 1e-7),
    "infeasibility claimed of a feasible instance": put("claim", {"kind": "infeasible", "bound": None}),
    "another kind of claim without a bound": put("claim", {"kind": "optimal", "bound": None}),
    "a claim that is a list of its fields": put("claim", ["kind", "bound"]),
    "another kind of claim": put("claim", {"kind": "optimal", "bound": 1.0}),
    "infeasibility with a bound": put("claim", {"kind": "infeasible", "bound": 1.0}),
    "an infinite bound": put("claim", {"kind": "no_better_plan", "bound": float("inf")}),
    "a bound that is no number": put("claim", {"kind": "no_better_plan", "bound": float("nan")}),
    "a bound beyond doubles": put("claim", {"kind": "no_better_plan", "bound": 10**400}),
    "a bound in words": put("claim", {"kind": "no_better_plan", "bound": "1"}),
    "a price off by one, under a false claim": both(stronger, first_price(lambda price: price + 1)),
    "a negative price": first_price(lambda price: -1 - price),
    "a price that is not whole": first_price(lambda price: price + 0.5),
    "a price that is true": first_price(lambda price: True),
    "a price of 2**63 less 1, to wrap around": both(stronger, first_price(lambda price: 2**63 - 1)),
    "a price of 2**64, to wrap around to 0": both(stronger, first_price(lambda price: 2**64)),
    "a price as long as the format allows": both(stronger, first_price(lambda price: 2**1024 - 1)),
    "a price longer than that": first_price(lambda price: 2**1024),
    "a price missing": both(stronger, lambda d: d["prices"].insert(0, d["prices"][0][:-1])),
    "a price too many": both(stronger, lambda d: d["prices"].insert(0, [*d["prices"][0], 1])),
    "no prices at all, under a false claim": both(stronger, put("prices", [])),
    "more vectors than allowed": lambda d: d.update(prices=[d["prices"][0]] * 65),
    "a scale that does not fit the prices, under a false claim": both(stronger, scaled(3, 1)),
    "a scale so coarse that rounding hides the claim": scaled(-60, 1),
    "a scale so fine that totals leave 64 bits, under a false claim": both(stronger, scaled(40, 1 << 40)),
    "a scale out of range": put("shift", 10**9),
    "a scale that is no whole number": put("shift", 1.5),
    "an order that leaves a job's branches out": both(stronger, lambda d: d.update(order=d["order"][:-1])),
    "an order that decides a job twice": twice,
    "an order that names a job there is not": listed("order", 10**6),
    "an order of negative positions": put("order", [-1]),
    "a cut where there are no nodes": listed("cuts", {"gpu_type": "g", "node_weights": [1]}),
    "pools taken apart where there are none": listed("apart", 10**6),
    "another instance's digest": put("instance", "0" * 64),
    "another format": put("format", "vipr"),
    "a later version": put("version", 5),
    "a divided capacity before its version": listed("cuts", {"capacity": 0, "divisor": 2}),
    "a cover before its version": listed("cuts", {"capacity": 0, "thresholds": {}, "others": 2}),
    "the other version's fields": lambda d: d.update(version=3 - d["version"]),
    "version true, which equals 1": put("version", True),
    "a field missing": lambda d: d.pop("apart"),
    "a field of its own": put("reductions", [0, 1, 2]),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("forged", FORGED)
def test_a_forged_proof_is_refused(shape: str, forged: str) -> None:
    subject, text = proved(shape)
    document = json.loads(text)
    assert verify(subject, packed(document)).status == "proved"
    FORGED[forged](document)
    verdict = verify(subject, packed(document))
    assert verdict.status == "refused" and verdict.why, verdict


def test_a_walk_has_branches_to_drop(model: MultipleChoiceKnapsack, genuine: Document) -> None:
    assert verify(model, packed(genuine)).states > 100


def every_number(change: Callable[[int], Any]) -> Callable[[Document], None]:
    def forge(document: Document) -> None:
        document["rows"] = [[change(number) for number in row] for row in document["rows"]]

    return forge


def dearer(document: Document) -> None:
    """Claim what the optimum undercuts by the least difference of costs."""
    document["claim"]["bound"] += 1.0


ROWS: dict[str, Callable[[Document], None]] = {
    "a number off by one, under a false claim": both(dearer, every_number(lambda number: number + 1)),
    "no numbers but 0, under a false claim": both(dearer, every_number(lambda number: 0)),
    "numbers of the other sign, under a false claim": both(dearer, every_number(lambda number: -number)),
    "numbers that wrap around, under a false claim": both(dearer, every_number(lambda number: 2**62 - 1)),
    "numbers that wrap around below, under a false claim": both(
        dearer, every_number(lambda number: 1 - 2**62)
    ),
    "numbers longer than the format allows": every_number(lambda number: 2**62),
    "numbers as low as that": every_number(lambda number: -(2**62)),
    "a number that is not whole": every_number(lambda number: number + 0.5),
    "a number that is true": every_number(lambda number: True),
    "a number in words": every_number(str),
    "a number missing": lambda d: d.update(rows=[d["rows"][0][:-1]]),
    "a number too many": lambda d: d.update(rows=[[*d["rows"][0], 0]]),
    "more vectors than allowed": lambda d: d.update(rows=d["rows"] * 65),
    "numbers without a vector": lambda d: d.update(rows=d["rows"][0]),
    "no vector at all, under a false claim": both(dearer, put("rows", [])),
    "rows in the first version": put("version", 1),
    "the second version without rows": lambda d: d.pop("rows"),
}


@pytest.mark.one_in(5)
@pytest.mark.parametrize("forged", ROWS)
def test_forged_rows_are_refused(forged: str) -> None:
    subject, text = proved("costs")
    document = json.loads(text)
    assert document["version"] == 2 and len(document["rows"]) == 1
    ROWS[forged](document)
    verdict = verify(subject, packed(document), Limits(states=500_000))
    assert verdict.status == "refused" or (verdict.status == "incomplete" and "false" in forged), verdict


def test_tables_of_rows_beyond_their_limit_are_not_made() -> None:
    """A table bomb: capacities of 10**12 in units of 1."""
    rng = np.random.default_rng(3)
    uses = rng.integers(10**10, 10**11, (8, 3))
    model = Assignment.from_matrix("cost", rng.integers(1, 9, (8, 3)), uses=uses, capacities=10**12)
    document = json.loads(proved("costs")[1])
    document |= {"instance": instance_digest(model), "prices": [], "order": []}
    document |= {"claim": {"kind": "no_better_plan", "bound": 1000.0}, "rows": [[-1] * 8] * 64}
    tracemalloc.start()
    verdict = verify(model, packed(document))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert verdict.status == "incomplete" and "tables" in verdict.why and peak < 50e6


DAMAGED: dict[str, Callable[[bytes], bytes]] = {
    "cut off": lambda data: data[:-9],
    "with something behind": lambda data: data + b"x",
    "with a byte changed": lambda data: data[:40] + bytes([data[40] ^ 255]) + data[41:],
    "empty": lambda data: b"",
    "of zeros": lambda data: bytes(1000),
    "not JSON": lambda data: gzip.compress(b"{"),
    "not an object": lambda data: gzip.compress(b"[]"),
    "nested a million deep": lambda data: gzip.compress(b"[" * 10**6),
    "a number of a million digits": lambda data: gzip.compress(b'{"version":' + b"1" * 10**6 + b"}"),
    "a bomb of a gigabyte of zeros": lambda data: gzip.compress(bytes(1 << 20)) * 1,
}


@pytest.mark.parametrize("damaged", DAMAGED)
def test_a_damaged_file_is_refused(model: MultipleChoiceKnapsack, genuine: Document, damaged: str) -> None:
    assert verify(model, DAMAGED[damaged](packed(genuine))).status == "refused"


def test_a_compressed_bomb_is_not_unpacked(model: MultipleChoiceKnapsack) -> None:
    import zlib

    packing = zlib.compressobj(9, wbits=31)
    bomb = b"".join(packing.compress(bytes(1 << 24)) for _ in range(20)) + packing.flush()  # 335 MB in 0.3 MB
    tracemalloc.start()
    verdict = verify(model, bomb)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert verdict.status == "refused" and peak < 200e6


def test_a_proof_does_not_pass_for_an_instance_that_was_edited(
    model: MultipleChoiceKnapsack, genuine: Document
) -> None:
    other = MultipleChoiceKnapsack.from_arrays(
        model.values, model.uses, model.offsets, model.capacities + 1, required=False
    )
    assert verify(other, packed(genuine)).status == "refused"
    copied = {**genuine, "instance": instance_digest(other)}
    best = apportion.solve(other)
    if best.objective is not None and best.objective > genuine["claim"]["bound"]:
        assert verify(other, packed(copied)).status == "refused"


def test_a_walk_without_an_end_stops_at_its_limits() -> None:
    """A tree bomb: no prices, forty jobs of equal worth and odd uses, a claim that is true by little."""
    rng = np.random.default_rng(1)
    uses = rng.integers(10**5, 10**6, (200, 2))
    model = MultipleChoiceKnapsack.from_arrays(
        uses.sum(axis=1).astype(float), uses, np.arange(0, 201, 5), uses.sum(axis=0) // 9, required=False
    )
    document = {
        "format": "apportion-proof",
        "version": 1,
        "instance": instance_digest(model),
        "claim": {"kind": "no_better_plan", "bound": float(uses.sum(axis=0).sum() // 9)},
        "shift": 0,
        "prices": [],
        "order": [],
        "apart": [],
        "cuts": [],
    }
    tracemalloc.start()
    before = time.process_time()
    verdict = verify(model, packed(document), Limits(states=3_000_000, kept=20_000_000))
    spent, peak = time.process_time() - before, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert verdict.status == "incomplete" and "states" in verdict.why
    assert verdict.states < 3_000_000 + (1 << 20) + 1
    assert peak < 800e6 and spent < 60
    assert verify(model, packed(document), Limits(seconds=0.5)).status == "incomplete"


def nodes_instance() -> Any:
    job = {"layers": 1, "menu": [{"gpu_type": "g", "gpus": 3, "depths": [0], "effective_progress": [1.0]}]}
    return apportion.read(
        json.dumps(
            {
                "kind": "freezing",
                "schema_version": "1",
                "gpus": {"g": 8},
                "round_s": 60.0,
                "power": 1.0,
                "queue_penalty": 0.0,
                "gpus_per_node": {"g": 4},
                "jobs": [{"id": f"j{k}", **job} for k in range(3)],
            }
        ).encode()
    )


CUTS: dict[str, tuple[list[Any], str]] = {
    "weights that are true of every plan": ([{"gpu_type": "g", "node_weights": [0, 0, 1, 1]}], "proved"),
    "an exclusion that packing shows": ([{"gpu_type": "g", "excluded": {"0": 3, "1": 3, "2": 3}}], "proved"),
    "no cut": ([], "proved"),
    "an exclusion of more whole nodes than there are": ([{"gpu_type": "g", "excluded": {"0": 12}}], "proved"),
    "an exclusion of jobs that fill the nodes": (
        [{"gpu_type": "g", "excluded": {"0": 4, "1": 4}}],
        "refused",
    ),
    "an exclusion of a job that fills the nodes": ([{"gpu_type": "g", "excluded": {"0": 8}}], "refused"),
    "an exclusion of a fleet": ([{"gpu_type": "g", "excluded": {"0": 4 * 10**8}}], "proved"),
    "an exclusion without reason": ([{"gpu_type": "g", "excluded": {"0": 3, "1": 3}}], "refused"),
    "an exclusion of nobody": ([{"gpu_type": "g", "excluded": {}}], "refused"),
    "an exclusion of a job there is not": ([{"gpu_type": "g", "excluded": {"9": 3}}], "refused"),
    "an exclusion of no GPUs": ([{"gpu_type": "g", "excluded": {"0": 0}}], "refused"),
    "negative weights": ([{"gpu_type": "g", "node_weights": [-9, 0, 1, 1]}], "refused"),
    "too few weights": ([{"gpu_type": "g", "node_weights": [0, 1]}], "refused"),
    "a capacity of the forger's own": ([{"gpu_type": "g", "capacity": 0}], "refused"),
    "a type without nodes": ([{"gpu_type": "h", "node_weights": [1]}], "refused"),
    "GPUs in threes": ([{"capacity": 0, "divisor": 3}], "proved"),
    "GPUs as far as they are reached": ([{"capacity": 0, "divisor": 1}], "proved"),
    "GPUs in pairs, which say no more": ([{"capacity": 0, "divisor": 2}], "proved"),
    "GPUs in none": ([{"capacity": 0, "divisor": 0}], "refused"),
    "GPUs in negative numbers": ([{"capacity": 0, "divisor": -3}], "refused"),
    "GPUs in fractions": ([{"capacity": 0, "divisor": 3.0}], "refused"),
    "GPUs in what is true": ([{"capacity": 0, "divisor": True}], "refused"),
    "GPUs in more than 62 bits": ([{"capacity": 0, "divisor": 1 << 62}], "refused"),
    "a capacity there is not": ([{"capacity": 2, "divisor": 3}], "refused"),
    "a capacity before the first": ([{"capacity": -1, "divisor": 3}], "refused"),
    "a capacity by name": ([{"capacity": "g", "divisor": 3}], "refused"),
    "a divided capacity and more": ([{"capacity": 0, "divisor": 3, "room": 0}], "refused"),
    "a cover of a job there is not": ([{"capacity": 0, "thresholds": {"9": 3}, "others": 1}], "refused"),
    "jobs of three GPUs and more": ([{"capacity": 0, "thresholds": {"0": 3}, "others": 3}], "proved"),
    "a cover by a forger's count": ([{"capacity": 0, "thresholds": {}, "others": 1, "most": 0}], "refused"),
}


@pytest.mark.parametrize("name", CUTS)
def test_a_cut_needs_its_reason(name: str) -> None:
    """Two of three jobs of 3 GPUs lie on two nodes of 4; by GPUs alone, 9 of 8 do not fit either."""
    cuts, expected = CUTS[name]
    instance = nodes_instance()
    document = {
        "format": "apportion-proof",
        "version": 4,
        "rows": [],
        "instance": instance_digest(instance),
        "claim": {"kind": "no_better_plan", "bound": 2.0},
        "shift": 20,
        "prices": [],
        "order": [],
        "apart": [],
        "cuts": cuts,
    }
    tracemalloc.start()
    verdict = verify(instance, packed(document))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert verdict.status == expected
    assert peak < 16e6, "the pieces of a job are counted before they are made"


@pytest.mark.parametrize(
    ("cuts", "needed"),
    [
        ([{"capacity": 0, "divisor": 3}], 3),
        ([{"capacity": 0, "thresholds": {}, "others": 3}], 4),
        ([{"capacity": 0, "divisor": 3}, {"capacity": 0, "thresholds": {}, "others": 3}], 4),
    ],
)
def test_a_cut_is_refused_in_a_file_of_an_earlier_version(cuts: list[Document], needed: int) -> None:
    """All else is right, so that nothing but the version is what a reader may refuse."""
    instance = nodes_instance()
    proof = Proof(instance_digest(instance), Claim("no_better_plan", 2.0), 20, (), cuts=tuple(cuts))
    document = json.loads(gzip.decompress(encode(proof)))
    assert document["version"] == needed
    for version in (2, 3, 4):
        document["version"] = version
        assert verify(instance, packed(document)).status == ("proved" if version >= needed else "refused")


def gangs(*jobs: tuple[float, int]) -> Any:
    """Jobs of a time and a number of machines each, on three machines."""
    raw = {
        "kind": "matching",
        "schema_version": "1",
        "objective": "makespan",
        "machines": [{"id": "m", "count": 3}],
        "jobs": [
            {"id": f"j{k}", "on": {"m": {"time_s": time, "gpus": gang}}}
            for k, (time, gang) in enumerate(jobs)
        ],
    }
    return apportion.read(json.dumps(raw).encode())


POOL_CUTS: dict[str, tuple[list[Any], str]] = {
    "two gangs of two of three machines never run at once": ([{"pool": 0, "weights": [0, 1, 1]}], "proved"),
    "orders that all take too long": ([{"pool": 0, "excluded": [0, 1]}], "proved"),
    "no cut": ([], "refused"),
    "weights that say nothing": ([{"pool": 0, "weights": [0, 0, 0]}], "refused"),
    "an exclusion without reason": ([{"pool": 0, "excluded": [0, 2]}], "refused"),
    "an exclusion of one job twice": ([{"pool": 0, "excluded": [0, 0]}], "refused"),
    "an exclusion of nobody": ([{"pool": 0, "excluded": []}], "refused"),
    "an exclusion of a job there is not": ([{"pool": 0, "excluded": [0, 9]}], "refused"),
    "an exclusion of a job before the first": ([{"pool": 0, "excluded": [0, -1]}], "refused"),
    "too few weights": ([{"pool": 0, "weights": [0, 1]}], "refused"),
    "a weight for no machines": ([{"pool": 0, "weights": [0, 0, 1, 1]}], "refused"),
    "negative weights": ([{"pool": 0, "weights": [-9, 1, 1]}], "refused"),
    "weights in words": ([{"pool": 0, "weights": "011"}], "refused"),
    "a pool there is not": ([{"pool": 1, "weights": [0, 1, 1]}], "refused"),
    "a pool before the first": ([{"pool": -1, "weights": [0, 1, 1]}], "refused"),
    "a pool that is true": ([{"pool": False, "weights": [0, 1, 1]}], "refused"),
    "a capacity of the forger's own": ([{"pool": 0, "capacity": 0}], "refused"),
    "cuts of another kind": ([{"gpu_type": "m", "node_weights": [0, 1, 1]}], "refused"),
    "weights and more": ([{"pool": 0, "weights": [0, 1, 1], "room": 0}], "refused"),
    "a cut that is empty": ([{}], "refused"),
    "more cuts than allowed": ([{"pool": 0, "weights": [0, 1, 1]}] * 10_001, "refused"),
}


@pytest.mark.parametrize("name", POOL_CUTS)
def test_a_cut_of_a_pool_needs_its_reason(name: str) -> None:
    """Gangs of two of three machines run one after the other: 3 s and 2 s end at 5 s."""
    cuts, expected = POOL_CUTS[name]
    instance = gangs((3.0, 2), (2.0, 2), (1.0, 1))
    found = verify(instance, packed(plain(instance, 5.0, cuts=cuts)))
    assert found.status == expected, found
    beaten = verify(instance, packed(plain(instance, 5.5, cuts=cuts)))
    assert beaten.status == "refused", beaten


def plain(instance: Any, bound: float, **fields: Any) -> Document:
    """Return a proof of no prices that an instance has no plan better than a bound."""
    return {
        "format": "apportion-proof",
        "version": 1,
        "instance": instance_digest(instance),
        "claim": {"kind": "no_better_plan", "bound": bound},
        "shift": 0,
        "prices": [],
        "order": [],
        "apart": [],
        "cuts": [],
    } | fields


def test_orders_without_an_end_are_not_shown() -> None:
    """A bomb of orders: twelve gangs whose machine time just fits; the checker gives up in bounded time."""
    instance = gangs(*[(float(7 + k), 1 + k % 3) for k in range(14)])
    work = sum((7 + k) * (1 + k % 3) for k in range(14)) / 3
    before = time.process_time()
    document = plain(instance, float(int(work) + 2), cuts=[{"pool": 0, "excluded": list(range(14))}] * 5)
    assert verify(instance, packed(document)).status == "refused"
    assert time.process_time() - before < 60


def test_pools_that_hold_gangs_are_taken_apart_set_by_set() -> None:
    """A gang of 2 on 2 machines takes both, whichever is named first."""
    raw = {
        "kind": "matching",
        "schema_version": "1",
        "objective": "makespan",
        "machines": [{"id": "m", "count": 2}],
        "jobs": [
            {"id": "a", "on": {"m": {"time_s": 3.0, "gpus": 2}}},
            {"id": "b", "on": {"m": {"time_s": 2.0}}},
        ],
    }
    instance = apportion.read(json.dumps(raw).encode())
    assert verify(instance, packed(plain(instance, 4.0, prices=[[1]]))).status == "proved"
    assert verify(instance, packed(plain(instance, 5.0, apart=[0]))).status == "proved"
    assert verify(instance, packed(plain(instance, 5.5, apart=[0]))).status == "refused"
    for apart in ([1], [0, 0], [True]):
        assert verify(instance, packed(plain(instance, 4.0, prices=[[1]], apart=apart))).status == "refused"


OBJECTS: dict[str, dict[str, Any]] = {
    "a price below 0": {"prices": ((-5, 0, 0),)},
    "a price that is no number": {"prices": ((float("nan"), 0, 0),)},
    "a price that is no whole number": {"prices": ((0.5, 0, 0),)},
    "prices in a list": {"prices": [(0, 0, 0)]},
    "a row beyond what the format holds": {"rows": ((2**62,) * 8,)},
    "a bound that is no number": {"claim": Claim("no_better_plan", float("nan"))},
    "an infinite bound": {"claim": Claim("no_better_plan", float("inf"))},
    "a bound that is a whole number of any length": {"claim": Claim("no_better_plan", 10**400)},
    "no bound": {"claim": Claim("no_better_plan")},
    "an infeasibility with a bound": {"claim": Claim("infeasible", 1.0)},
    "a claim of another kind": {"claim": Claim("optimal", 1.0)},  # type: ignore[arg-type]
    "a claim that is a tuple": {"claim": ("no_better_plan", 1.0)},
    "a shift that is no whole number": {"shift": 0.5},
    "a shift out of range": {"shift": 1201},
    "an order that names a job twice": {"order": (1, 1)},
    "an order of negative positions": {"order": (-1,)},
    "a cut that is no object": {"cuts": (3,)},
    "a cut with a number for a name": {"cuts": ({1: 2},)},
    "a digest that is no word": {"instance": 5},
}


@pytest.mark.parametrize("forged", OBJECTS)
def test_a_proof_object_is_held_to_the_format_like_a_file(model: MultipleChoiceKnapsack, forged: str) -> None:
    """`apportion.verify` took objects as they were: with prices below 0 or NaN, false bounds were proved."""
    proof = decode(packed(json.loads(proved("menus")[1])))
    assert verify(model, proof).proved
    verdict = verify(model, replace(proof, **OBJECTS[forged]))
    assert verdict.status == "refused" and verdict.why


def traced(subject: Any, data: Any, limits: Limits | None = None) -> tuple[Any, int]:
    """Return the verdict on a proof, and the most memory that it took."""
    tracemalloc.start()
    verdict = verify(subject, data, limits)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return verdict, peak


def begin(digest: str) -> str:
    return f'{{"format":"apportion-proof","version":1,"instance":"{digest}",'


def test_a_file_of_another_instance_is_not_unpacked(model: MultipleChoiceKnapsack) -> None:
    """64 kB became 1.7 GB before the digest was looked at."""
    noise = np.random.default_rng(1).integers(0, 1 << 60, 4_000).tobytes().hex()
    data = gzip.compress(f'{begin("0" * 64)}"cuts":[{"{}," * (1 << 20)}{{}}],"claim":"{noise}"}}'.encode())
    verdict, peak = traced(model, data)
    assert verdict.status == "refused" and "another instance" in verdict.why and peak < 1e6


def test_what_a_file_takes_once_it_is_read_is_counted_first(model: MultipleChoiceKnapsack) -> None:
    """A pair of brackets is two bytes in a file and 72 in memory, and more with its place in a list."""
    data = f'{begin(instance_digest(model))}"cuts":[{"{}," * (2 << 20)}{{}}]}}'.encode()
    verdict, peak = traced(model, data)
    assert verdict.status == "refused" and "bytes of memory" in verdict.why and peak < 1e6


def test_a_file_is_unpacked_to_two_hundred_times_its_size_at_most(model: MultipleChoiceKnapsack) -> None:
    zeros = begin(instance_digest(model)) + '"order":[' + "0," * (1 << 22) + "0]}"
    data = gzip.compress(zeros.encode())
    verdict, peak = traced(model, data)
    assert verdict.status == "refused" and "longer than" in verdict.why and peak < 20e6


def test_what_does_not_begin_with_the_digest_is_small(
    model: MultipleChoiceKnapsack, genuine: Document
) -> None:
    later = {name: genuine[name] for name in reversed(genuine)}
    assert verify(model, packed(later)).proved and verify(model, json.dumps(later).encode()).proved
    padded = json.dumps(later).encode() + b" " * (1 << 20)
    for data in (padded, gzip.compress(padded)):
        assert "must begin with" in verify(model, data).why or "longer than" in verify(model, data).why
    ahead = json.dumps(genuine).encode() + b" " * (1 << 20)
    assert verify(model, ahead).proved


def test_numbers_beyond_64_bits_count_as_what_they_take(model: MultipleChoiceKnapsack) -> None:
    """The walk counted 8 bytes a number: 200 bytes of a proof of shift 1200 took 16 GB."""
    rng = np.random.default_rng(0)
    large = MultipleChoiceKnapsack.from_arrays(
        rng.random(100), rng.integers(1, 10**6, (100, 3)), np.arange(21) * 5, [2 * 10**6] * 3, required=False
    )
    bound = Claim("no_better_plan", 0.0)
    proof = Proof(instance_digest(large), bound, 1200, ((0, 0, 0),) * 20)
    verdict, peak = traced(large, proof, Limits(kept=300_000))
    assert verdict.status == "incomplete" and "300000 numbers kept" in verdict.why and peak < 60e6
    less = verify(large, proof, Limits(steps=10**6))
    assert less.status == "incomplete" and "1000000 steps" in less.why


def test_tables_of_rows_count_their_steps_before_they_are_made() -> None:
    """200 bytes of rows over 19 jobs of 20,000 options and a capacity of a million ran for minutes."""
    rng = np.random.default_rng(0)
    many = MultipleChoiceKnapsack.from_arrays(
        rng.random(19 * 500),
        rng.integers(1, 10**6, (19 * 500, 1)),
        np.arange(20) * 500,
        [10**6],
        required=False,
    )
    proof = Proof(instance_digest(many), Claim("no_better_plan", 3.0), 40, (), rows=((0,) * 19,))
    before = time.process_time()
    verdict = verify(many, proof, Limits(steps=10**9))
    assert verdict.status == "incomplete" and "1000000000 steps" in verdict.why
    assert time.process_time() - before < 5.0


@pytest.mark.parametrize("shape", ["gangs", "nodes"])
def test_cuts_are_counted_before_they_are_looked_at(shape: str) -> None:
    """Ten thousand cuts of a large pool, or of large nodes, took the square of its size each."""
    if shape == "gangs":
        jobs = tuple(MatchingJob(f"j{at}", {"a": MatchingEntry(time_s=1.0)}) for at in range(3))
        pools = (MatchingMachine("a", count=10_000),)
        subject: Any = MatchingInstance(schema_version="1", objective="makespan", machines=pools, jobs=jobs)
        cut: dict[str, Any] = {"pool": 0, "weights": [1] * 10_000}
    else:
        subject = apportion.FreezingInstance(
            schema_version="1", gpus={"a": 5_000}, round_s=60.0, jobs=(), gpus_per_node={"a": 5_000}
        )
        cut = {"gpu_type": "a", "node_weights": [1] * 5_000}
    proof = Proof(instance_digest(subject), Claim("no_better_plan", 0.5), 0, (), cuts=(cut,))
    before = time.process_time()
    verdict = verify(subject, proof)
    assert verdict.status == "refused" and "more than" in verdict.why
    assert time.process_time() - before < 5.0
