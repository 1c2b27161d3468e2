"""Deltas change an instance as a file would say it, all or none, and say what is wrong where."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

import apportion
from apportion.core.errors import InvalidInstance
from apportion.instances.kinds import Instance, kinds
from apportion.service.record.reading import applied
from apportion.service.session import JobFields, NewJobFields, Session, what_if

GAP = apportion.GapFillingInstance(
    "1",
    10.0,
    ("n0", "n1", "n2"),
    tuple(
        apportion.GapFillingJob(name, 1, 3, apportion.ScalingCurve((0, 3), (0.0, 3.0)), 1.0, 1.0, held)
        for name, held in (("a", ("n2",)), ("b", ()))
    ),
)
HELD_LATER = msgspec.structs.replace(GAP, jobs=GAP.jobs[::-1])
MENUS = apportion.MultipleChoiceKnapsackInstance(
    "1",
    "maximize",
    {"gpu": 2},
    (apportion.KnapsackJob("a", (apportion.KnapsackOption("one", 1.0, {"gpu": 1}),), False),),
)
MATCHING = apportion.MatchingInstance(
    "1",
    "makespan",
    (apportion.MatchingMachine("v100", 2),),
    (apportion.MatchingJob("a", {"v100": apportion.MatchingEntry(time_s=3.0)}),),
)
FREEZING = apportion.FreezingInstance(
    "1",
    {"v100": 4},
    60.0,
    (apportion.FreezingJob("a", 8, (apportion.FreezingRow("v100", 2, (0, 4), (1.0, 1.5)),)),),
)
NEW = {
    "id": "c",
    "min_nodes": 1,
    "max_nodes": 2,
    "scaling": {"nodes": [0, 2], "rate": [0, 5]},
    "rescale_up_s": 1,
    "rescale_down_s": 1,
}


@pytest.mark.parametrize(
    ("start", "delta", "expected"),
    [
        (GAP, {"op": "add_job", "job": NEW}, lambda i: [job.id for job in i.jobs] == ["a", "b", "c"]),
        (GAP, {"op": "update_job", "job": {"id": "a", "weight": 2}}, lambda i: i.jobs[0].weight == 2.0),
        (GAP, {"op": "remove_job", "id": "a"}, lambda i: [job.id for job in i.jobs] == ["b"]),
        (GAP, {"op": "set_nodes", "nodes": ["n2", "x"]}, lambda i: i.jobs[0].current_nodes == ("n2",)),
        (GAP, {"op": "set_nodes", "nodes": ["x"]}, lambda i: i.jobs[0].current_nodes == ()),
        (GAP, {"op": "remove_nodes", "nodes": ["n2"]}, lambda i: i.nodes == ("n0", "n1")),
        (GAP, {"op": "set_capacity", "name": "idle_nodes", "amount": 2}, lambda i: len(i.nodes) == 2),
        (GAP, {"op": "set_fields", "fields": {"horizon_s": 7}}, lambda i: i.horizon_s == 7.0),
        (GAP, {"op": "pin", "id": "b", "option": 2}, lambda i: i.jobs[1].pinned_count == 2),
        (
            GAP,
            {"op": "adopt", "plan": {"allocation": {"b": ["n0", "n1"]}}},
            lambda i: [job.current_nodes for job in i.jobs] == [(), ("n0", "n1")],
        ),
        (MENUS, {"op": "set_capacity", "name": "gpu", "amount": 0}, lambda i: i.capacities == {"gpu": 0}),
        (MENUS, {"op": "adopt", "plan": {"choice": {"a": "one"}}}, lambda i: i.jobs[0].current == "one"),
        (MATCHING, {"op": "set_machine", "machine": {"id": "a100"}}, lambda i: len(i.machines) == 2),
        (MATCHING, {"op": "remove_nodes", "nodes": ["v100[0]"]}, lambda i: i.machines[0].count == 1),
        (FREEZING, {"op": "set_capacity", "name": "v100", "amount": 3}, lambda i: i.gpus == {"v100": 3}),
        (
            FREEZING,
            {"op": "adopt", "plan": {"configuration": {"a": {"gpu_type": "v100", "gpus": 2, "depth": 4}}}},
            lambda i: i.jobs[0].current == apportion.FreezingConfiguration("v100", 2, 4),
        ),
    ],
)
def test_a_delta_leaves_the_instance_that_a_file_would_hold(
    start: Instance, delta: Any, expected: Any
) -> None:
    session = Session(start)
    before = msgspec.json.encode(start)
    changed = session.apply(delta)
    assert expected(changed)
    assert changed is session.instance
    assert apportion.read(msgspec.json.encode(changed)) == changed, "checked as if it had been read"
    assert msgspec.json.encode(start) == before


@pytest.mark.parametrize(
    ("start", "delta", "path", "told"),
    [
        (GAP, {"op": "add_job", "job": {**NEW, "id": "a"}}, "$.deltas[1].job", "already is a job 'a'"),
        (GAP, {"op": "add_job", "job": {**NEW, "min_nodes": 0}}, "$.deltas[1].job.min_nodes", "from 1"),
        (
            GAP,
            {"op": "add_job", "job": {**NEW, "min_node": 1}},
            "$.deltas[1].job.min_node",
            "mean 'min_nodes'",
        ),
        (
            GAP,
            {"op": "add_job", "job": {**NEW, "current_nodes": ["n2"]}},
            "$.deltas[1].job.current_nodes[0]",
            "already held by job 'a'",
        ),
        (
            GAP,
            {"op": "update_job", "job": {"id": "b", "current_nodes": ["n2"]}},
            "$.deltas[1].job.current_nodes[0]",
            "already held by job 'a'",
        ),
        (
            HELD_LATER,
            {"op": "update_job", "job": {"id": "b", "current_nodes": ["n2"]}},
            "$.deltas[1]",
            "$.jobs[1].current_nodes[0]: node 'n2' is already held by job 'b'",
        ),
        (GAP, {"op": "update_job", "job": {"weight": 2}}, "$.deltas[1].job.id", "is missing"),
        (GAP, {"op": "update_job", "job": {"id": "x"}}, "$.deltas[1].job.id", "no job 'x'"),
        (GAP, {"op": "remove_job", "id": "x"}, "$.deltas[1].id", "no job 'x'"),
        (GAP, {"op": "set_nodes", "nodes": ["x", "x"]}, "$.deltas[1].nodes", "stands 2 times"),
        (GAP, {"op": "set_machine", "machine": {"id": "x"}}, "$.deltas[1]", "no pools"),
        (GAP, {"op": "set_fields", "fields": {"jobs": []}}, "$.deltas[1].fields.jobs", "no field"),
        (GAP, {"op": "set_fields", "fields": {"horizon_s": 0}}, "$.deltas[1].fields.horizon_s", "positive"),
        (GAP, {"op": "unpin", "id": "b"}, "$.deltas[1].id", "not pinned"),
        (GAP, {"op": "adopt", "plan": {"allocation": {"b": ["n2"]}, "x": 1}}, "$.deltas[1].plan", "shape"),
        (GAP, {"op": "remove"}, "$.deltas[1].op", "is no delta"),
        (GAP, {"op": "remove_job"}, "$.deltas[1].id", "is missing"),
        (GAP, {"op": "remove_job", "id": "a", "at": 3}, "$.deltas[1].at", "unknown"),
        (GAP, "remove_job", "$.deltas[1]", "must be an object"),
        (
            MENUS,
            {"op": "set_capacity", "name": "gpus", "amount": 1},
            "$.deltas[1].name",
            "mean 'gpu'",
        ),
        (MENUS, {"op": "set_capacity", "name": "gpu", "amount": -1}, "$.deltas[1].amount", "negative"),
        (MENUS, {"op": "set_nodes", "nodes": []}, "$.deltas[1]", "no list of nodes"),
        (MATCHING, {"op": "adopt", "plan": {}}, "$.deltas[1]", "no present state"),
        (MATCHING, {"op": "set_machine", "machine": {"count": 1}}, "$.deltas[1].machine.id", "is missing"),
    ],
)
def test_what_cannot_be_applied_is_told_at_its_field_and_nothing_is_changed(
    start: Instance, delta: Any, path: str, told: str
) -> None:
    session = Session(start)
    with pytest.raises(InvalidInstance) as raised:
        session.apply({"op": "set_fields", "fields": {"name": "other"}}, delta)
    found = [problem for problem in raised.value.problems if problem.path == path]
    assert found, raised.value.problems
    assert told in found[0].message
    assert session.instance is start


def test_numpy_numbers_and_arrays_stand_where_numbers_and_lists_do() -> None:
    session = Session(GAP)
    scaling = {"nodes": np.arange(3), "rate": np.array([0.0, 1.5, 2.0], dtype=np.float32)}
    session.add_job(**{**NEW, "min_nodes": np.int64(1), "max_nodes": np.int8(2), "scaling": scaling})
    assert session.instance.jobs[-1].scaling == apportion.ScalingCurve((0, 1, 2), (0.0, 1.5, 2.0))  # type: ignore[union-attr]
    assert session.update_job("c", weight=np.float32(0.5)).jobs[-1].weight == 0.5  # type: ignore[union-attr]


def test_a_session_makes_no_nodes_up() -> None:
    """More `idle_nodes` by number were decided on nodes extra-1, extra-2, ... that nobody has."""
    session = apportion.Session(GAP)
    before = session.instance
    with pytest.raises(
        InvalidInstance, match="4, and 3 nodes are named: set_nodes names the nodes"
    ) as caught:
        session.set_capacity("idle_nodes", 4)
    assert caught.value.problems[0].path == "$.deltas[0].amount"
    with pytest.raises(InvalidInstance, match="set_nodes"):
        session.apply(
            {"op": "set_capacity", "name": "idle_nodes", "amount": 2},
            {"op": "set_capacity", "name": "idle_nodes", "amount": 3},
        )
    assert session.instance == before
    asked = what_if(GAP, [{"op": "set_capacity", "name": "idle_nodes", "amount": 6}])
    assert asked.after.objective > asked.before.objective
    assert len(applied(GAP, [{"op": "set_capacity", "name": "idle_nodes", "amount": 5}]).nodes) == 5
    named = msgspec.structs.replace(FREEZING, nodes={"v100": ("a", "b", "c", "d")}, gpus_per_node={"v100": 1})
    with pytest.raises(InvalidInstance, match="set_fields"):
        apportion.Session(named).set_capacity("v100", 5)
    more = {"gpus": {"v100": 5}, "nodes": {"v100": ["a", "b", "c", "d", "e"]}}
    assert apportion.Session(named).apply({"op": "set_fields", "fields": more}).gpus == {"v100": 5}  # type: ignore[union-attr]


def test_the_names_that_type_checkers_know_are_the_fields_of_all_jobs() -> None:
    """`add_job(**fields)` took any name; a new field of a job belongs into `JobFields` too."""
    names = {name for kind in kinds().values() for name in kind.edits.job_type.__struct_fields__}
    assert set(NewJobFields.__annotations__) | set(JobFields.__annotations__) == names
    assert "id" not in JobFields.__annotations__
