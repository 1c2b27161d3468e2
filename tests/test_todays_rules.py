"""Today's state under today's rules: what runs and may not be stopped is kept, and hinders nobody else."""

from __future__ import annotations

import json
import logging
import random
from typing import Any

import pytest

import apportion
from apportion.explanation import explain
from apportion.io import stored
from tests.budgets import examples
from tests.cli.calling import call
from tests.hunt import truth_tenants


def knapsack(jobs: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    return {
        "kind": "multiple_choice_knapsack",
        "schema_version": "1",
        "sense": "maximize",
        "capacities": {"gpu": 12},
        "jobs": jobs,
        **fields,
    }


def job(name: str, tenant: str | None, use: int, **fields: Any) -> dict[str, Any]:
    option = {"id": str(use), "value": float(use), "uses": {"gpu": use}}
    whose = {} if tenant is None else {"tenant": tenant}
    return {"id": name, "required": False, "options": [option], **whose, **fields}


def quota(guarantee: int, borrowing: int = 0) -> dict[str, Any]:
    return {"quotas": {"gpu": {"guarantee": guarantee, "borrowing_limit": borrowing}}}


TENANTS = [{"id": "a", **quota(4)}, {"id": "b", **quota(8)}]
RUNS = job("runs", "a", 6, current="6", preemptible=False)


def test_one_queue_beyond_its_lowered_quota_leaves_the_others_a_plan() -> None:
    """After kueue 5176 and KAI 1783: 6 run in a queue whose quota is 4 now, and may not be stopped."""
    tree = knapsack([RUNS, job("more", "a", 1), job("waits", "b", 3)], tenants=TENANTS)
    instance = apportion.read(tree)
    solution = apportion.solve(instance, proof=True)
    assert solution.termination.value == "optimal"
    assert solution.require() == {"choice": {"runs": "6", "waits": "3"}}
    assert solution.notes[0].startswith("a claims 6 of 4 gpu for jobs that may not be stopped")
    assert solution.proof is not None and stored.verify(instance, apportion.solve(instance).to_dict()).ok
    text = str(explain(instance, solution))
    assert "runs gets 6" in text and "more of a waits" in text
    assert not apportion.check(instance, {"choice": {"runs": "6", "more": "1", "waits": "3"}}).feasible
    assert not apportion.check(instance, {"choice": {"waits": "3"}}).feasible


def test_less_of_a_capacity_than_is_kept_of_it_is_left_to_nobody() -> None:
    free = {"id": "x", "value": 5.0, "uses": {"cpu": 2}}
    others = [job("waits", "b", 3), {**job("else", "b", 2), "options": [free]}]
    capacities = {"gpu": 4, "cpu": 2}
    tree = knapsack([RUNS, *others], tenants=[{"id": "a"}, {"id": "b"}], capacities=capacities)
    solution = apportion.solve(apportion.read(tree), proof=True)
    assert solution.require() == {"choice": {"runs": "6", "else": "x"}}
    assert solution.notes == ("jobs that may not be stopped hold 6 of 4 gpu; nobody else gets any of it",)
    assert solution.proof is not None


def test_one_queue_beyond_its_lowered_quota_leaves_the_others_a_plan_on_nodes() -> None:
    """The nodes bound what lies on them; quotas gave way to what runs only where GPUs are counted."""

    def trained(name: str, tenant: str, gpus: int, **fields: Any) -> dict[str, Any]:
        depths = {
            "depths": [0, 5],
            "effective_progress": [8.0 * gpus, 6.0 * gpus],
            "penalty_millionths": [0, 9],
        }
        menu = [{"gpu_type": "g", "gpus": gpus, **depths}]
        return {"id": name, "layers": 10, "menu": menu, "age_s": 60.0, "tenant": tenant, **fields}

    runs = trained("runs", "a", 8, current={"gpu_type": "g", "gpus": 8}, preemptible=False)
    quotas = {"a": {"guarantee": 4, "borrowing_limit": 0}, "b": {"guarantee": 4}, "c": {"guarantee": 2}}
    tree = {
        "kind": "freezing",
        "schema_version": "1",
        "gpus": {"g": 16},
        "gpus_per_node": {"g": 4},
        "round_s": 60.0,
        "jobs": [runs, trained("more", "a", 1), trained("waits", "b", 4), trained("small", "c", 2)],
        "tenants": [{"id": name, "quotas": {"g": quota}} for name, quota in quotas.items()],
    }
    solution = apportion.solve(apportion.read(tree), proof=True)
    assert solution.termination.value == "optimal" and solution.proof is not None
    assert solution.objective == pytest.approx(float(truth_tenants.best(tree)[1] or 0))
    assert solution.require()["configuration"].keys() == {"runs", "waits", "small"}
    assert solution.notes[0].startswith("a claims 8 of 4 g for jobs that may not be stopped")


def test_who_may_be_stopped_is_stopped_where_the_quota_was_lowered() -> None:
    tree = knapsack(
        [{**RUNS, "preemptible": True}, job("more", "a", 1), job("waits", "b", 3)], tenants=TENANTS
    )
    solution = apportion.solve(apportion.read(tree))
    assert solution.require() == {"choice": {"more": "1", "waits": "3"}} and not solution.notes


def _drawn(rng: random.Random) -> dict[str, Any]:
    """Draw a round in which about half of the running jobs are beyond a limit of today."""
    names = ["a", "b", "c"][: rng.randint(1, 3)]
    total = rng.randint(2, 8)
    above = {"parent": "top"} if rng.random() < 0.5 else {}
    tenants: list[dict[str, Any]] = [{"id": "top"}] if above else []
    left = total
    for name in names:
        guarantee = rng.randint(0, left // 2)
        left -= guarantee
        limits: dict[str, int] = {"guarantee": guarantee}
        if rng.random() < 0.6:
            limits["borrowing_limit"] = rng.randint(0, 2)
        if guarantee and rng.random() < 0.3:
            limits["lending_limit"] = rng.randint(0, guarantee)
        tenants.append({"id": name, **above, "quotas": {"gpu": limits}})
    jobs = []
    for index in range(rng.randint(1, 5)):
        options = [
            {"id": f"o{k}", "value": float(rng.randint(0, 6)), "uses": {"gpu": rng.randint(0, 6)}}
            for k in range(rng.randint(1, 2))
        ]
        fields: dict[str, Any] = {"tenant": rng.choice(names), "required": rng.random() < 0.2}
        if rng.random() < 0.6:
            fields["current"] = rng.choice([*(option["id"] for option in options), "left the menu"])
            fields["preemptible"] = rng.random() < 0.4
            fields["stop_cost"] = float(rng.randint(0, 3))
        jobs.append({"id": f"j{index}", "options": options, **fields})
    tree = knapsack(jobs, tenants=tenants, capacities={"gpu": total})
    if rng.random() < 0.4:
        tree["fairness"] = {"share": "dominant_share"}
    return tree


@pytest.mark.parametrize("part", range(4))
def test_rounds_beyond_their_limits_are_decided_as_by_enumeration(part: int) -> None:
    beyond = 0
    for seed in range(examples(400) // 4):
        tree = _drawn(random.Random(4 * seed + part))
        instance = apportion.read(tree)
        solution = apportion.solve(instance)
        _, wanted = truth_tenants.best(tree, solution.floors)
        assert solution.objective == (None if wanted is None else float(wanted)), tree
        assert (solution.termination.value == "infeasible") is (wanted is None), tree
        if solution.plan is not None:
            assert truth_tenants.worth(tree, solution.plan) == wanted
            assert not list(truth_tenants.misshared(tree, solution)), tree
            assert stored.verify(instance, solution.to_dict()).ok, tree
        beyond += any("may not be stopped" in note for note in solution.notes)
    assert beyond > 0


def test_an_option_that_left_the_menu_is_given_up() -> None:
    menu = [{"id": "4", "value": 4.0, "uses": {"gpu": 4}}]
    tree = knapsack([{"id": "a", "required": False, "current": "8", "options": menu}], capacities={"gpu": 4})
    solution = apportion.solve(apportion.read(tree))
    assert solution.require() == {"choice": {"a": "4"}}
    tenants = [{"id": "t"}]
    stuck = {"id": "a", "required": False, "current": "8", "stop_cost": 3.0, "tenant": "t", "options": menu}
    none_left = apportion.read(knapsack([stuck], tenants=tenants, capacities={"gpu": 3}))
    assert apportion.solve(none_left).objective == -3.0  # it ran, and is stopped


def gang(**fields: Any) -> dict[str, Any]:
    curve = {"nodes": [0, 1, 2], "rate": [0.0, 100.0, 200.0]}
    job = {
        "id": "gang",
        "min_nodes": 1,
        "max_nodes": 2,
        "scaling": curve,
        "rescale_up_s": 1.0,
        "rescale_down_s": 1.0,
    }
    job |= {"current_nodes": ["n1", "n2"], **fields}
    return {
        "kind": "gap_filling",
        "schema_version": "1",
        "horizon_s": 60.0,
        "nodes": ["n1", "n2", "n3"],
        "jobs": [job],
    }


def test_a_node_that_is_gone_is_lost_and_said(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "apportion"):
        instance = apportion.read({**gang(), "nodes": ["n1", "n3"]})
    assert "1 of 1 jobs lost nodes that are not idle any more (gang: n2)" in caplog.text
    assert instance.jobs[0].current_nodes == ("n1",)
    solution = apportion.solve(instance)
    assert solution.require() == {"allocation": {"gang": ["n1", "n3"]}}
    assert solution.objective == 60 * 200.0 - 100.0  # it grows by one


@pytest.mark.parametrize("formulation", ["by_count", "by_node"])
def test_a_job_above_its_new_maximum_shrinks(formulation: str) -> None:
    instance = apportion.read(gang(current_nodes=["n1", "n2", "n3"]))
    solution = apportion.solve(instance, formulation=formulation)
    assert solution.require() == {"allocation": {"gang": ["n1", "n2"]}}
    assert solution.objective == pytest.approx(60 * 200.0 - 200.0)  # as fast as with the most its curve knows
    assert apportion.verify(instance, apportion.solve(instance, proof=True).proof).status == "proved"  # type: ignore[arg-type]


def test_a_session_loses_nodes_as_a_file_does() -> None:
    session = apportion.Session(apportion.read(gang()))
    session.set_nodes(["n1", "n3"])
    session.add_job({**gang()["jobs"][0], "id": "late", "current_nodes": ["n2"]})
    edited: Any = session.instance
    assert [one.current_nodes for one in edited.jobs] == [("n1",), ()]


def test_the_note_is_printed(tmp_path: Any) -> None:
    from apportion.cli.solve_instance import main

    path = tmp_path / "round.json"
    path.write_text(json.dumps(knapsack([RUNS, job("waits", "b", 3)], tenants=TENANTS)))
    told = call(main, path)
    assert told.code == 0 and "a claims 6 of 4 gpu" in " ".join(told.out.split())


@pytest.mark.parametrize(("running", "expected"), [(None, {"x", "s"}), ("y", {"y", "s"}), ("xy", {"x", "y"})])
def test_what_is_not_preemptible_borrows_nothing_where_its_tenant_says_so(
    running: str | None, expected: set[str]
) -> None:
    """Two jobs of 3 GPUs that may not be stopped share a guarantee of 4 of 8 with one that may."""
    within = {"guarantee": 4, "non_preemptible_within_guarantee": True}
    now = {name: {"current": "3"} for name in running or ""}
    jobs = [
        job("x", "a", 3, preemptible=False, **now.get("x", {})),
        job("y", "b", 3, preemptible=False, **now.get("y", {})),
        job("s", "b", 3),
    ]
    for one, value in zip(jobs, (9.0, 8.0, 1.0), strict=True):
        one["options"][0]["value"] = value
    tenants = [
        {"id": "org", "quotas": {"gpu": within}},
        *({"id": name, "parent": "org"} for name in ("a", "b")),
    ]
    round = knapsack(jobs, capacities={"gpu": 8}, tenants=tenants)
    for backend in ("auto", "highs"):
        solution = apportion.solve(apportion.read(round), backend=backend)
        assert set(solution.require()["choice"]) == expected
        assert stored.verify(solution.instance, stored.document(solution)).ok
    if running is None:
        beyond = apportion.check(solution.instance, {"choice": {"x": "3", "y": "3"}})
        assert [one.rule for one in beyond.violations] == ["quota"]
