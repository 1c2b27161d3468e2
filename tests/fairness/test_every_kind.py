"""Gap filling and freezing with tenants: our engines and a general solver agree, and it checks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import apportion
from apportion.errors import InvalidInstance
from apportion.instances.freezing.generator import generate as freezing
from apportion.instances.gap_filling.generator import generate as gap_filling
from apportion.instances.tenants import Fairness, Quota, Tenant
from apportion.stored import document, verify


def owned(instance: Any, capacity: str, total: int, **fairness: Any) -> Any:
    """Return an instance whose jobs belong to two teams in turn."""
    quota = Quota(total // 3, total // 4, total // 6)
    tenants = (Tenant("lab"), Tenant("a", "lab", 2.0, quotas={capacity: quota}), Tenant("b", "lab"))
    jobs = tuple(
        replace(job, tenant="ab"[place % 2], stop_cost=3.0) for place, job in enumerate(instance.jobs)
    )
    return replace(instance, tenants=tenants, jobs=jobs, fairness=Fairness(**fairness))


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
    ours = apportion.solve(instance, time_limit=30.0)
    other = apportion.solve(instance, "highs", time_limit=30.0)
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


def test_a_matching_says_why_it_has_no_tenants(tmp_path: Path, root: Path) -> None:
    document = json.loads((root / "examples/matching_assignment.json").read_text())
    document["tenants"] = [{"id": "a"}]
    document["jobs"][0]["tenant"] = "a"
    path = tmp_path / "round.json"
    path.write_text(json.dumps(document))
    with pytest.raises(InvalidInstance) as raised:
        apportion.read(path)
    told = {problem.path: problem.message for problem in raised.value.problems}
    assert set(told) == {"$.tenants", "$.jobs[0].tenant"}
    assert all("is not known to matchings" in message for message in told.values())
