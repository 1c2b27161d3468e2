"""The greatest sorted vector of shares, where several sets of tenants or jobs could rise, is found."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from tests.fairness.test_placed_kinds import on_machines, on_nodes
from tests.hunt import truth_tenants
from tests.instances.tenants.small import drawn

import apportion
from apportion.core.outcome import Termination
from apportion.fairness.fair_solve import shared_out
from apportion.formulations.tenants import TenantedMenus
from apportion.instances.multiple_choice_knapsack.generator import generate_tenants
from apportion.instances.tenants.schema import Fairness
from apportion.io.stored import document, verify
from apportion.solving.pipeline import menus_of_tenants

Told = dict[str, Any]


def tied(seed: int) -> Told:
    """Return tenants of equal weight and like jobs, with less than all of them could rise by."""
    rng = random.Random(seed)
    told = drawn(seed, lending=False, stops=False, jobs=rng.choice((5, 6)))
    told["capacities"] = {"gpu": rng.randint(3, 6), "cpu": 12}
    menus = [
        [
            {"id": f"o{count}", "value": float(count), "uses": {"gpu": count, "cpu": cpu}}
            for count, cpu in menu
        ]
        for menu in (((1, 0), (2, 0)), ((1, 0), (2, 8)), ((1, 4),), ((1, 0), (3, 12)))
    ]
    for job in told["jobs"]:
        job["options"] = [dict(option) for option in rng.choice(menus)]
    for tenant in told["tenants"]:
        tenant["weight"] = 1.0
        tenant["quotas"] = {}
    return told


def idle_nodes(seed: int) -> Told:
    """Return gap filling whose jobs scale alike, on fewer nodes than all could use."""
    rng = random.Random(seed)
    jobs = [
        {
            "id": f"j{j}",
            "tenant": rng.choice("abc"),
            "min_nodes": rng.choice((1, 1, 2)),
            "max_nodes": 3,
            "scaling": {"nodes": [0, 1, 2, 3], "rate": [0.0, 1.0, 1.8, 2.4]},
            "rescale_up_s": 1.0,
            "rescale_down_s": 1.0,
            "current_nodes": [],
        }
        for j in range(4)
    ]
    return {
        "kind": "gap_filling",
        "schema_version": "1",
        "horizon_s": 60.0,
        "nodes": [f"n{k}" for k in range(rng.randint(3, 6))],
        "jobs": jobs,
        "tenants": [{"id": name} for name in "abc"],
    }


def counts(seed: int) -> Told:
    """Return a round of layer freezing without nodes."""
    return on_nodes(seed, "dominant_share") | {"gpus_per_node": {}}


def assert_greatest(told: Told) -> apportion.Solution[Any]:
    instance = apportion.read(told)
    solution = apportion.solve(instance, time_limit=None)
    assert solution.termination.value == "optimal"
    assert solution.levels
    assert all(level.evidence == "by_search" and level.bound == level.share for level in solution.levels)
    assert list(truth_tenants.misshared(told, solution)) == []
    verification = verify(instance, document(solution))
    assert verification.ok, verification.checks
    return solution


@pytest.mark.one_in(11)
@pytest.mark.parametrize(
    ("over", "inside"),
    [("tenants", "sum"), ("tenants", "fair"), ("tenants", "first_come"), ("tree", "fair"), ("jobs", "sum")],
)
@pytest.mark.parametrize("seed", range(6))
def test_ties_of_menus(seed: int, over: str, inside: str) -> None:
    assert_greatest(tied(seed) | {"fairness": {"over": over, "inside": inside}})


@pytest.mark.one_in(5)
@pytest.mark.parametrize("over", ["tenants", "jobs"])
@pytest.mark.parametrize("draw", [idle_nodes, counts])
@pytest.mark.parametrize("seed", range(40, 43))
def test_ties_of_idle_nodes_and_of_rounds(seed: int, draw: Any, over: str) -> None:
    assert_greatest(draw(seed) | {"fairness": {"over": over, "inside": "fair"}})


@pytest.mark.one_in(5)
@pytest.mark.parametrize("draw", [on_nodes, on_machines])
@pytest.mark.parametrize("seed", [50, 51, 53])
def test_ties_where_choices_must_be_placed(seed: int, draw: Any) -> None:
    told = draw(seed, "dominant_share")
    for tenant in told["tenants"]:
        tenant["weight"] = 1.0
        tenant["quotas"] = {}
    assert_greatest(told | {"fairness": {"over": "jobs"}})


def two_who_could_rise() -> Told:
    """One GPU is left: early would have two of three, late would have all processors with it."""

    def job(name: str, cpu: int) -> Told:
        options = [{"id": f"o{n}", "value": 1.0, "uses": {"gpu": n, "cpu": cpu * (n - 1)}} for n in (1, 2)]
        return {"id": name, "tenant": name, "required": False, "options": options}

    return {
        "kind": "multiple_choice_knapsack",
        "schema_version": "1",
        "sense": "maximize",
        "capacities": {"gpu": 3, "cpu": 6},
        "tenants": [{"id": "early"}, {"id": "late"}],
        "jobs": [job("early", 0), job("late", 6)],
        "fairness": {},
    }


def test_who_rises_is_decided_by_what_can_be_had_above() -> None:
    solution = assert_greatest(two_who_could_rise())
    assert {level.name: level.share for level in solution.levels} == {"early": 1 / 3, "late": 1.0}


def test_groups_that_are_served_later_decide_among_equal_sets() -> None:
    """Either tenant may have the second GPU; with late there are not all processors left for the last."""
    told = two_who_could_rise()
    told["capacities"]["cpu"] = 9
    told["tenants"].append({"id": "last", "priority": -1})
    wide = {"id": "o1", "value": 1.0, "uses": {"cpu": 9}}
    told["jobs"].append({"id": "last", "tenant": "last", "required": False, "options": [wide]})
    solution = assert_greatest(told)
    assert {level.name: level.share for level in solution.levels} == {
        "early": 2 / 3,
        "late": 1 / 3,
        "last": 1,
    }


def test_nothing_above_a_level_that_a_limit_left_open_is_called_proved() -> None:
    instance = generate_tenants(3, 60, 20, 48, Fairness())
    menus = menus_of_tenants(instance, None)
    assert isinstance(menus, TenantedMenus)

    def deciding(allowed: int) -> Any:
        answered = list[Any]()

        def ask(model: Any) -> apportion.Solution[Any]:
            answered.append(model)
            solution = apportion.solve(model, deterministic=True, work_limit=1e7)
            if len(answered) > allowed:
                return replace(solution, plan=None, termination=Termination.NODE_LIMIT)
            return solution

        return ask

    for allowed in (0, 1):
        sharing = shared_out(instance, menus, deciding(allowed), lambda: None)
        proved = [level.evidence is not None for level in sharing.levels]
        assert not all(proved)
        assert proved == sorted(proved, reverse=True)
        assert any("were not proved before a limit" in note for note in sharing.notes)
        assert sharing.ended is Termination.NODE_LIMIT
        assert apportion.check(instance, sharing.plan).feasible
    late = shared_out(instance, menus, deciding(99), lambda: 0.0)
    assert not any(level.evidence for level in late.levels) and late.ended is Termination.TIME_LIMIT
    assert apportion.check(instance, late.plan).feasible


@pytest.mark.parametrize("seed", [1, 4, 5])
def test_a_search_for_an_undecided_level_ends_a_thousandth_from_the_highest_found(seed: int) -> None:
    """Halving to the last unit asked 17 to 32 questions a level, each in a third of the time left."""
    instance = generate_tenants(seed, 30, 8, 20, Fairness(share="normalised_throughput"))
    menus = menus_of_tenants(instance, None)
    assert isinstance(menus, TenantedMenus)
    answers = list[apportion.Solution[Any]]()

    def ask(model: Any) -> apportion.Solution[Any]:
        decided = len(answers) < 2
        solution = apportion.solve(model, deterministic=True, work_limit=1e5) if decided else answers[-1]
        answers.append(solution)
        return solution if decided else replace(solution, plan=None, termination=Termination.NODE_LIMIT)

    sharing = shared_out(instance, menus, ask, lambda: None)
    assert not all(level.evidence for level in sharing.levels)
    assert len(answers) <= 12 * len(sharing.levels)
    assert apportion.check(instance, sharing.plan).feasible
