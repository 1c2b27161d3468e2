"""Edits, what-if and explanations of layer-freezing rounds: every figure is what enumeration says."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import apportion
from apportion.cli.running import run
from apportion.cli.what_if import command as what_if_command
from apportion.core.errors import InvalidInstance
from apportion.explanation import explain, what_if
from apportion.explanation.subject import Subject
from apportion.instances import FreezingConfiguration, FreezingInstance, FreezingJob, FreezingRow, edits
from tests.budgets import examples
from tests.oracles import enumerate_knapsack
from tests.strategies import freezing_instances


def optimum(instance: FreezingInstance) -> float | None:
    best = enumerate_knapsack(Subject(instance).menus.model)
    return None if best is None else best[0]


def job(name: str, **more: object) -> FreezingJob:
    rows = (
        FreezingRow("v100", 1, (0, 5, 10), (10.0, 13.0, 15.0), (0, 20_000, 90_000)),
        FreezingRow("v100", 2, (0, 5, 10), (18.0, 22.0, 23.0), (0, 20_000, 90_000)),
    )
    return FreezingJob(name, 10, rows, **more)  # type: ignore[arg-type]


ROUND = FreezingInstance(
    "1", {"v100": 3}, 60.0, (job("a", max_depth=5), job("b", budget_frozen_s=30.0)), name="round"
)


def test_capacities_and_budgets_change_by_what_is_asked() -> None:
    assert edits.capacities(ROUND) == {"v100": 3}
    assert edits.change_capacity(ROUND, "v100", -1).gpus == {"v100": 2}  # type: ignore[union-attr]
    richer = edits.change_budgets(ROUND, {"b": 30.0})
    assert richer.jobs[1].budget_frozen_s == 60.0  # type: ignore[union-attr]
    capped = FreezingInstance("1", {"v100": 3}, 60.0, (), penalty_cap_millionths=5)
    assert edits.change_capacity(capped, "frozen_penalty", 3).penalty_cap_millionths == 8  # type: ignore[union-attr]


def test_named_nodes_come_and_go() -> None:
    held = FreezingConfiguration("v100", 2, 0, ("n1",))
    nodes = FreezingInstance(
        "1",
        {"v100": 4},
        60.0,
        (job("a", current=held),),
        gpus_per_node={"v100": 2},
        nodes={"v100": ("n0", "n1")},
    )
    more = edits.change_capacity(nodes, "v100", 3)
    assert more.nodes == {"v100": ("n0", "n1", "extra-1", "extra-2")}  # type: ignore[union-attr]
    fewer = edits.change_capacity(nodes, "v100", -2)
    assert fewer.nodes == {"v100": ("n0",)}  # type: ignore[union-attr]
    assert fewer.jobs[0].current is None  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda: edits.change_capacity(ROUND, "tpu", 1), "no capacity 'tpu'; there is 'v100'"),
        (lambda: edits.change_capacity(ROUND, "v100", -4), "4 fewer is below 0"),
        (lambda: edits.change_budgets(ROUND, {"a": 1.0}), "no accuracy budget"),
        (lambda: edits.change_budgets(ROUND, {"b": -31.0}), "31 fewer is below 0"),
        (lambda: edits.change_budgets(ROUND, {"b": math.nan}), "finite"),
        (lambda: edits.pin(ROUND, {"a": "3xv100"}), "no configuration '3xv100'; it has '1xv100'"),
        (lambda: edits.remove_nodes(ROUND, ["n0"]), "no nodes"),
        (lambda: edits.unpin(ROUND, ["a"]), "not pinned"),
    ],
)
def test_what_does_not_exist_is_named(change: object, named: str) -> None:
    with pytest.raises(InvalidInstance) as caught:
        change()  # type: ignore[operator]
    assert named in str(caught.value)


@given(freezing_instances(max_jobs=2), st.integers(-2, 3), st.data())
@settings(max_examples=examples(80))
def test_what_if_says_what_enumeration_says(
    instance: FreezingInstance, delta: int, data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(sorted(edits.capacities(instance))))
    assume(edits.capacities(instance)[name] + delta >= 0)
    pins = {}
    for one in instance.jobs:
        named = [f"{row.gpus}x{row.gpu_type}" for row in one.menu if row.depths]
        if named and data.draw(st.booleans()):
            pins[one.id] = data.draw(st.sampled_from(named))
    after = edits.pin(edits.change_capacity(instance, name, delta), pins)
    comparison = what_if(instance, capacity={name: delta}, pin=pins)
    json.dumps(comparison.to_dict(), allow_nan=False)
    assert str(comparison)
    if instance.gpus_per_node:
        return  # the menus alone do not say what fits onto nodes
    for told, asked in ((comparison.objective_before, instance), (comparison.objective_after, after)):
        best = optimum(asked)  # type: ignore[arg-type]
        assert (told is None) == (best is None)
        assert told is None or best is None or math.isclose(told, best, rel_tol=1e-9, abs_tol=1e-9)


@given(freezing_instances(max_jobs=2), st.data())
@settings(max_examples=examples(60))
def test_pinning_changes_no_value(instance: FreezingInstance, data: st.DataObject) -> None:
    """The reference of a job is the least progress of its whole menu, also when the menu is cut."""
    solution = apportion.solve(instance)
    assume(solution.plan is not None)
    chosen = solution.require()["configuration"]
    pins = {
        name: f"{told['gpus']}x{told['gpu_type']}, {told['depth']} layers frozen"
        for name, told in chosen.items()
        if data.draw(st.booleans())
    }
    again = apportion.solve(edits.pin(instance, pins))
    assert again.objective == pytest.approx(solution.objective, rel=1e-9, abs=1e-9)


def test_why_it_is_frozen_so_deep_and_what_unfreezing_costs() -> None:
    told = explain(ROUND)
    text = str(told)
    first, second = told.jobs
    assert first.unfrozen is not None
    assert first.unfrozen.needed is not None
    held = optimum(edits.pin(ROUND, {"a": f"{first.chosen.option}".split(",")[0] + ", 0 layers frozen"}))  # type: ignore[arg-type]
    best = optimum(ROUND)
    assert held is not None
    assert best is not None
    assert first.unfrozen.needed.exact == pytest.approx(held - best)
    assert "5 of 10 layers are frozen" in text
    assert "times the effective progress with nothing frozen" in text
    assert "but the gate allows 5 layers this round" in text
    assert "30 s of frozen time are left of its accuracy budget, that takes 60 s" in text
    assert "unfreezing it on the same GPUs costs" in text
    assert second.remarks


def test_depths_that_cannot_be_optimal_can_be_asked_about() -> None:
    asked = explain(ROUND, job="a", option="1xv100, 0 layers frozen").jobs[0].asked
    assert asked is not None
    assert asked.possible


def test_the_command_knows_budgets_and_gpus(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    example = str(root / "examples" / "freezing_small.json")
    options = ["--capacity", "v100=+2", "--pin", "j0000=2xv100, 0 layers frozen", "--json"]
    assert run(what_if_command, "what-if", [example, *options]) == 0
    assert json.loads(capfd.readouterr().out)["objective_after"] is not None
    assert run(what_if_command, "what-if", [example, "--budget", "j0000=+5"]) == 3
    assert "no accuracy budget" in capfd.readouterr().err
