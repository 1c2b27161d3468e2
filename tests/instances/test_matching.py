"""Matching instances: what is valid, what a plan means, and bounds that hold."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import apportion
from apportion.instances import MatchingEntry, MatchingInstance, MatchingJob, MatchingMachine
from apportion.instances.matching.bounds import exact_bound, price_names
from apportion.instances.matching.check import check, exact_objective
from tests.strategies import matchings


def gang() -> MatchingInstance:
    pool = MatchingMachine(id="v100", count=2)
    jobs = tuple(
        MatchingJob(id=name, on={"v100": MatchingEntry(time_s=time, gpus=gpus)})
        for name, time, gpus in (("a", 4.0, 2), ("b", 3.0, 1), ("c", 2.0, 1))
    )
    return MatchingInstance("1", "makespan", (pool,), jobs)


PLAN: dict[str, Any] = {
    "assignment": {"a": "v100", "b": "v100", "c": "v100"},
    "machine_index": {"a": [0, 1], "b": 0, "c": 1},
    "start_s": {"a": 0.0, "b": 4.0, "c": 4.0},
}


def test_a_gang_holds_its_machines_together() -> None:
    report = check(gang(), PLAN)
    assert report.feasible
    assert report.objective == 7.0
    assert exact_objective(gang(), PLAN) == 7


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"start_s": {"a": 0.0, "b": 3.0, "c": 4.0}}, "overlap"),
        ({"start_s": {"a": 0.0, "b": 4.0}}, "start_s"),
        ({"start_s": {"a": 0.0, "b": -1.0, "c": 4.0}}, "start_s"),
        ({"start_s": {}}, "start_s"),
        ({"machine_index": {"a": [0, 0], "b": 0, "c": 1}}, "machine_index"),
        ({"machine_index": {"a": [0, 1], "b": 2, "c": 1}}, "machine_index"),
        ({"machine_index": {"a": [0, 1], "c": 1}}, "machine_index"),
        ({"assignment": {"a": "v100", "b": "v100"}}, "required"),
        ({"assignment": {"a": "v100", "b": "v100", "c": "k80"}}, "forbidden"),
        ({"assignment": {**PLAN["assignment"], "d": "v100"}}, "known_job"),
        ({"assignment": 7}, "shape"),
        ({"surplus": {}}, "shape"),
    ],
)
def test_every_broken_rule_has_a_name(change: dict[str, Any], rule: str) -> None:
    report = check(gang(), {**PLAN, **change})
    assert rule in {violation.rule for violation in report.violations}


def test_capacity_is_counted_on_each_machine_of_a_pool() -> None:
    jobs = tuple(MatchingJob(id=f"j{j}", on={"m": MatchingEntry(cost=1.0, uses=2)}) for j in range(2))
    instance = MatchingInstance("1", "cost", (MatchingMachine("m", count=2, capacity=3),), jobs)
    apart = {"assignment": {"j0": "m", "j1": "m"}, "machine_index": {"j0": 0, "j1": 1}}
    together = {"assignment": {"j0": "m", "j1": "m"}, "machine_index": {"j0": 1, "j1": 1}}
    assert check(instance, apart).feasible
    assert [str(v) for v in check(instance, together).violations] == ["capacity[m[1]]: uses 4 of 3"]


def test_shares_of_time_finish_when_the_last_job_does() -> None:
    on = {"a": MatchingEntry(time_s=4.0), "b": MatchingEntry(time_s=2.0)}
    instance = MatchingInstance(
        "1", "makespan", (MatchingMachine("a"), MatchingMachine("b")), (MatchingJob("j", on),), divisible=True
    )
    assert check(instance, {"fractions": {"j": {"b": 1.0}}}).objective == 2.0
    assert check(instance, {"fractions": {"j": {"a": 0.5, "b": 0.5}}}).objective == pytest.approx(8 / 3)
    assert not check(instance, {"fractions": {"j": {"a": 0.6, "b": 0.5}}}).feasible
    assert not check(instance, {"fractions": {"j": {}}}).feasible


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"objective": "profit"}, "$.objective"),
        ({"machines": [{"id": "v100", "count": 0}]}, "$.machines[0].count"),
        ({"machines": [{"id": "v100"}, {"id": "v100"}]}, "$.machines"),
        ({"jobs": [{"id": "a", "on": {"k80": {"time_s": 1.0}}}]}, "$.jobs[0].on.k80"),
        ({"jobs": [{"id": "a", "on": {"v100": {"cost": 1.0}}}]}, "$.jobs[0].on.v100.time_s"),
        ({"jobs": [{"id": "a", "on": {"v100": {"time_s": -1.0}}}]}, "$.jobs[0].on.v100.time_s"),
        ({"jobs": [{"id": "a", "on": {"v100": {"time_s": 1.0, "gpus": 9}}}]}, "$.jobs[0].on.v100.gpus"),
        ({"jobs": [{"id": "a", "required": False, "on": {}}]}, "$.jobs[0].required"),
        ({"objective": "cost", "divisible": True}, "$.divisible"),
    ],
)
def test_a_wrong_field_is_named(change: dict[str, Any], path: str) -> None:
    right = {
        "kind": "matching",
        "schema_version": "1",
        "objective": "makespan",
        "machines": [{"id": "v100", "count": 2}],
        "jobs": [{"id": "a", "on": {"v100": {"time_s": 1.0}}}],
    }
    apportion.read(right)
    with pytest.raises(apportion.InvalidInstance) as caught:
        apportion.read({**right, **change})
    assert path in {problem.path for problem in caught.value.problems}


@given(matchings(), st.data())
def test_no_price_gives_a_bound_beyond_any_plan(instance: MatchingInstance, data: st.DataObject) -> None:
    """Weak duality, against every assignment of jobs to pools that the checker accepts."""
    names = price_names(instance)
    prices = {name: data.draw(st.sampled_from([0.0, 0.1, 0.5, 1.0, 3.0])) for name in names}
    bound = exact_bound(instance, prices)
    menus = [[*job.on] if job.required else [None, *job.on] for job in instance.jobs]
    sign = 1 if instance.objective == "value" else -1
    for chosen in product(*menus):
        assignment = {
            job.id: pool for job, pool in zip(instance.jobs, chosen, strict=True) if pool is not None
        }
        plan = packed(instance, assignment)
        if check(instance, plan).feasible:
            assert bound is not None
            assert sign * (bound - exact_objective(instance, plan)) >= 0


def packed(instance: MatchingInstance, assignment: dict[str, str]) -> dict[str, Any]:
    """Run the jobs of each pool one after another on its first machines."""
    counts = {machine.id: machine.count for machine in instance.machines}
    on = {job.id: job.on for job in instance.jobs}
    start: dict[str, float] = {}
    index: dict[str, Any] = {}
    for pool, count in counts.items():
        now = 0.0
        for position, job in enumerate(job for job, named in assignment.items() if named == pool):
            entry = on[job][pool]
            first = position % (count - entry.gpus + 1)
            index[job] = list(range(first, first + entry.gpus)) if entry.gpus > 1 else first
            start[job] = now
            now += entry.time_s or 0.0
    plan: dict[str, Any] = {"assignment": assignment, "machine_index": index}
    return {**plan, "start_s": start} if instance.objective == "makespan" else plan


def test_counting_sees_what_weights_miss() -> None:
    """Five jobs of 1000 to 1004 on two machines: somebody runs three."""
    jobs = tuple(
        MatchingJob(f"j{j}", {m: MatchingEntry(time_s=1000.0 + j) for m in ("a", "b")}) for j in range(5)
    )
    instance = MatchingInstance("1", "makespan", (MatchingMachine("a"), MatchingMachine("b")), jobs)
    assert exact_bound(instance, {"a": 1.0, "b": 1.0}) == Fraction(3003)


GAP = b"2  2 3  5 1 4  2 6 3  1 1 2  2 1 1  3 2  1 1 7 1 4"
"""Two problems: two machines and three jobs; one machine and one job."""


def test_the_name_of_a_gap_file_says_its_sense() -> None:
    from apportion.instances.readers import read_text

    first = read_text(GAP, "orlib-gap", 0, None, "gap7")
    assert isinstance(first, MatchingInstance)
    assert first.objective == "value"
    assert first.jobs[1].on["m1"] == MatchingEntry(value=6.0, uses=1)
    assert [machine.capacity for machine in first.machines] == [3, 2]
    assert read_text(GAP, "orlib-gap", 1, None, "gapb").objective == "cost"  # type: ignore[union-attr]
    assert read_text(GAP, "orlib-gap", 1, "max", "gapb").objective == "value"  # type: ignore[union-attr]
    with pytest.raises(apportion.InvalidOption, match="sense"):
        read_text(GAP, "orlib-gap", 0, None, "unnamed")
    with pytest.raises(apportion.InvalidInstance):
        read_text(GAP[:-3], "orlib-gap", 0, "min", "")


def test_assignment_and_makespan_files_are_read() -> None:
    from apportion.instances.readers import read_text

    dense = read_text(b"2\n 3 1\n 2 9\n", "orlib-assign")
    assert apportion.solve(dense).objective == 3.0
    sparse = read_text(b"2\n1 1 3\n2 2 9\n", "orlib-assign")
    assert apportion.solve(sparse).objective == 12.0
    with pytest.raises(apportion.InvalidInstance):
        read_text(b"2\n1 1 3\n1 1 9\n", "orlib-assign")
    makespan = read_text(b"2\n2\n3 1\n2 9\n", "rcmax")
    assert apportion.solve(makespan).objective == 2.0
    paired = read_text(b"2 2\n0 3 1 1\n0 2 1 9\n", "rcmax")
    assert isinstance(paired, MatchingInstance)
    assert paired.jobs == makespan.jobs  # type: ignore[union-attr]


def test_a_throughput_table_becomes_an_hour_of_work_each() -> None:
    from apportion.instances.readers import read_text

    raw = b"""{"k80": {"('A', 1)": {"null": 2.0}, "('B', 2)": {"null": 1.0}},
               "v100": {"('A', 1)": {"null": 4.0}, "('B', 2)": {"null": 0.0}}, "v100_unconsolidated": {}}"""
    instance = read_text(raw, "gavel")
    assert isinstance(instance, MatchingInstance)
    assert instance.divisible
    assert [job.id for job in instance.jobs] == ["A x1", "B x2"]
    assert instance.jobs[0].on["k80"].time_s == 7200.0
    assert list(instance.jobs[1].on) == ["k80"]
    solution = apportion.solve(instance)
    assert solution.termination is apportion.Termination.OPTIMAL
