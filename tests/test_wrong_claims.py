"""False claims that were verified, and honest ones that were refused; each test is named after what broke."""

from __future__ import annotations

import gzip
import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest

import apportion
from apportion.cli.main import main
from apportion.core.errors import InvalidInstance
from apportion.instances import edits
from apportion.instances.kinds import kind_of
from apportion.instances.tenants.check import ledger_of
from apportion.instances.tenants.ledger import under_floors
from apportion.instances.tenants.tree import distinct, job_prefix
from apportion.io.stored import Verification, digest, document, verify
from apportion.models.assignment import Assignment
from apportion.proofs import Claim, Proof, reference
from apportion.proofs.certificate import encode, instance_digest
from apportion.proofs.statement import statement_of
from tests.cli.calling import call


def option(name: str, value: float, use: int) -> dict[str, Any]:
    return {"id": name, "value": value, "uses": {"gpu": use}}


def knapsack(jobs: list[Any], tenants: list[Any], gpus: int = 4, **more: Any) -> Any:
    document = {"kind": "multiple_choice_knapsack", "schema_version": "1", "sense": "maximize"}
    return apportion.read({**document, "capacities": {"gpu": gpus}, "tenants": tenants, "jobs": jobs, **more})


def job(name: str, tenant: str, *options: Any, required: bool = False) -> dict[str, Any]:
    return {"id": name, "tenant": tenant, "required": required, "options": list(options)}


def forged(instance: Any, floors: Mapping[str, int], fair_bound: float | None = None) -> Verification:
    """Return what is said of the answer under other floors, told as the answer, its digest made right."""
    answer = apportion.solve(under_floors(instance, floors), proof=True)
    told = document(answer)
    told["floors"], told["fair_bound"] = dict(floors), fair_bound
    told["levels"] = [
        {"name": name, "share": share / 4, "weight": 1.0, "bound": share / 4, "evidence": "by_search"}
        for name, share in floors.items()
    ]
    told["certificate"]["digest"] = None
    told["certificate"]["digest"] = digest(instance, told)
    assert answer.proof is not None
    return verify(instance, told, encode(answer.proof))


def two_tenants(large: float, **quota: int) -> Any:
    menu = [option("small", 1.0, 1), option("large", 1.0, 3)]
    limit = {"quotas": {"gpu": {"guarantee": 0, **quota}}} if quota else {}
    jobs = [job("a1", "a", menu[0], option("large", large, 3)), job("b1", "b", *menu)]
    return knapsack(jobs, [{"id": "a"}, {"id": "b", **limit}], fairness={"share": "dominant_share"})


def test_floors_that_no_plan_keeps_are_no_reason_for_infeasible() -> None:
    """Floors were compared as sorted levels: those of two tenants could be exchanged."""
    instance = two_tenants(1.0, borrowing_limit=2)
    assert apportion.solve(instance).termination.value == "optimal"
    assert not forged(instance, {"a": 1, "b": 3}).ok


def test_an_optimum_under_the_shares_of_others_is_not_verified() -> None:
    instance = two_tenants(100.0)
    true = apportion.solve(instance, proof=True)
    assert true.proof is not None
    assert (true.objective, verify(instance, document(true), encode(true.proof)).verified) == (101.0, True)
    for fair_bound in (None, 2.0, 101.0):
        found = forged(instance, {"a": 1, "b": 3}, fair_bound)
        assert not found.verified
        assert "floors" in found.words


@pytest.mark.parametrize(
    "names", [*itertools.product(("gpu", "share", "gpu of a", "a"), ("a", "everybody", "job x"))]
)
def test_names_of_people_are_no_names_of_rows(names: tuple[str, str]) -> None:
    """A capacity called like a row, or a tenant called like a job, took its place: 3 was optimal for 4."""
    capacity, tenant = names
    capacities = {"gpu": 10, capacity: 10, "gpu of a": 1, f"gpu of {tenant}": 1, f"share of {tenant}": 1}
    quota = {"gpu": {"guarantee": 2, "borrowing_limit": 1}}
    uses = [{"gpu": 1}] * 4 + [{name: 1} for name in capacities if name != "gpu"]
    jobs: list[Any] = [
        {"id": "x" if k == 0 else f"j{k}", "tenant": tenant if k < 4 else "b", "required": False}
        | {"options": [{"id": "run", "value": 1.0 + k, "uses": own}]}
        for k, own in enumerate(uses)
    ]
    tenants = [{"id": tenant, "quotas": quota}, {"id": "b"}]
    instance = knapsack(jobs, tenants, capacities=capacities)
    solution = apportion.solve(instance, proof=True)
    # of the first tenant's four jobs three fit, everybody else's fit beside each other
    assert solution.objective == sum(1.0 + k for k in range(1, len(uses)))
    assert solution.proof is not None
    assert verify(instance, document(solution), encode(solution.proof)).verified


def test_a_tenant_called_like_a_job_has_its_own_share() -> None:
    jobs = [
        job("y", "job x", option("two", 1.0, 2)),
        job("x", "b", option("one", 100.0, 1), option("two", 1.0, 2)),
    ]
    instance = knapsack(jobs, [{"id": "job x", "quotas": {"gpu": {"guarantee": 2}}}, {"id": "b"}])
    assert apportion.solve(instance).objective == 101.0
    fair = knapsack(jobs, [{"id": "job x"}, {"id": "b"}], fairness={"over": "tenants", "inside": "fair"})
    levels = {level.name for level in apportion.solve(fair).levels}
    assert levels == {"job x", "b", "job job x", "job job y"}


def test_made_names_are_distinct() -> None:
    taken: set[str] = set()
    for name in ["a", "a", "a [2]", "a"]:
        taken.add(distinct(name, taken))
    assert len(taken) == 4
    assert job_prefix(["job job x", "job "]) == "job job job "


@pytest.mark.parametrize("weight", [1.0, 3e6, 1e9, 1e18])
def test_equal_weights_are_equal_however_large(weight: float) -> None:
    """Levels were counted in millionths of a share over a weight: all were 0 for weights above that."""
    halves = [option("half", 1.0, 2), option("all", 100.0, 4)]
    tenants = [{"id": name, "weight": weight} for name in "ab"]
    instance = knapsack([job("a1", "a", *halves), job("b1", "b", *halves)], tenants, fairness={})
    solution = apportion.solve(instance, proof=True)
    assert solution.require()["choice"] == {"a1": "half", "b1": "half"}
    assert solution.proof is not None
    assert verify(instance, document(solution), encode(solution.proof)).verified


def test_rows_of_lending_limits_are_those_that_somebody_can_exceed() -> None:
    """11 tenants with lending limits on 200 capacities were 409,400 rows: a limit of 1 s took 14 s."""
    capacities = {f"c{k}": 100 for k in range(200)}
    quotas = {name: {"guarantee": 5, "lending_limit": 2} for name in capacities}
    tenants = [{"id": f"t{k}", "quotas": quotas} for k in range(11)]
    jobs = [{**job("j", "t0"), "options": [{"id": "o", "value": 1.0, "uses": {"c0": 1}}]}]
    instance = knapsack(jobs, tenants, capacities=capacities)
    assert len(ledger_of(kind_of(instance), instance).rows) <= 2
    assert apportion.solve(instance).objective == 1.0

    def of_all(use: int) -> Any:
        options = [{"id": "o", "value": 1.0, "uses": dict.fromkeys(capacities, use)}]
        jobs = [{**job(f"j{k}", f"t{k}"), "options": options} for k in range(11)]
        return knapsack(jobs, tenants, capacities=capacities)

    assert apportion.solve(of_all(1)).objective == 11.0  # nobody uses more than it withholds
    with pytest.raises(InvalidInstance, match="limit what they lend"):
        apportion.solve(of_all(20))


def test_fewer_rows_allow_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that are left out follow from those that stay: every choice of random trees is judged alike."""
    for seed in range(30):
        rng = Random(f"rows {seed}")
        tenants: list[Any] = [{"id": "top"}]
        for k in range(5):
            above = rng.choice([None, "top", "t0"] if k else [None, "top"])
            quota = {"guarantee": 12 if k == 0 else rng.randint(0, 3), "lending_limit": rng.randint(0, 8)}
            tenants.append({"id": f"t{k}", "quotas": {"gpu": quota}, **({"parent": above} if above else {})})
        parents = {one.get("parent") for one in tenants}
        leaves = [one["id"] for one in tenants if one["id"] not in parents]
        jobs = [job(f"j{k}", rng.choice(leaves), option("o", 1.0, rng.randint(1, 5))) for k in range(4)]
        instance = knapsack(jobs, tenants, gpus=30)
        ledgers = [ledger_of(kind_of(instance), instance)]
        with monkeypatch.context() as patch:
            patch.setattr("apportion.instances.tenants.ledger.MOST_ROWS", 0)
            ledgers.append(ledger_of(kind_of(instance), instance))
            assert len(ledgers[1].rows) <= len(ledgers[0].rows)
        for chosen in itertools.product((0, 1), repeat=4):
            verdicts = []
            for ledger in ledgers:
                used: dict[str, int] = {}
                for name, place in zip(ledger.options, chosen, strict=True):
                    for limit, use in ledger.uses(name, place).items():
                        used[limit] = used.get(limit, 0) + use
                verdicts.append(all(use <= ledger.limits[limit] for limit, use in used.items()))
            assert verdicts[0] == verdicts[1], (seed, chosen)


def test_a_proof_is_not_read_beyond_what_any_proof_can_be(tmp_path: Path) -> None:
    instance, result, proof = tmp_path / "i.json", tmp_path / "r.json", tmp_path / "p"
    instance.write_text(
        '{"kind":"multiple_choice_knapsack","schema_version":"1","sense":"maximize","capacities":{"gpu":1},'
        '"jobs":[{"id":"a","options":[{"id":"x","value":1.0,"uses":{"gpu":1}}]}]}'
    )
    assert call(main, "solve", instance, "-o", result).code == 0
    with proof.open("wb") as file:
        file.truncate(1 << 36)  # 64 GiB of a sparse file
    done = call(main, "check", instance, result, "--proof", proof)
    assert (done.code, "proof" in done.out) == (3, True)


def test_nobody_has_a_share_where_a_job_that_must_run_has_no_option() -> None:
    """The result named the share of one tenant, and `check` refused it."""
    jobs = [job("j0", "a", required=True), job("j1", "b", {"id": "o", "value": 1.0, "uses": {}})]
    instance = knapsack(
        jobs, [{"id": "a"}, {"id": "b"}], capacities={}, fairness={"share": "normalised_throughput"}
    )
    solution = apportion.solve(instance)
    assert (solution.termination.value, solution.levels, dict(solution.floors or {})) == (
        "infeasible",
        (),
        {},
    )
    assert verify(instance, document(solution)).ok


@pytest.mark.parametrize("capacities", [None, 4])
@pytest.mark.parametrize("goal", ["value", "cost"])
def test_two_entries_of_a_job_on_one_machine_are_two_options(goal: Any, capacities: int | None) -> None:
    """Tables of jobs and machines held the last of them: 1 was called optimal where 7 could be had."""
    for seed in range(40):
        rng = Random(f"entries {seed}")
        offsets, rows = [0], []
        for _ in range(rng.randint(1, 3)):
            rows += [
                (rng.randint(0, 1), float(rng.randint(0, 9)), rng.randint(0, 3))
                for _ in range(rng.randint(1, 3))
            ]
            offsets.append(len(rows))
        machines, values, uses = (list(column) for column in zip(*rows, strict=True))
        model = Assignment.from_arrays(goal, values, machines, offsets, 2, uses=uses, capacities=capacities)
        menus = [range(first, last) for first, last in itertools.pairwise(offsets)]
        fitting = [chosen for chosen in itertools.product(*menus) if model.check(list(chosen)).feasible]
        best = (max if goal == "value" else min)(
            (sum(values[row] for row in chosen) for chosen in fitting), default=None
        )
        solution = apportion.solve(model)
        assert solution.objective == best
        assert solution.termination.value == ("infeasible" if best is None else "optimal")


@pytest.mark.parametrize(
    ("goal", "values", "more"),
    [
        ("cost", [1.0], {"capacities": -1, "required": False}),
        ("makespan", [1.0], {"divisible": True, "capacities": 0}),
        ("cost", [10**400], {}),
        ("makespan", [1.0, 2.0], {"machine": [0, 0], "offsets": [0, 2]}),
    ],
)
def test_arrays_that_mean_nothing_are_refused(goal: Any, values: Any, more: dict[str, Any]) -> None:
    arrays: dict[str, Any] = {"machine": [0], "offsets": [0, 1], "num_machines": 1, **more}
    with pytest.raises(InvalidInstance):
        Assignment.from_arrays(goal, values, **arrays)


def test_a_way_out_names_what_helps() -> None:
    """Where nothing could be placed the least that helped was to leave out nobody, and to add nothing."""
    gang = {"id": "gang", "required": False, "on": {"q": {"uses": 1, "cost": 3.0, "gpus": 2}}}
    document = {
        "kind": "matching",
        "schema_version": "1",
        "objective": "cost",
        "machines": [{"id": "q", "count": 3, "capacity": 1}],
        "jobs": [{"id": "wide", "on": {"q": {"uses": 2, "cost": 8.0}}}, gang],
    }
    found = apportion.explain(apportion.read(document)).relaxations
    assert [(dict(one.add), one.leave_out, one.minimal, one.verified) for one in found] == [
        ({}, ("wide",), True, True)
    ]


def test_a_job_that_is_held_to_nothing_costs_its_stop() -> None:
    """Pinned to 0 nodes it stopped for free, and the pinned optimum was above the free one."""
    scaling = {"nodes": [0, 1], "rate": [0.0, 5.0]}
    common = {"tenant": "a", "min_nodes": 1, "max_nodes": 1, "rescale_up_s": 0.0, "rescale_down_s": 0.0}
    jobs = [
        {**common, "id": "runs", "stop_cost": 3.0, "scaling": scaling, "current_nodes": ["n1"]},
        {**common, "id": "new", "scaling": {**scaling, "rate": [0.0, 6.0]}},
    ]
    document = {"kind": "gap_filling", "schema_version": "1", "horizon_s": 1.0, "nodes": ["n1"]}
    instance = apportion.read({**document, "tenants": [{"id": "a"}], "jobs": jobs})
    held = apportion.solve(edits.pin(instance, {"runs": "0"}))
    report = apportion.check(instance, held.require())
    assert (apportion.solve(instance).objective, held.objective, report.objective) == (5.0, 3.0, 3.0)


def test_a_rule_of_fairness_that_nobody_asked_for_decides_nothing() -> None:
    jobs = [
        {"id": "j0", "tenant": "a", "on": {"q": {"value": 2.0}, "p": {"value": 1.0, "uses": 0}}},
        {"id": "j1", "tenant": "a", "on": {"q": {"value": 6.0}, "p": {"value": 3.0, "uses": 1}}},
    ]
    document = {"kind": "matching", "schema_version": "1", "objective": "value", "jobs": jobs}
    tenants = [{"id": "a"}, {"id": "c", "quotas": {"p": {"guarantee": 1}}}]
    machines = [{"id": "p", "capacity": 1}, {"id": "q"}]
    instance = apportion.read({**document, "machines": machines, "tenants": tenants})
    told = next(one for one in apportion.explain(instance).jobs if one.job == "j0").runner_up
    assert told is not None and told.needed is not None
    assert told.needed.exact == 1.0


def stored(plan: str, objective: float, bound: float) -> tuple[Any, dict[str, Any]]:
    """Return an instance whose optimum is 1000000001.9, and a result told of it."""
    menu = [option("x", 1e9, 1), option("y", 1000000001.9, 1)]
    instance = apportion.read({**json.loads(_ONE), "jobs": [{"id": "a", "options": menu}]})
    told = stored_of(instance)
    told |= {"plan": {"choice": {"a": plan}}, "objective": objective, "bound": bound}
    told["check"]["objective"] = 1e9 if plan == "x" else 1000000001.9
    told["gap"] = abs(bound - objective) / objective
    told["certificate"]["digest"] = None
    told["certificate"]["digest"] = digest(instance, told)
    return instance, told


def test_optimal_is_within_a_billionth_once() -> None:
    """The objective told might be as far from the plan's as the bound from the objective told."""
    instance, told = stored("x", 1000000000.99, 1000000001.9)
    assert not verify(instance, told).ok


@pytest.mark.parametrize("capacities", [{}, {"gpu": 1}])
def test_that_a_job_has_no_option_is_derived(capacities: dict[str, int]) -> None:
    document = {"kind": "multiple_choice_knapsack", "schema_version": "1", "sense": "maximize"}
    instance = apportion.read({**document, "capacities": capacities, "jobs": [{"id": "a", "options": []}]})
    found = verify(instance, stored_of(instance)).claims
    assert next(line.verdict.value for line in found if line.claim == "termination") == "derived"


def stored_of(instance: Any) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(json.dumps(document(apportion.solve(instance))))
    return told


def test_half_a_character_is_refused_and_raises_nothing() -> None:
    instance = apportion.read({**json.loads(_ONE), "name": "one"})
    told = {**stored_of(instance), "notes": ["\ud800"]}
    assert not verify(instance, told).ok


_ONE = (
    '{"kind":"multiple_choice_knapsack","schema_version":"1","sense":"maximize","capacities":{"gpu":1},'
    '"jobs":[{"id":"a","options":[{"id":"x","value":1.0,"uses":{"gpu":1}}]}]}'
)


def test_a_bound_of_tiny_values_is_no_bound_of_others() -> None:
    """A bound of 4e-19 was verified where 5e-19 can be had: the proof's might be 1e-18 off."""
    instance = _tiny()
    proof = encode(Proof(instance_digest(instance), Claim("no_better_plan", 5e-19), shift=200, prices=()))
    told = stored_of(instance)
    told |= {"termination": "gap_reached", "solution": "feasible", "plan": {"choice": {"b": "x"}}}
    told |= {"objective": 4e-19, "bound": 4e-19, "gap": 0.0, "verified_bound": None, "evidence": "by_proof"}
    told["check"] = {"feasible": True, "objective": 4e-19, "violations": []}
    told["certificate"] = {"source": "enumeration", "multipliers": None, "digest": None}
    told["certificate"]["digest"] = digest(instance, told)
    assert not verify(instance, told, proof).verified


def _tiny() -> Any:
    jobs = [
        {"id": name, "required": False, "options": [option("x", value, 1)]}
        for name, value in (("a", 5e-19), ("b", 4e-19))
    ]
    document = {"kind": "multiple_choice_knapsack", "schema_version": "1", "sense": "maximize"}
    return apportion.read({**document, "capacities": {"gpu": 1}, "jobs": jobs})


def test_no_reader_of_proofs_takes_a_key_twice() -> None:
    """The last of two keys counted for two of the three checkers; the one in C refused."""
    instance = _tiny()
    text = gzip.decompress(
        encode(Proof(instance_digest(instance), Claim("no_better_plan", 1.0), 80, ()))
    ).decode()
    statement = json.loads(json.dumps(statement_of(instance)))
    for found, verdict in ((text, True), (text.replace('"kind":', '"kind":"infeasible","kind":'), False)):
        assert (apportion.verify(instance, found.encode()).status == "proved") is verdict
        assert reference.check(statement, found.encode())[0] is verdict
