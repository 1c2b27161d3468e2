"""Edits are pure, keep an instance valid, and name what does not exist."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from apportion.core.errors import InvalidInstance
from apportion.instances import (
    GapFillingInstance,
    GapFillingJob,
    KnapsackJob,
    KnapsackOption,
    MultipleChoiceKnapsackInstance,
    ScalingCurve,
)
from apportion.instances import edits as edit
from tests.strategies import gap_filling_instances, knapsack_instances


def gap_job(name: str, held: tuple[str, ...] = (), **more: object) -> GapFillingJob:
    return GapFillingJob(name, 1, 4, ScalingCurve((0, 4), (0.0, 4.0)), 1.0, 1.0, held, **more)  # type: ignore[arg-type]


GAP = GapFillingInstance("1", 10.0, ("n0", "n1", "n2"), (gap_job("a", ("n2",)), gap_job("b")))
MENUS = MultipleChoiceKnapsackInstance(
    "1",
    "maximize",
    {"gpu": 4, "quota": 2},
    (
        KnapsackJob("a", (KnapsackOption("one", 1.0, {"gpu": 1}), KnapsackOption("two", 1.5, {"gpu": 2}))),
        KnapsackJob("b", (), required=False),
    ),
)


@given(gap_filling_instances(pins=True), st.integers(-8, 20))
def test_nodes_come_and_go_with_a_changed_number_of_them(instance: GapFillingInstance, delta: int) -> None:
    assume(len(instance.nodes) + delta >= 0)
    changed = edit.change_capacity(instance, "idle_nodes", delta)
    assert len(changed.nodes) == len(instance.nodes) + delta  # type: ignore[union-attr]
    held = {node for job in instance.jobs for node in job.current_nodes}
    free = len(instance.nodes) - len(held)
    lost = held - {node for job in changed.jobs for node in job.current_nodes}  # type: ignore[union-attr]
    assert len(lost) == max(0, -delta - free)
    assert (
        [node for node in instance.nodes if node in changed.nodes]
        == list(  # type: ignore[union-attr]
            changed.nodes[: len(instance.nodes) + min(delta, 0)]  # type: ignore[union-attr]
        )
    )


def test_new_nodes_have_fresh_names() -> None:
    taken = edit.change_capacity(GAP, "idle_nodes", 1)
    again = edit.change_capacity(taken, "idle_nodes", 2)
    assert again.nodes == ("n0", "n1", "n2", "extra-1", "extra-2", "extra-3")  # type: ignore[union-attr]
    assert GAP.nodes == ("n0", "n1", "n2")


def test_a_removed_node_leaves_every_job_that_holds_it() -> None:
    changed = edit.remove_nodes(GAP, ["n2"])
    assert changed.nodes == ("n0", "n1")  # type: ignore[union-attr]
    assert changed.jobs[0].current_nodes == ()  # type: ignore[union-attr]


@given(knapsack_instances(), st.integers(-20, 20))
def test_a_capacity_changes_by_what_is_asked(instance: MultipleChoiceKnapsackInstance, delta: int) -> None:
    assume(instance.capacities["pool0"] + delta >= 0)
    changed = edit.change_capacity(instance, "pool0", delta)
    expected = {**instance.capacities, "pool0": instance.capacities["pool0"] + delta}
    assert edit.capacities(changed) == expected


def test_jobs_come_and_go() -> None:
    without = edit.remove_jobs(GAP, ["a"])
    assert [job.id for job in without.jobs] == ["b"]
    assert without.nodes == GAP.nodes  # type: ignore[union-attr]
    back = edit.add_jobs(without, [gap_job("a", ("n2",))])
    assert {job.id for job in back.jobs} == {"a", "b"}


def test_pins_are_set_and_lifted() -> None:
    pinned = edit.pin(GAP, {"a": 2, "b": "0"})
    assert [job.pinned_count for job in pinned.jobs] == [2, 0]  # type: ignore[union-attr]
    assert edit.unpin(pinned, ["a", "b"]) == GAP
    menus = edit.pin(MENUS, {"a": "two"})
    assert menus.jobs[0].pinned == "two"  # type: ignore[union-attr]
    assert edit.unpin(menus, ["a"]) == MENUS


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda: edit.remove_jobs(GAP, ["z"]), "no job 'z'"),
        (lambda: edit.remove_nodes(GAP, ["n0", "n9"]), "no node 'n9'"),
        (lambda: edit.remove_nodes(MENUS, ["n0"]), "no nodes"),
        (lambda: edit.change_capacity(MENUS, "tpu", 1), "no capacity 'tpu'; there is 'gpu', 'quota'"),
        (lambda: edit.change_capacity(MENUS, "gpu", -5), "5 fewer is below 0"),
        (lambda: edit.change_capacity(GAP, "idle_nodes", -4), "4 fewer is below 0"),
        (lambda: edit.change_capacity(GAP, "gpu", 1), "no capacity 'gpu'; there is 'idle_nodes'"),
        (lambda: edit.change_capacity(GAP, "idle_nodes", 10**9), "at once"),
        (lambda: edit.change_capacity(GAP, "idle_nodes", 1.5), "integer"),  # type: ignore[arg-type]
        (lambda: edit.pin(MENUS, {"a": "three"}), "no option 'three'; it has 'one', 'two'"),
        (lambda: edit.pin(MENUS, {"b": "one"}), "it has none"),
        (lambda: edit.pin(MENUS, {"z": "one"}), "no job 'z'"),
        (lambda: edit.pin(GAP, {"a": 5}), "0 or 1 to 4"),
        (lambda: edit.pin(GAP, {"a": "many"}), "'many'"),
        (lambda: edit.unpin(GAP, ["a"]), "'a' is not pinned"),
        (lambda: edit.unpin(GAP, ["z"]), "no job 'z'"),
        (lambda: edit.add_jobs(GAP, [gap_job("a")]), "already is a job 'a'"),
        (lambda: edit.add_jobs(GAP, [gap_job("c"), gap_job("c")]), "already is a job 'c'"),
        (lambda: edit.add_jobs(GAP, [gap_job("c", ("n2",))]), "already held"),
        (lambda: edit.add_jobs(MENUS, [gap_job("c")]), "KnapsackJob"),
        (lambda: edit.remove_jobs("no instance", ["a"]), "expected an instance"),  # type: ignore[arg-type]
    ],
)
def test_what_does_not_exist_is_named(change: object, named: str) -> None:
    with pytest.raises(InvalidInstance, match=named):
        change()  # type: ignore[operator]
