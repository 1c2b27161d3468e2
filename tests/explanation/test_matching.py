"""Edits, what-if and explanations of matchings: every figure is what enumeration says."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import apportion
from apportion.cli.explain import command as explain_command
from apportion.cli.running import run
from apportion.cli.what_if import command as what_if_command
from apportion.core.errors import InvalidInstance, InvalidOption
from apportion.explanation import explain, what_if
from apportion.instances import MatchingEntry, MatchingInstance, MatchingJob, MatchingMachine, edits
from apportion.instances.matching.bounds import schedule
from tests.budgets import examples
from tests.solving.test_matching import oracle
from tests.strategies import matchings


def timed(*times: dict[str, float], counts: dict[str, int], gpus: int = 1) -> MatchingInstance:
    machines = tuple(MatchingMachine(name, count) for name, count in counts.items())
    jobs = tuple(
        MatchingJob(f"j{k}", {name: MatchingEntry(time_s=time, gpus=gpus) for name, time in row.items()})
        for k, row in enumerate(times)
    )
    return MatchingInstance("1", "makespan", machines, jobs, name="timed")


SMALL = timed({"a": 4.0, "b": 8.0}, {"a": 4.0, "b": 8.0}, {"a": 4.0}, counts={"a": 1, "b": 1})
ROOMS = MatchingInstance(
    "1",
    "cost",
    (MatchingMachine("a", capacity=3), MatchingMachine("b", capacity=3)),
    tuple(
        MatchingJob(f"j{k}", {"a": MatchingEntry(cost=1.0 + k, uses=2), "b": MatchingEntry(cost=5.0, uses=2)})
        for k in range(2)
    ),
    name="rooms",
)


def test_capacities_are_named_by_what_the_objective_weighs() -> None:
    assert edits.capacities(SMALL) == {"a": 1, "b": 1, "a.count": 1, "b.count": 1}
    assert edits.capacities(ROOMS)["a"] == 3
    assert edits.capacities(ROOMS)["a.capacity"] == 3
    assert edits.change_capacity(ROOMS, "a", 2).machines[0] == MatchingMachine("a", capacity=5)  # type: ignore[union-attr]
    assert edits.change_capacity(ROOMS, "a.count", 2).machines[0].count == 3  # type: ignore[union-attr]
    assert edits.change_capacity(SMALL, "a", 2).machines[0].count == 3  # type: ignore[union-attr]


def test_a_pool_without_machines_is_gone_with_its_entries() -> None:
    left = edits.change_capacity(SMALL, "b", -1)
    assert [pool.id for pool in left.machines] == ["a"]  # type: ignore[union-attr]
    assert all(set(job.on) == {"a"} for job in left.jobs)  # type: ignore[union-attr]
    assert edits.remove_nodes(SMALL, ["b"]) == left


def test_gangs_that_no_longer_fit_lose_the_pool() -> None:
    gangs = timed({"a": 1.0, "b": 2.0}, counts={"a": 3, "b": 2}, gpus=2)
    left = edits.remove_nodes(gangs, ["a[0]", "a[2]"])
    assert left.machines[0].count == 1  # type: ignore[union-attr]
    assert set(left.jobs[0].on) == {"b"}  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda: edits.remove_nodes(SMALL, ["c"]), "no machine 'c'; the pools are 'a', 'b'"),
        (lambda: edits.remove_nodes(SMALL, ["a[1]"]), "'a' has 1 machines"),
        (lambda: edits.change_capacity(SMALL, "a", -2), "2 fewer is below 0"),
        (lambda: edits.change_capacity(SMALL, "c", 1), "no capacity 'c'; there is 'a', 'b'"),
        (lambda: edits.change_capacity(SMALL, "a.capacity", 1), "no capacity"),
        (lambda: edits.pin(SMALL, {"j2": "b"}), "'j2' cannot run on 'b'; it can run on 'a'"),
        (lambda: edits.pin(SMALL, {"j9": "b"}), "no job 'j9'"),
        (lambda: edits.unpin(SMALL, ["j0"]), "not pinned"),
        (lambda: edits.change_budgets(SMALL, {"j0": 1.0}), "no accuracy budgets"),
        (lambda: edits.add_jobs(SMALL, [MatchingJob("n", {"z": MatchingEntry(time_s=1.0)})]), "on.z"),
        (lambda: edits.change_capacity(SMALL, "a", 10**30), "at most"),
    ],
)
def test_what_does_not_exist_is_named(change: object, named: str) -> None:
    with pytest.raises(InvalidInstance) as caught:
        change()  # type: ignore[operator]
    assert named in str(caught.value)


def gangless(instance: MatchingInstance) -> bool:
    return all(entry.gpus == 1 for job in instance.jobs for entry in job.on.values())


@given(matchings(max_jobs=3), st.integers(-1, 2), st.data())
@settings(max_examples=examples(60))
def test_what_if_says_what_enumeration_says(
    instance: MatchingInstance, delta: int, data: st.DataObject
) -> None:
    assume(gangless(instance))
    pool = data.draw(st.sampled_from([machine.id for machine in instance.machines]))
    ids = [job.id for job in instance.jobs]
    gone = data.draw(st.lists(st.sampled_from(ids), unique=True, max_size=1)) if ids else []
    after = edits.change_capacity(edits.remove_jobs(instance, gone), f"{pool}.count", delta)
    assume(after.machines)  # type: ignore[union-attr]
    comparison = what_if(instance, remove_jobs=gone, capacity={f"{pool}.count": delta})
    json.dumps(comparison.to_dict(), allow_nan=False)
    assert str(comparison)
    for told, asked in ((comparison.objective_before, instance), (comparison.objective_after, after)):
        best = oracle(asked)  # type: ignore[arg-type]
        assert (told is None) == (best is None)
        assert told is None or best is None or math.isclose(told, best, rel_tol=1e-9, abs_tol=1e-9)
    if comparison.change is not None and instance.objective != "makespan":
        sign = 1.0 if comparison.sense == "maximize" else -1.0
        total = sum(job.gain for job in comparison.jobs)
        assert math.isclose(total, sign * comparison.change, rel_tol=1e-9, abs_tol=1e-6)


@given(matchings(max_jobs=3), st.data())
@settings(max_examples=examples(60))
def test_explanations_say_what_enumeration_says(instance: MatchingInstance, data: st.DataObject) -> None:
    assume(gangless(instance))
    best = oracle(instance)
    explanation = explain(instance)
    json.dumps(explanation.to_dict(), allow_nan=False)
    assert str(explanation)
    assert (explanation.feasible is True) == (best is not None)
    if best is None:
        assert explanation.feasible is False
        assert explanation.conflicts
        return
    sign = 1.0 if instance.objective == "value" else -1.0
    assert explanation.objective == pytest.approx(best)
    for job in explanation.jobs:
        rival = job.runner_up
        if rival is None or rival.needed is None or rival.needed.exact is None:
            continue
        option = rival.worth.option
        pool = "-" if option is None else option.split("[")[0]
        held = oracle(edits.pin(instance, {job.job: pool}))  # type: ignore[arg-type]
        assert held is not None
        assert rival.needed.exact == pytest.approx(sign * (best - held), abs=1e-6)
    if instance.objective == "makespan":
        for worth in explanation.capacities:
            more = oracle(edits.change_capacity(instance, f"{worth.name}.count", 1))  # type: ignore[arg-type]
            assert more is not None
            assert worth.one_more is not None
            assert worth.one_more.exact == pytest.approx(best - more, abs=1e-6)


def test_why_a_job_is_not_on_its_quickest_machine() -> None:
    text = str(explain(SMALL))
    assert "timed: optimal, makespan 8 s" in text
    assert "a: 1 machine, busy 100.0 % of the makespan" in text
    assert "runs on b: 8 s" in text
    assert "a is its quickest: 4 s, here it takes 2 times as long" in text
    assert "behind that it would end at 12 s, 4 s after everything else" in text
    assert "an equally good plan has it there (by re-solving)" in text
    assert "one machine fewer ends everything 4 s later (by re-solving)" in text
    assert "no other pool can run it" in text


def test_a_job_without_a_machine_is_the_conflict() -> None:
    explanation = explain(timed({}, {"a": 1.0}, counts={"a": 1}))
    assert explanation.feasible is False
    assert explanation.conflicts[0].jobs == ("j0",)
    assert explanation.relaxations[0].leave_out == ("j0",)
    assert explanation.relaxations[0].verified


def test_too_little_room_is_a_conflict_and_more_of_it_a_way_out() -> None:
    explanation = explain(edits.change_capacity(ROOMS, "b", -3))
    assert explanation.feasible is False
    assert set(explanation.conflicts[0].jobs) == {"j0", "j1"}
    assert {way.kind for way in explanation.relaxations} == {"add_capacity", "leave_out"}
    assert all(way.verified for way in explanation.relaxations)


def test_an_option_can_be_asked_about_and_a_wrong_one_is_named() -> None:
    asked = explain(SMALL, job="j2", option="a").jobs[0].asked
    assert asked is not None
    assert asked.needed is not None
    assert asked.needed.exact == 0.0
    assert "a is where it runs" in str(explain(SMALL, job="j2", option="a"))
    with pytest.raises(InvalidOption, match="it can get a"):
        explain(SMALL, job="j2", option="b")
    with pytest.raises(InvalidInstance, match="no job 'z'"):
        explain(SMALL, job="z")
    with pytest.raises(InvalidOption, match="not one of this instance"):
        explain(SMALL, solution=apportion.solve(timed({"a": 1.0}, counts={"a": 1})))


def test_shares_of_time_are_told() -> None:
    shared = timed({"a": 4.0, "b": 8.0}, {"a": 4.0, "b": 8.0}, counts={"a": 1, "b": 1})
    divisible = MatchingInstance("1", "makespan", shared.machines, shared.jobs, divisible=True)
    text = str(explain(divisible))
    assert "its time:" in text
    assert "% on a" in text
    comparison = what_if(divisible, remove_nodes=["b"])
    assert comparison.objective_after == pytest.approx(8.0)
    assert "machine b is removed" in str(comparison)


@given(matchings(objectives=("makespan",)))
@settings(max_examples=examples(60))
def test_the_schedule_is_the_plans(instance: MatchingInstance) -> None:
    solution = apportion.solve(instance)
    assume(solution.plan is not None)
    placed = schedule(instance, solution.require())
    assert max((where.end for where in placed.values()), default=0.0) == pytest.approx(solution.objective)
    assert set(placed) == {job.id for job in instance.jobs}
    assert all(len(set(where.machines)) == len(where.machines) for where in placed.values())


def test_the_commands_answer(root: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    new = tmp_path / "job.json"
    new.write_text('{"id": "new", "on": {"m0": {"time_s": 9.0}}}', encoding="utf-8")
    example = str(root / "examples" / "matching_unrelated.json")
    options = [
        "--capacity",
        "m1=+1",
        "--add-job",
        str(new),
        "--remove-node",
        "m3",
        "--pin",
        "j0=m0",
        "--json",
    ]
    assert run(what_if_command, "what-if", [example, *options]) == 0
    told = json.loads(capfd.readouterr().out)
    assert told["measure"] == "makespan"
    assert told["objective_after"] is not None
    assert [edit.split()[0] for edit in told["edits"]] == ["machine", "m1", "new", "j0"]
    assert run(what_if_command, "what-if", [example, "--remove-node", "nothing"]) == 3
    assert "no machine 'nothing'" in capfd.readouterr().err
    assert run(what_if_command, "what-if", [example, "--budget", "j0=many"]) == 2
    assert run(explain_command, "explain", [example, "--job", "j3", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["jobs"][0]["remarks"]


def test_no_more_room_is_advised_than_every_machine_needs() -> None:
    """Jobs of 8, 6, 7 and 9 on three machines of 6: the two least share one, 13, whoever they belong to."""
    document = {
        "kind": "matching",
        "schema_version": "1",
        "objective": "makespan",
        "machines": [{"id": "m", "count": 3, "capacity": 6}],
        "jobs": [
            {"id": f"j{use}", "required": True, "on": {"m": {"time_s": 1.0, "uses": use}}, "tenant": "a"}
            for use in (8, 6, 7, 9)
        ],
        "tenants": [{"id": "a"}],
        "fairness": {"share": "normalised_throughput"},
    }
    found = explain(apportion.read(document))
    assert [one.add for one in found.relaxations if one.kind == "add_capacity"] == [{"m.capacity": 7}]
