"""What-if: differences add up, and every change of an optimum is what enumeration says."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import apportion
from apportion.cli.explain import command as explain_command
from apportion.cli.running import run
from apportion.cli.what_if import command as what_if_command
from apportion.core.errors import InvalidInstance, InvalidOption
from apportion.explanation import Comparison, what_if
from apportion.explanation.subject import Subject
from apportion.instances import (
    GapFillingInstance,
    GapFillingJob,
    KnapsackJob,
    KnapsackOption,
    MultipleChoiceKnapsackInstance,
    ScalingCurve,
    edits,
)
from tests.budgets import examples
from tests.enumerating import ENUMERATION
from tests.oracles import enumerate_knapsack
from tests.strategies import gap_filling_instances, knapsack_instances

Both = GapFillingInstance | MultipleChoiceKnapsackInstance


def optimum(instance: Both) -> float | None:
    best = enumerate_knapsack(Subject(instance).menus.model)
    return None if best is None else best[0]


def assert_consistent(comparison: Comparison, before: Both, after: Both) -> None:
    json.dumps(comparison.to_dict(), allow_nan=False)
    assert str(comparison)
    was, becomes = optimum(before), optimum(after)
    assert (comparison.objective_before is None) == (was is None)
    assert (comparison.objective_after is None) == (becomes is None)
    if was is None or becomes is None:
        assert comparison.change is None
        assert comparison.jobs == ()
        return
    sign = 1.0 if comparison.sense == "maximize" else -1.0
    tolerance = 1e-8 * max(1.0, abs(was), abs(becomes), sum(abs(job.gain) for job in comparison.jobs))
    assert comparison.proven
    assert comparison.change is not None
    assert abs(comparison.change - (becomes - was)) <= tolerance
    assert abs(sum(job.gain for job in comparison.jobs) - sign * comparison.change) <= tolerance
    assert all(job.gain > 0 for job in comparison.winners)
    assert all(job.gain < 0 for job in comparison.losers)
    ids = {job.id for job in before.jobs} | {job.id for job in after.jobs}
    assert len(comparison.jobs) + comparison.unchanged == len(ids)
    if isinstance(before, GapFillingInstance):
        assert comparison.before is not None
        assert comparison.after is not None
        plans = [
            {} if solution.plan is None else solution.plan["allocation"]  # type: ignore[call-overload]
            for solution in (comparison.before, comparison.after)
        ]
        for job in comparison.jobs:
            had, has = (set(plan.get(job.job, ())) for plan in plans)
            assert set(job.nodes_gained) == has - had
            assert set(job.nodes_lost) == had - has


@given(gap_filling_instances(max_jobs=3, max_nodes=6, pins=True), st.integers(-3, 3))
@settings(max_examples=examples(150))
def test_other_idle_nodes(instance: GapFillingInstance, delta: int) -> None:
    assume(len(instance.nodes) + delta >= 0)
    after = edits.change_capacity(instance, "idle_nodes", delta)
    assert_consistent(what_if(instance, capacity={"idle_nodes": delta}), instance, after)


@given(gap_filling_instances(max_jobs=3, max_nodes=6), st.data())
@settings(max_examples=examples(100))
def test_nodes_and_jobs_leave(instance: GapFillingInstance, data: st.DataObject) -> None:
    nodes = data.draw(st.lists(st.sampled_from(instance.nodes), unique=True)) if instance.nodes else []
    jobs = [job.id for job in instance.jobs]
    gone = data.draw(st.lists(st.sampled_from(jobs), unique=True)) if jobs else []
    comparison = what_if(instance, remove_nodes=nodes, remove_jobs=gone)
    after = edits.remove_nodes(edits.remove_jobs(instance, gone), nodes)
    assert_consistent(comparison, instance, after)
    assert {job.job for job in comparison.jobs if job.presence == "gone"} == set(gone)


@given(knapsack_instances(max_jobs=3), st.integers(0, 9), st.data())
@settings(max_examples=examples(100))
def test_more_capacity_a_new_job_and_a_pin(
    instance: MultipleChoiceKnapsackInstance, delta: int, data: st.DataObject
) -> None:
    new = KnapsackJob("new", (KnapsackOption("x", 5.0, {"pool0": 2}),), required=False)
    pins = {}
    for job in instance.jobs:
        if job.options and data.draw(st.booleans()):
            pins[job.id] = data.draw(st.sampled_from([option.id for option in job.options]))
    comparison = what_if(instance, add_jobs=[new], capacity={"pool0": delta}, pin=pins, backend=ENUMERATION)
    after = edits.pin(edits.add_jobs(edits.change_capacity(instance, "pool0", delta), [new]), pins)
    assert_consistent(comparison, instance, after)


def gap_job(name: str, worth: float, held: tuple[str, ...] = ()) -> GapFillingJob:
    return GapFillingJob(name, 1, 2, ScalingCurve((0, 1, 2), (0.0, worth, 1.5 * worth)), 0.0, 0.0, held)


GAP = GapFillingInstance("1", 1.0, ("n0", "n1"), (gap_job("a", 8.0, ("n0",)), gap_job("b", 6.0)), "two")


def test_who_wins_and_who_loses_is_told() -> None:
    comparison = what_if(GAP, remove_nodes=["n1"])
    assert [job.job for job in comparison.losers] == ["b"]
    assert comparison.change == -6.0
    text = str(comparison)
    assert "what if: node n1 is removed" in text
    assert "objective: 14 -> 8" in text
    assert "b: 1 node -> 0 nodes by 6 samples (- n1)" in text


def test_an_infeasible_change_has_no_plan_after() -> None:
    comparison = what_if(GAP, pin={"a": 2, "b": 2})
    assert comparison.termination_after == "infeasible"
    assert comparison.objective_before == 14.0
    assert comparison.change is None
    assert "no plan (infeasible)" in str(comparison)
    lifted = what_if(edits.pin(GAP, {"a": 2, "b": 2}), unpin=["b"])
    assert lifted.objective_before is None
    assert lifted.objective_after == 12.0


def test_no_change_changes_nothing() -> None:
    comparison = what_if(GAP)
    assert comparison.change == 0.0
    assert comparison.jobs == ()
    assert comparison.unchanged == 2


def test_what_does_not_exist_is_refused() -> None:
    with pytest.raises(InvalidInstance, match="no node 'n9'"):
        what_if(GAP, remove_nodes=["n9"])
    model = apportion.MultipleChoiceKnapsack.from_arrays([1.0], [1], [0, 1], [1])
    with pytest.raises(InvalidOption, match="named jobs"):
        what_if(model)  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match="time_limit"):
        what_if(GAP, time_limit=-1.0)


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    path = tmp_path / "two.json"
    path.write_bytes(msgspec.json.encode(GAP))
    return path


def test_the_command_compares(stored: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    job = tmp_path / "c.json"
    job.write_bytes(msgspec.json.encode(gap_job("c=1", 20.0)))
    arguments = [
        str(stored),
        "--add-job",
        str(job),
        "--pin",
        "c=1=2",
        "--capacity",
        "idle_nodes=+1",
        "--json",
    ]
    assert run(what_if_command, "what-if", arguments) == 0
    told = json.loads(capfd.readouterr().out)
    assert told["objective_after"] == 38.0
    assert {change["job"]: change["after"] for change in told["jobs"]}["c=1"] == "2"
    assert run(what_if_command, "what-if", [str(stored), "--remove-job", "a", "--remove-node", "n0"]) == 0
    assert "a: 1 node -> gone" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--capacity", "idle_nodes=3"], 2, "POOL=+N"),
        (["--pin", "a"], 2, "JOB=OPTION"),
        (["--pin", "a=1", "--pin", "a=2"], 2, "is pinned to '1' and to '2'"),
        (["--capacity", "gpu=+3"], 3, "no capacity 'gpu'"),
        (["--remove-job", "z"], 3, "no job 'z'"),
        (["--pin", "a=2", "--pin", "b=2"], 4, ""),
        (["--backend", "gurobi"], 7, "gurobi"),
    ],
)
def test_the_command_says_what_is_wrong(
    stored: Path, arguments: list[str], code: int, said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(what_if_command, "what-if", [str(stored), *arguments]) == code
    assert said in capfd.readouterr().err


def test_a_job_file_that_is_no_job_is_refused(
    stored: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    job = tmp_path / "c.json"
    job.write_text('{"id": "c", "options": []}')
    assert run(what_if_command, "what-if", [str(stored), "--add-job", str(job)]) == 3
    assert "c.json" in capfd.readouterr().err


def test_the_command_explains(stored: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(explain_command, "explain", [str(stored), "--json"]) == 0
    told = json.loads(capfd.readouterr().out)
    assert told["feasible"] is True
    assert [job["job"] for job in told["jobs"]] == ["a", "b"]
    assert run(explain_command, "explain", [str(stored), "--job", "a", "--option", "2"]) == 0
    assert "asked about: 2 nodes" in capfd.readouterr().out
    assert run(explain_command, "explain", [str(stored), "--job", "z"]) == 3
    assert run(explain_command, "explain", [str(stored), "--option", "2"]) == 2


def test_the_command_explains_what_is_infeasible(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "crowded.json"
    path.write_bytes(msgspec.json.encode(edits.pin(GAP, {"a": 2, "b": 2})))
    assert run(explain_command, "explain", [str(path)]) == 4
    text = capfd.readouterr().out
    assert "in conflict: a, b and idle_nodes" in text
    assert "add 2 idle_nodes" in text
