"""The checkers against another reading of the same JSON: which plans keep the rules, their worth, bounds.

Instances are those of the hunt, plans are drawn good and bad; nothing here calls a solver.
"""

from __future__ import annotations

from fractions import Fraction
from random import Random
from typing import Any

import pytest

import apportion
from apportion.instances.freezing import check as freezing
from apportion.instances.freezing.nodes import NodeWeights
from apportion.instances.kinds import kind_of
from tests.hunt import truth_freezing, truth_gap_filling, truth_knapsack, truth_matching, truth_tenants
from tests.hunt.draw import KINDS
from tests.instances.meant import any_plan, defined_bound, priced, wrong_shapes

TRUTHS = {
    "gap_filling": truth_gap_filling,
    "multiple_choice_knapsack": truth_knapsack,
    "matching": truth_matching,
    "freezing": truth_freezing,
}
INSTANCES, PLANS = 240, 5


def drawn(kind: str) -> list[tuple[Random, dict[str, Any], Any]]:
    """Return instances of a kind as JSON and as the package reads them."""
    found = []
    for number in range(INSTANCES):
        rng = Random(f"meaning {kind} {number}")
        told = KINDS[kind][1](rng, (None, "makespan", "makespan")[number % 3] if kind == "matching" else None)
        if kind == "matching" and number % 3 == 2:
            shared(told)
        if kind == "matching" and number % 6 == 1:
            ganged(rng, told)
        try:
            found.append((rng, told, apportion.read(told)))
        except apportion.InvalidInstance:
            continue
    assert len(found) > INSTANCES / 2
    return found


def ganged(rng: Random, told: dict[str, Any]) -> None:
    """Let most jobs hold several machines at once, and nothing else limit them."""
    for machine in told["machines"]:
        machine.update(count=rng.randint(2, 3), capacity=None)
    for job in told["jobs"]:
        for entry in job["on"].values():
            entry["gpus"] = rng.randint(1, 2)


def shared(told: dict[str, Any]) -> None:
    """Let the jobs of a makespan run by shares of time, which knows no capacities and no jobs of no time."""
    told["divisible"] = True
    for machine in told["machines"]:
        machine["capacity"] = None
    for job in told["jobs"]:
        for entry in job["on"].values():
            entry["time_s"] = entry["time_s"] or 1.0


@pytest.mark.parametrize("kind", TRUTHS)
def test_the_checker_passes_what_keeps_the_rules_and_nothing_else(kind: str) -> None:
    passed = refused = 0
    for rng, told, instance in drawn(kind):
        meaning = kind_of(instance)
        for _ in range(PLANS):
            plan = any_plan(rng, told)
            report, worth = meaning.check(instance, plan), TRUTHS[kind].worth(told, plan)
            assert report.feasible is (worth is not None), (told, plan, report)
            if worth is None:
                refused += 1
                assert report.violations
                continue
            passed += 1
            assert report.objective is not None
            assert abs(Fraction(report.objective) - worth) <= Fraction(1, 10**12) * abs(worth), (told, plan)
            assert meaning.exact_objective(instance, plan) == worth, (told, plan)
    assert passed > 100 and refused > 100, (passed, refused)


@pytest.mark.parametrize("kind", TRUTHS)
def test_what_is_no_plan_is_refused_and_worth_nothing(kind: str) -> None:
    for _, told, instance in drawn(kind)[:9]:
        for shape in wrong_shapes(told):
            report = kind_of(instance).check(instance, shape)
            assert not report.feasible and report.objective is None, shape


@pytest.mark.parametrize("kind", TRUTHS)
def test_the_bound_is_the_one_that_weak_duality_defines(kind: str) -> None:
    bounded = 0
    for rng, told, instance in drawn(kind):
        if told.get("objective") == "makespan":
            continue
        meaning = kind_of(instance)
        names = list(_capacities(told))
        for _ in range(3):
            prices = priced(rng, names)
            bound = meaning.exact_bound(instance, prices)
            assert bound == defined_bound(told, prices), (told, prices)
            bounded += bound is not None
    assert bounded > 80


@pytest.mark.parametrize("kind", TRUTHS)
def test_prices_that_are_none_are_refused(kind: str) -> None:
    refused = 0
    for _, told, instance in drawn(kind)[:60]:
        if told.get("objective") == "makespan":
            continue
        names = list(_capacities(told))
        good = dict.fromkeys(names, 0.0)
        kind_of(instance).exact_bound(instance, good)
        wrong: list[dict[str, Any]] = [{**good, "nothing": 1.0}]
        for name in names:
            wrong += [{**good, name: price} for price in (-1.0, -5e-324, float("nan"), float("inf"))]
            wrong.append({other: 0.0 for other in names if other != name})
            wrong.append({**wrong[-1], "nothing": 0.0})
        if kind != "matching":
            wrong += [{**good, name: price} for name in names[:1] for price in (True, "1")]
        for prices in wrong:
            with pytest.raises(apportion.InvalidInstance):
                kind_of(instance).exact_bound(instance, prices)
            refused += 1
    assert refused > 50


def _capacities(told: dict[str, Any]) -> list[str]:
    if told["kind"] == "gap_filling":
        return ["idle_nodes"]
    if told["kind"] == "multiple_choice_knapsack":
        return list(told["capacities"])
    if told["kind"] == "matching":
        return [machine["id"] for machine in told["machines"] if machine.get("capacity") is not None]
    return [*told["gpus"], *(["frozen_penalty"] if told.get("penalty_cap_millionths") is not None else [])]


@pytest.mark.parametrize("kind", ["gap_filling", "multiple_choice_knapsack"])
def test_what_tenants_are_offered_is_what_jobs_may_get(kind: str) -> None:
    for _, told, instance in drawn(kind)[:80]:
        option_set = kind_of(instance).option_set
        assert option_set is not None
        for job, document in zip(instance.jobs, told["jobs"], strict=True):
            mine = truth_tenants.offers({**told, "fairness": {}}, document)
            theirs = [
                (o.name, dict(o.uses), Fraction(o.value), o.idle) for o in option_set.options(instance, job)
            ]
            assert sorted(theirs, key=str) == sorted(
                (
                    (
                        o.name,
                        {n: u for n, u in o.uses.items() if u or kind != "gap_filling"},
                        o.value,
                        o.idle,
                    )
                    for o in mine
                ),
                key=str,
            )


def test_what_tenants_are_offered_of_a_freezing_round_is_what_jobs_may_get() -> None:
    waiting = running = 0
    for _, told, instance in drawn("freezing"):
        for job, document in zip(instance.jobs, told["jobs"], strict=True):
            options = {option.name: option for option in freezing.offered(instance, job)}
            waits = options.pop("waiting", None)
            assert (waits is None) is document.get("required", False)
            if waits is not None:
                assert (waits.uses, waits.rate, waits.idle, waits.current) == ({}, 0.0, True, False)
                assert waits.value == told["queue_penalty"]
            mine = list(truth_freezing._configurations(told, document))
            assert set(options) == {freezing.configuration_name(c.gpu_type, c.gpus, c.depth) for c in mine}
            now = document.get("current")
            for one in mine:
                option = options[freezing.configuration_name(one.gpu_type, one.gpus, one.depth)]
                assert option.value == one.value == freezing.value_of(instance, job, *one[:3])
                assert option.uses[one.gpu_type] == one.gpus and not option.idle
                assert option.current is (now is not None and (now["gpu_type"], now["gpus"]) == one[:2])
                if job.weight and one.value and told["power"] == 1.0:
                    assert option.rate == pytest.approx(one.value / job.weight)
                waiting, running = waiting + 1, running + option.current
            assert freezing.value_of(instance, job, "zz", 1, 0) is None
    assert waiting > 100 and running > 10


def test_weights_of_nodes_bound_every_freezing_round_on_them() -> None:
    bounded = 0
    for rng, told, instance in drawn("freezing"):
        weights = [
            NodeWeights(name, tuple(rng.randint(0, 9) for _ in range(size)))
            for name, size in told.get("gpus_per_node", {}).items()
        ]
        names = _capacities(told)
        if not weights or told["gpus"][weights[0].gpu_type] > 100:
            continue
        plain = priced(rng, names)
        bound = kind_of(instance).exact_bound(instance, plain)
        free = kind_of(instance).exact_bound(instance, {**plain, **{one.name: 0.0 for one in weights}})
        assert free == bound
        prices = {**dict.fromkeys(names, 0.0), **{one.name: rng.random() for one in weights}}
        cut = kind_of(instance).exact_bound(instance, prices)
        maximize, best = truth_freezing.best(told)
        if cut is not None and best is not None:
            assert (cut - best) * (1 if maximize else -1) >= 0, (told, prices)
            bounded += 1
        with pytest.raises(apportion.InvalidInstance):
            kind_of(instance).exact_bound(instance, {**plain, f"nodes of {names[0]} by 1,x": 1.0})
    assert bounded > 20


def test_every_job_that_breaks_a_rule_of_its_own_is_named() -> None:
    """What is wrong with one job does not hide what is wrong with another."""
    named = 0
    for _, told, instance in drawn("matching") + drawn("freezing"):
        if not told.get("divisible") and told["kind"] != "freezing":
            continue
        jobs = [job["id"] for job in told["jobs"]]
        wrong: tuple[Any, ...]
        if told["kind"] == "freezing":
            wrong = ({"gpu_type": "zz", "gpus": 1, "depth": 0},)
            plans = [{"configuration": dict.fromkeys(jobs, one)} for one in wrong]
        else:
            wrong = (7, {"zz": 0.1}, {}, dict.fromkeys(told["jobs"][0]["on"], 0.0) if jobs else {})
            plans = [{"fractions": dict.fromkeys(jobs, one)} for one in wrong]
        for plan in plans:
            report = kind_of(instance).check(instance, plan)
            assert {violation.subject for violation in report.violations} >= set(jobs)
            if told["kind"] == "matching" and jobs:
                assert report.objective is None
            named += len(jobs)
    assert named > 300


def test_machines_of_a_pool_are_told_apart_in_what_is_said_of_them() -> None:
    told = {
        "kind": "matching",
        "schema_version": "1",
        "objective": "cost",
        "machines": [{"id": "a", "count": 2, "capacity": 3}, {"id": "b", "capacity": 3}],
        "jobs": [{"id": f"j{k}", "on": {n: {"cost": 1.0, "uses": 2} for n in "ab"}} for k in range(4)],
    }
    assignment = {"j0": "a", "j1": "a", "j2": "b", "j3": "b"}
    report = kind_of(apportion.read(told)).check(
        apportion.read(told), {"assignment": assignment, "machine_index": {"j0": 1, "j1": 1}}
    )
    assert [str(one.subject) for one in report.violations] == ["a[1]", "b"]


def schedule_of(starts: dict[str, Any], index: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "assignment": {"j0": "a", "j1": "a", "j2": "b"},
        "machine_index": index,
        "start_s": starts,
        **more,
    }


TIMED = {
    "kind": "matching",
    "schema_version": "1",
    "objective": "makespan",
    "machines": [{"id": "a", "count": 3}, {"id": "b"}],
    "jobs": [
        {"id": "j0", "on": {"a": {"time_s": 4.0, "gpus": 2}}},
        {"id": "j1", "on": {"a": {"time_s": 2.0}}},
        {"id": "j2", "on": {"b": {"time_s": 3.0}}},
    ],
}


@pytest.mark.parametrize(
    ("starts", "index", "subjects"),
    [
        ({"j0": 0.0, "j1": 0.0, "j2": 0.0}, {"j0": [0, 1], "j1": 2}, []),
        ({"j0": 0.0, "j1": 4.0}, {"j0": [0, 1], "j1": 1}, []),
        ({"j0": 0.0, "j1": 0.0}, {"j0": [0, 0], "j1": 2}, ["j0"]),
        ({"j0": 0.0}, {"j0": [0], "j1": 2}, ["j0"]),
        ({"j0": 0.0}, {"j0": [0, 1, 2], "j1": 2}, ["j0"]),
        ({"j0": 0.0}, {"j0": [0, 3], "j1": 2}, ["j0"]),
        ({"j0": 0.0}, {"j0": [0, 1], "j1": 2, "j2": 1}, ["j2"]),
        ({"j0": 0.0}, {"j0": [0, 1], "j1": 2, "j2": 5}, ["j2"]),
        ({}, {"j0": [0, 1], "j1": 2}, ["j0"]),
        ({"j0": 0.0}, {"j0": [0, 1], "j1": 1}, ["j1"]),
        ({"j0": 0.0, "j1": 3.0, "j2": -1.0}, {"j0": [0, 1], "j1": 1}, ["j2"]),
        ({"j0": 0.0, "j1": 3.0}, {"j0": [0, 1], "j1": 1}, ["j1"]),
    ],
    ids=str,
)
def test_each_mistake_of_a_schedule_of_machines_is_named(
    starts: dict[str, Any], index: dict[str, Any], subjects: list[str]
) -> None:
    instance = apportion.read(TIMED)
    report = kind_of(instance).check(instance, schedule_of(starts, index))
    assert sorted({one.subject for one in report.violations}) == subjects


def test_a_gang_that_names_one_machine_twice_is_refused_for_that() -> None:
    instance = apportion.read(TIMED)
    report = kind_of(instance).check(instance, schedule_of({"j0": 0.0}, {"j0": [0, 0], "j1": 2}))
    assert [(one.rule, one.subject) for one in report.violations] == [("machine_index", "j0")]


def test_machines_behind_one_without_all_its_starts_are_looked_at_too() -> None:
    told = {
        **TIMED,
        "machines": [{"id": "a", "count": 2}],
        "jobs": [{"id": f"j{k}", "on": {"a": {"time_s": 4.0}}} for k in range(4)],
    }
    instance = apportion.read(told)
    plan = {
        "assignment": {f"j{k}": "a" for k in range(4)},
        "machine_index": {"j0": 0, "j1": 0, "j2": 1, "j3": 1},
        "start_s": {"j1": 0.0, "j2": 0.0, "j3": 1.0},
    }
    report = kind_of(instance).check(instance, plan)
    assert [(one.rule, one.subject) for one in report.violations] == [("start_s", "j0"), ("overlap", "j3")]


def test_machines_busy_to_the_brim_pass_with_the_rounding_that_is_allowed_and_no_more() -> None:
    told = {**TIMED, "divisible": True, "machines": [{"id": "b"}], "jobs": [TIMED["jobs"][2]]}  # type: ignore[index]
    instance = apportion.read(told)
    for share, passes in ((1.0, True), (1 + 1e-9, True), (1 + 1.1e-9, False)):
        assert kind_of(instance).check(instance, {"fractions": {"j2": {"b": share}}}).feasible is passes
    named = kind_of(apportion.read(TIMED)).check(apportion.read(TIMED), {"assignment": {"j0": ["a"]}})
    assert "j0" in {one.subject for one in named.violations}
    nobody = apportion.read({**TIMED, "jobs": []})
    assert kind_of(nobody).check(nobody, {"assignment": {}}).feasible
    assert not kind_of(nobody).check(nobody, {"assignment": {}, "more": {}}).feasible


def freezing_round(**more: Any) -> Any:
    """Return a round of three jobs that may get 1 or 2 GPUs of either type, which lie on nodes of 2."""
    menu = [
        {"gpu_type": kind, "gpus": gpus, "depths": [0, 1], "effective_progress": [1.0, 2.0]}
        for kind in ("g0", "g1")
        for gpus in (1, 2)
    ]
    jobs = [{"id": f"j{k}", "layers": 2, "menu": menu} for k in range(4)]
    told = {
        "kind": "freezing",
        "schema_version": "1",
        "gpus": {"g0": 2, "g1": 4},
        "round_s": 60.0,
        "jobs": jobs,
    }
    return apportion.read({**told, "gpus_per_node": {"g0": 2, "g1": 2}, **more})


@pytest.mark.parametrize(
    "wrong", [{"gpus": True}, {"gpus": 1.0}, {"depth": False}, {"depth": 0.0}, {"gpu_type": "g2"}]
)
def test_a_configuration_that_only_looks_like_one_of_the_menu_is_named(wrong: dict[str, Any]) -> None:
    instance = freezing_round()
    right = {"gpu_type": "g0", "gpus": 1, "depth": 0}
    assert kind_of(instance).check(instance, {"configuration": {"j0": right}}).feasible
    report = kind_of(instance).check(instance, {"configuration": {"j0": {**right, **wrong}}})
    assert [(one.rule, one.subject) for one in report.violations] == [("menu", "j0")]


def test_nodes_are_looked_at_where_there_are_enough_gpus_and_named() -> None:
    instance = freezing_round()
    chosen = {
        "j0": {"gpu_type": "g0", "gpus": 2, "depth": 0, "nodes": ["0"]},
        "j1": {"gpu_type": "g0", "gpus": 1, "depth": 0, "nodes": ["0"]},
        "j2": {"gpu_type": "g1", "gpus": 2, "depth": 0, "nodes": ["1"]},
        "j3": {"gpu_type": "g1", "gpus": 1, "depth": 0, "nodes": ["1"]},
    }
    report = kind_of(instance).check(instance, {"configuration": chosen})
    assert [(one.rule, one.subject) for one in report.violations] == [("capacity", "g0"), ("placement", "1")]
