"""Tenants where choices must also be placed: every plan enumerated, by code that shares nothing with ours."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.hunt import truth_tenants

import apportion
from apportion.io.stored import document, verify
from apportion.proofs.certificate import encode

Told = dict[str, Any]


def tenants(rng: random.Random, capacities: dict[str, int]) -> list[Told]:
    """Return a lab with two teams and one team outside it, with guarantees that add up to no more."""
    found: list[Told] = [
        {"id": "lab"},
        {"id": "a", "parent": "lab"},
        {"id": "b", "parent": "lab"},
        {"id": "c"},
    ]
    for name, amount in capacities.items():
        left = amount
        for one in found[1:]:
            quota: Told = {"guarantee": rng.randint(0, left // 2)}
            left -= quota["guarantee"]
            if rng.random() < 0.4:
                quota["borrowing_limit"] = rng.randint(1, 4)
            if rng.random() < 0.3:
                quota["lending_limit"] = rng.randint(0, quota["guarantee"])
            one.setdefault("quotas", {})[name] = quota
            one["weight"] = rng.choice((1.0, 1.0, 2.0))
    return found


def on_nodes(seed: int, share: str) -> Told:
    """Return a round whose GPUs lie on nodes that some counts cannot fill."""
    rng = random.Random(seed)
    gpus = {"v100": rng.choice((5, 6, 7)), "a100": rng.choice((3, 4))}
    jobs = []
    for j in range(5):
        menu = [
            {
                "gpu_type": kind,
                "gpus": count,
                "depths": [0],
                "effective_progress": [rng.randint(1, 9) * count],
            }
            for kind, count in rng.sample([(k, n) for k in gpus for n in (1, 2, 3)], 2)
        ]
        jobs.append(
            {"id": f"j{j}", "layers": 4, "menu": menu, "tenant": rng.choice("abc"), "required": False}
        )
    return {
        "kind": "freezing",
        "schema_version": "1",
        "gpus": gpus,
        "gpus_per_node": {"v100": 4, "a100": 2},
        "round_s": 60.0,
        "power": 1.0,
        "queue_penalty": 0.0,
        "jobs": jobs,
        "tenants": tenants(rng, gpus),
        "fairness": {"over": rng.choice(("tenants", "jobs")), "share": share},
    }


def on_machines(seed: int, share: str) -> Told:
    """Return a matching of costs, values or times; gangs and jobs of different uses meet on a pool."""
    rng = random.Random(seed)
    objective = ("value", "cost", "makespan")[seed % 3]
    machines = [
        {"id": "v100", "count": 2, "capacity": 5},
        {"id": "a100", "count": 1, "capacity": rng.choice((4, 6))},
        {"id": "cpu", "count": 2},
    ]
    jobs = []
    for j in range(5):
        on: dict[str, Told] = {}
        for name in rng.sample(["v100", "a100", "cpu"], rng.randint(2, 3)):
            on[name] = {
                "uses": rng.randint(1, 4),
                "time_s": float(rng.randint(1, 9)),
                "value": float(rng.randint(1, 9)),
                "cost": float(rng.randint(1, 9)),
            }
            if objective != "makespan" and name == "v100" and rng.random() < 0.5:
                on[name]["gpus"] = 2
        required = objective == "makespan"
        jobs.append({"id": f"j{j}", "on": on, "tenant": rng.choice("abc"), "required": required})
    return {
        "kind": "matching",
        "schema_version": "1",
        "objective": objective,
        "machines": machines,
        "jobs": jobs,
        "tenants": tenants(rng, {"v100": 10, "a100": 4}),
        "fairness": {"over": rng.choice(("tenants", "jobs")), "share": share},
    }


@pytest.mark.one_in(19)
@pytest.mark.parametrize("share", ["dominant_share", "normalised_throughput"])
@pytest.mark.parametrize("draw", [on_nodes, on_machines])
@pytest.mark.parametrize("seed", range(9))
def test_levels_guarantees_and_the_objective_are_those_of_enumeration(
    seed: int, draw: Any, share: str
) -> None:
    told = draw(seed, share)
    instance = apportion.read(told)
    solution = apportion.solve(instance, time_limit=None)
    if truth_tenants.best(told)[1] is None:
        assert solution.termination.value == "infeasible"
        return
    assert solution.termination.value == "optimal"
    assert all(level.evidence == "by_search" and level.bound == level.share for level in solution.levels)
    assert list(truth_tenants.misshared(told, solution)) == []
    _, best = truth_tenants.best(told, solution.floors)
    assert best is not None and solution.objective == pytest.approx(float(best), rel=1e-9)
    verification = verify(instance, document(solution))
    assert verification.ok, verification.checks


@pytest.mark.one_in(5)
@pytest.mark.parametrize("draw", [on_nodes, on_machines])
@pytest.mark.parametrize("seed", range(20, 23))
def test_the_order_of_tenants_and_jobs_changes_nothing(seed: int, draw: Any) -> None:
    told = draw(seed, "dominant_share")
    first = apportion.solve(apportion.read(told), deterministic=True)
    random.Random(seed).shuffle(told["jobs"])
    random.Random(seed + 1).shuffle(told["tenants"])
    again = apportion.solve(apportion.read(told), deterministic=True)
    assert (first.levels, first.floors, first.objective) == (again.levels, again.floors, again.objective)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("draw", [on_nodes, on_machines])
@pytest.mark.parametrize("seed", range(26, 29))
def test_a_proof_is_written_explained_and_compared(seed: int, draw: Any) -> None:
    told = draw(seed, "dominant_share")
    instance = apportion.read(told)
    proved = apportion.solve(instance, proof=True, time_limit=60.0)
    assert proved.proof is not None, proved.notes
    assert verify(instance, document(proved), encode(proved.proof)).ok
    explanation = apportion.explain(instance, proved)
    assert {one.name for one in explanation.tenants} == {"a", "b", "c"}
    compared = apportion.what_if(instance, solution=proved, tenant={"a": {"weight": 3.0}})
    assert compared.after.termination.value == "optimal"


def test_what_counts_allow_and_nodes_do_not_is_no_level() -> None:
    """Three teams of one job each that fits a node: two nodes hold two of them, whatever the counts say."""
    job = {"layers": 1, "required": False}
    row = {"gpu_type": "v100", "gpus": 3, "depths": [0], "effective_progress": [1.0]}
    told = {
        "kind": "freezing",
        "schema_version": "1",
        "gpus": {"v100": 9},
        "gpus_per_node": {"v100": 5},
        "round_s": 60.0,
        "power": 1.0,
        "queue_penalty": 0.0,
        "tenants": [{"id": name} for name in "abc"],
        "jobs": [{"id": f"j{name}", "tenant": name, "menu": [row], **job} for name in "abc"],
        "fairness": {},
    }
    solution = apportion.solve(apportion.read(told), time_limit=None)
    assert sorted(level.share for level in solution.levels) == [0.0, 3 / 9, 3 / 9]
    assert all(level.evidence == "by_search" for level in solution.levels)
    told["gpus_per_node"] = {}
    free = apportion.solve(apportion.read(told), time_limit=None)
    assert [level.share for level in free.levels] == [3 / 9] * 3


def test_guarantees_that_no_nodes_hold_together_are_named() -> None:
    job = {"layers": 1, "required": False}
    row = {"gpu_type": "v100", "gpus": 3, "depths": [0], "effective_progress": [1.0]}
    told = {
        "kind": "freezing",
        "schema_version": "1",
        "gpus": {"v100": 9},
        "gpus_per_node": {"v100": 5},
        "round_s": 60.0,
        "tenants": [{"id": name, "quotas": {"v100": {"guarantee": 3}}} for name in "abc"],
        "jobs": [{"id": f"j{name}", "tenant": name, "menu": [row], **job} for name in "abc"],
    }
    solution = apportion.solve(apportion.read(told), time_limit=None)
    assert any("cannot be kept together on the nodes; not kept for" in note for note in solution.notes)
    assert len(solution.require()["configuration"]) == 2
