"""Gap filling and freezing with tenants: our engines and a general solver agree, and it checks."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

import apportion
from apportion.core.errors import InvalidInstance
from apportion.instances.freezing.generator import generate as freezing
from apportion.instances.gap_filling.generator import generate as gap_filling
from apportion.instances.tenants import Fairness, Quota, Tenant
from apportion.io.stored import document, verify


def owned(instance: Any, capacity: str, total: int, **fairness: Any) -> Any:
    """Return an instance whose jobs belong to two teams in turn."""
    quota = Quota(total // 3, total // 4, total // 6)
    tenants = (Tenant("lab"), Tenant("a", "lab", 2.0, quotas={capacity: quota}), Tenant("b", "lab"))
    jobs = tuple(
        replace(job, tenant="ab"[place % 2], stop_cost=3.0) for place, job in enumerate(instance.jobs)
    )
    return replace(instance, tenants=tenants, jobs=jobs, fairness=Fairness(**fairness))


@pytest.mark.one_in(5)
@pytest.mark.parametrize("share", ["dominant_share", "normalised_throughput"])
@pytest.mark.parametrize("over", ["tenants", "jobs"])
@pytest.mark.parametrize("kind", ["gap_filling", "freezing"])
def test_two_roads_agree(kind: str, over: str, share: str) -> None:
    plain = (
        gap_filling(3, jobs=4, nodes=10, max_nodes=6, decided_ago_s=900)
        if kind == "gap_filling"
        else replace(freezing(5, 4, {"v100": 8}, depths=3), gpus_per_node={})
    )
    capacity, total = ("idle_nodes", 10) if kind == "gap_filling" else ("v100", 8)
    instance = owned(plain, capacity, total, over=over, share=share)
    # no limit: at one a level is what was found by then, and the roads are not as fast as each other
    ours = apportion.solve(instance, time_limit=None)
    other = apportion.solve(instance, "highs", time_limit=None)
    assert ours.termination.value == other.termination.value == "optimal"
    assert ours.objective == pytest.approx(other.objective, rel=1e-9)
    assert [level.share for level in ours.levels] == pytest.approx([level.share for level in other.levels])
    verification = verify(instance, document(ours))
    assert verification.ok, verification.checks


def test_a_job_that_may_not_be_stopped_keeps_its_nodes() -> None:
    plain = gap_filling(3, jobs=4, nodes=10, max_nodes=6, decided_ago_s=900)
    running = next(job for job in plain.jobs if len(job.current_nodes) >= job.min_nodes)
    tenants = (Tenant("a"), Tenant("b", weight=5.0))
    jobs = tuple(
        replace(job, tenant="a", preemptible=False) if job is running else replace(job, tenant="b")
        for job in plain.jobs
    )
    instance = replace(plain, tenants=tenants, jobs=jobs, fairness=Fairness())
    plan = apportion.solve(instance).require()["allocation"]
    assert len(plan[running.id]) == len(running.current_nodes)


def _matching(**fields: Any) -> dict[str, Any]:
    """Return two jobs of one tenant on a pool with room and one without."""
    entry = {"cost": 1.0, "time_s": 2.0}
    jobs = [{"id": name, "tenant": "a", "on": {"v100": dict(entry), "cpu": dict(entry)}} for name in "xy"]
    return {
        "kind": "matching",
        "schema_version": "1",
        "objective": "cost",
        "machines": [{"id": "v100", "count": 2, "capacity": 3}, {"id": "cpu"}],
        "jobs": jobs,
        "tenants": [{"id": "a", "quotas": {"v100": {"guarantee": 6}}}],
        "fairness": {},
        **fields,
    }


def _without_times(told: dict[str, Any]) -> None:
    told["fairness"]["share"] = "normalised_throughput"
    del told["jobs"][1]["on"]["cpu"]["time_s"]


@pytest.mark.parametrize(
    ("change", "path", "said"),
    [
        (lambda t: t["tenants"][0]["quotas"]["v100"].update(guarantee=7), "$.tenants", "there are 6"),
        (
            lambda t: t["tenants"][0]["quotas"].update(cpu={"guarantee": 1}),
            "$.tenants[0].quotas.cpu",
            "has no capacity, so that there is nothing to guarantee",
        ),
        (
            lambda t: t["jobs"][1].update(stop_cost=1.0),
            "$.jobs[1].stop_cost",
            "no job of a matching runs already",
        ),
        (_without_times, "$.jobs[1].on.cpu.time_s", "normalised_throughput counts 1 / time_s"),
        (
            lambda t: t.update(objective="makespan", fairness={"share": "finish_time_ratio"}),
            "$.jobs[0].finish",
            "is missing",
        ),
        (lambda t: t.update(objective="makespan", divisible=True), "$.machines[0].capacity", "must be null"),
    ],
)
def test_what_makes_no_sense_for_tenants_of_a_matching_names_its_field(
    change: Any, path: str, said: str
) -> None:
    told = _matching()
    apportion.read(told)
    change(told)
    with pytest.raises(InvalidInstance) as raised:
        apportion.read(told)
    messages = {problem.path: problem.message for problem in raised.value.problems}
    assert said in messages[path]


def test_a_makespan_of_tenants_has_no_gangs_and_no_finish_times() -> None:
    told = _matching(objective="makespan")
    told["jobs"][0]["on"]["v100"]["gpus"] = 2
    told["fairness"] = {"share": "finish_time_ratio"}
    for job in told["jobs"]:
        job["finish"] = {"elapsed_s": 0.0, "remaining": 1.0, "isolated_s": 2.0}
    with pytest.raises(InvalidInstance) as raised:
        apportion.read(told)
    assert {problem.path for problem in raised.value.problems} == {
        "$.fairness.share",
        "$.jobs[0].on.v100.gpus",
    }


def test_finish_time_ratios_of_a_matching_follow_from_its_times() -> None:
    told = _matching(machines=[{"id": "v100", "capacity": 1}, {"id": "cpu"}], tenants=[{"id": "a"}])
    told["fairness"] = {"share": "finish_time_ratio", "over": "jobs"}
    for job in told["jobs"]:
        job["on"]["cpu"]["time_s"] = 4.0
        job["finish"] = {"elapsed_s": 2.0, "remaining": 1.0, "isolated_s": 4.0}
    solution = apportion.solve(apportion.read(told))
    assert sorted(level.share for level in solution.levels) == pytest.approx([4 / 6, 1.0])


def test_a_job_keeps_its_nodes_until_it_has_run_for_the_least_time_of_its_tenant() -> None:
    """The nearest tenant that says decides; who has run as long as that may be stopped."""
    plain = gap_filling(3, jobs=4, nodes=10, max_nodes=6, decided_ago_s=900)
    running = next(job for job in plain.jobs if len(job.current_nodes) >= job.min_nodes)

    def nodes_after(ran_s: float, least: dict[str, float]) -> int:
        """Return how many nodes the running job has beside others that are worth far more."""
        tenants = (Tenant("org", min_run_s=60.0), Tenant("a", parent="org", **least), Tenant("b"))
        jobs = tuple(
            replace(job, tenant="a", running_s=ran_s, weight=1e-6)
            if job is running
            else replace(job, tenant="b", min_nodes=1, max_nodes=10, weight=1e6, scaling=long)
            for job in plain.jobs
        )
        solution = apportion.solve(replace(plain, tenants=tenants, jobs=jobs))
        assert verify(solution.instance, document(solution)).ok
        return len(solution.require()["allocation"].get(running.id, ()))

    long = replace(running.scaling, nodes=(0, 10), rate=(0.0, 1e4))
    now = len(running.current_nodes)
    assert nodes_after(59.0, {}) == now and nodes_after(60.0, {}) == 0
    assert nodes_after(59.0, {"min_run_s": 10.0}) == 0 and nodes_after(9.0, {"min_run_s": 10.0}) == now
    with pytest.raises(apportion.InvalidInstance, match="min_run_s"):
        nodes_after(9.0, {"min_run_s": -1.0})
