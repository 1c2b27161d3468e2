"""What a layer-freezing round is: its rules, the meaning of a plan, the generator."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import apportion
from apportion.core.errors import InvalidInstance, InvalidOption
from apportion.instances import FreezingConfiguration, FreezingInstance, FreezingJob, FreezingRow
from apportion.instances.freezing.check import check, exact_objective
from apportion.instances.freezing.generator import generate
from apportion.instances.kinds import kind_of
from tests.strategies import freezing_instances


def _instance(job: dict[str, Any] | None = None, **fields: Any) -> FreezingInstance:
    menu = (
        FreezingRow("v100", 1, (0, 5), (10.0, 12.0), (0, 100_000)),
        FreezingRow("v100", 4, (0, 5), (40.0, 44.0), (0, 100_000)),
    )
    made = FreezingJob(**{"id": "a", "layers": 10, "menu": menu, **(job or {})})
    return FreezingInstance(
        **{"schema_version": "1", "gpus": {"v100": 4}, "round_s": 60.0, "jobs": (made,), **fields}
    )


def _plan(gpus: int, depth: int, gpu_type: str = "v100") -> dict[str, Any]:
    return {"configuration": {"a": {"gpu_type": gpu_type, "gpus": gpus, "depth": depth}}}


def test_a_value_is_the_power_of_relative_progress() -> None:
    instance = _instance({"weight": 3.0}, power=2.0)
    assert check(instance, _plan(4, 5)).objective == 3.0 * 4.4**2
    assert check(_instance(power=-0.5), _plan(4, 0)).objective == 0.5
    assert check(instance, {"configuration": {}}).objective == 1.1
    assert exact_objective(instance, _plan(4, 5)) == Fraction(3.0 * 4.4**2)


def test_a_restart_costs_when_gpus_change_and_a_rebuild_when_only_the_depth_does() -> None:
    state = {
        "current": FreezingConfiguration("v100", 4, 0),
        "age_s": 270.0,
        "restarts": 1,
        "restart_s": 30.0,
        "rebuild_s": 15.0,
    }
    instance = _instance(state, power=1.0)
    assert check(instance, _plan(4, 0)).objective == 4.0
    assert check(instance, _plan(4, 5)).objective == pytest.approx(0.75 * 4.4)
    assert check(instance, _plan(1, 0)).objective == pytest.approx((270 - 30) / 300)


@pytest.mark.parametrize(
    ("job", "fields", "plan", "broken"),
    [
        ({}, {}, _plan(2, 0), "menu"),
        ({}, {}, _plan(4, 0, "a100"), "menu"),
        ({}, {"gpus": {"v100": 3}}, _plan(4, 0), "capacity"),
        ({}, {"penalty_cap_millionths": 99_999}, _plan(1, 5), "capacity"),
        ({"max_depth": 4}, {}, _plan(1, 5), "max_depth"),
        ({"budget_frozen_s": 29.9}, {}, _plan(1, 5), "accuracy_budget"),
        ({}, {"gpus_per_node": {"v100": 3}}, _plan(4, 0), "whole_nodes"),
        ({"required": True}, {}, {"configuration": {}}, "required"),
        ({}, {}, {"configuration": {"b": _plan(1, 0)["configuration"]["a"]}}, "known_job"),
        ({}, {}, {"configuration": {"a": 4}}, "shape"),
        ({}, {}, {"allocation": {}}, "shape"),
    ],
)
def test_every_rule_that_is_broken_is_named(
    job: dict[str, Any], fields: dict[str, Any], plan: dict[str, Any], broken: str
) -> None:
    report = check(_instance(job, **fields), plan)
    assert broken in {violation.rule for violation in report.violations}


def test_an_accuracy_budget_is_kept_to_the_last_bit() -> None:
    """In doubles a third of 0.3 is just below the one before 0.1; exactly it is above."""
    menu = (FreezingRow("v100", 1, (1,), (1.0,)),)
    below = math.nextafter(0.1, 0.0)
    assert 0.3 / 3 <= below < Fraction(0.3) / 3
    for budget, feasible in ((0.1, True), (below, False)):
        job = {"layers": 3, "menu": menu, "budget_frozen_s": budget}
        instance = _instance(job, round_s=0.3)
        assert check(instance, _plan(1, 1)).feasible is feasible
        assert bool(apportion.solve(instance).require()["configuration"]) is feasible


def test_no_progress_is_no_option_where_the_power_is_negative() -> None:
    job = {"menu": (FreezingRow("v100", 1, (0,), (0.0,)),)}
    assert {v.rule for v in check(_instance(job), _plan(1, 0)).violations} == {"progress"}
    assert check(_instance(job, power=1.0), _plan(1, 0)).objective == 0.0


@pytest.mark.parametrize(
    ("job", "fields", "message"),
    [
        ({"layers": 4}, {}, r"menu\[0\].depths\[1\]: 5 exceeds the job's 4 layers"),
        ({"reference_progress": 1e-9}, {}, "within a factor of 1e9"),
        ({"reference_progress": 0.0}, {}, "must be positive"),
        ({"menu": (FreezingRow("v100", 1, (3, 3), (1.0, 1.0)),)}, {}, "3 does not exceed 3"),
        ({"menu": (FreezingRow("v100", 1, (0,), ()),)}, {}, "one value for each of its 1 depths"),
        ({"menu": (FreezingRow("v100", 1, (), ()),) * 2}, {}, "place '1xv100' stands 2 times"),
        ({"current": FreezingConfiguration("k80", 1)}, {}, "'k80' is not one of the instance's GPU types"),
        ({}, {"power": 0.0}, "from -4 to 4 and not 0"),
        ({}, {"round_s": 0.0}, r"\$.round_s: must be positive"),
        ({}, {"gpus": {"v100": 4, "frozen_penalty": 1}}, "is the name of the penalty cap"),
        ({}, {"gpus_per_node": {"k80": 4}}, "is not one of the instance's GPU types"),
    ],
)
def test_a_wrong_instance_names_the_field(job: dict[str, Any], fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInstance, match=message):
        _instance(job, **fields)


@given(freezing_instances(), st.data())
def test_the_bound_holds_for_any_feasible_plan_and_any_prices(
    instance: FreezingInstance, data: st.DataObject
) -> None:
    configurations: dict[str, Any] = {}
    for job in instance.jobs:
        entries = [
            {"gpu_type": row.gpu_type, "gpus": row.gpus, "depth": depth}
            for row in job.menu
            for depth in row.depths
        ]
        if entries and data.draw(st.booleans()):
            configurations[job.id] = data.draw(st.sampled_from(entries))
    plan = {"configuration": configurations}
    names = [*instance.gpus, *(["frozen_penalty"] if instance.penalty_cap_millionths is not None else [])]
    bound = kind_of(instance).exact_bound(
        instance, {name: data.draw(st.integers(0, 8)) / 4 for name in names}
    )
    if check(instance, plan).feasible:
        assert bound is not None
        objective = exact_objective(instance, plan)
        assert bound >= objective if instance.power > 0 else bound <= objective


@given(freezing_instances())
def test_an_instance_survives_json(instance: FreezingInstance) -> None:
    assert msgspec.json.decode(msgspec.json.encode(instance), type=FreezingInstance) == instance


def test_the_generator_is_seeded_and_shaped_as_asked() -> None:
    instance = generate(1, 5, {"t4": 16, "a100": 8}, penalty_cap=0.1)
    assert instance == generate(1, 5, {"t4": 16, "a100": 8}, penalty_cap=0.1)
    assert [row.gpus for row in instance.jobs[0].menu] == [1, 2, 4, 8, 12, 16, 1, 2, 4, 8]
    assert {len(row.depths) for row in instance.jobs[0].menu} == {10}
    assert instance.penalty_cap_millionths == 500_000
    with pytest.raises(InvalidOption, match="depths"):
        generate(1, 5, {"t4": 16}, depths=0)
