"""Figures of fairness of a simulated cluster: by hand, by definition, and as the command prints them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from apportion.cli.main import command
from apportion.cluster.policies.names import CLUSTER_POLICIES
from apportion.cluster.policies.rounds.cluster_view import Claims
from apportion.cluster.simulation.rounds.accounts import FairnessAccount, TenantCourse, summarise_fairness
from apportion.cluster.simulation.rounds.job_states import RoundRules, SimulatedJobs
from apportion.cluster.simulation.rounds.scenario import homogeneous
from apportion.cluster.simulation.rounds.simulator import ClusterRun, run_cluster
from apportion.cluster.simulation.rounds.workload_files import (
    DurationLog,
    FixedDurations,
    TenantsFile,
    claims_from,
    durations_known,
    read_claims,
    read_tenants,
)
from apportion.core.errors import InvalidInstance
from apportion.instances.tenants import Quota, Tenant

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "cluster"
TEAMS = ["--profiles", EXAMPLES / "profiles", "--workload", EXAMPLES / "teams.csv", "--nodes", "4"]


def claims(owners: list[str], nodes: int = 2, **tenants: Tenant) -> Claims:
    file = TenantsFile(tuple(tenants.values()) or tuple(Tenant(id=name) for name in sorted(set(owners))))
    ones = np.ones(len(owners))
    return claims_from(file, homogeneous(nodes, 4, "gpu"), owners, ones, ones * np.inf)


def shared(
    policy: str, jobs: list[tuple[float, float, int]], asked: Claims, nodes: int = 2
) -> tuple[ClusterRun, FairnessAccount]:
    machines = homogeneous(nodes, 4, "gpu")
    submitted, duration, gpus = (np.array(column) for column in zip(*jobs, strict=True))
    log = DurationLog(submitted.astype(float), duration.astype(float), gpus.astype(np.int64))
    known = durations_known(log, machines.types)
    account = FairnessAccount(machines, known, log.gpus, asked)
    made = CLUSTER_POLICIES[policy].make(0)
    run = run_cluster(
        made,
        machines,
        SimulatedJobs(FixedDurations(log), log.submitted_s, log.gpus, known, claims=asked),
        RoundRules(restart_s=0.0),
        account=account,
    )
    return run, account


def test_two_jobs_one_after_the_other() -> None:
    # each asks for all 8 GPUs for 120 s: alone with half of the cluster each would run at half its speed
    asked = claims(["a", "b"])
    run, account = shared("fifo", [(0.0, 120.0, 8), (0.0, 120.0, 8)], asked)
    assert run.completed_s.tolist() == [180.0, 300.0]
    # the first ran for 120 s in which both were there: 240 s in isolation
    assert account.isolated_s == pytest.approx([240.0, 120.0])
    assert account.ratios(run.submitted_s, run.completed_s) == pytest.approx([0.75, 2.5])
    figures = summarise_fairness(run, account)
    assert figures.mean_finish_time_ratio == pytest.approx(1.625)
    assert figures.share_above_1 == 0.5
    assert [one.gpu_hours * 3600 for one in figures.tenants] == pytest.approx([960.0, 960.0])
    # from the first decision at 60 s on 4 GPUs were due to each while it was there; b waited for 120 s
    assert [one.due_gpu_hours * 3600 for one in figures.tenants] == pytest.approx([480.0, 960.0])
    assert [one.short_gpu_hours * 3600 for one in figures.tenants] == pytest.approx([0.0, 480.0], abs=1e-9)


def test_jains_index_is_that_of_the_parts_of_what_was_due() -> None:
    held, due = np.array([[4.0, 0.0], [4.0, 4.0], [8.0, 2.0], [0.0, 0.0]]), np.full((4, 2), 4.0)
    due[3] = 0.0
    course = TenantCourse(np.arange(4.0), np.ones(4), held, due, due)
    assert course.jain[:3] == pytest.approx([0.5, 1.0, 1.5**2 / (2 * 1.25)])
    assert np.isnan(course.jain[3])


@pytest.mark.parametrize("policy", ["kueue-tournament", "kai-division"])
def test_a_tenant_gets_its_own_back_from_who_borrowed(policy: str) -> None:
    asked = claims(["a"] * 8 + ["b"] * 4)
    jobs = [(0.0, 3600.0, 1)] * 8 + [(600.0, 600.0, 1)] * 4
    run, account = shared(policy, jobs, asked)
    # b's four jobs come when a holds all: they start at the next round and end on time
    assert run.completed_s[8:].tolist() == [1200.0] * 4
    assert int(run.restarts[:8].sum()) == 12
    assert summarise_fairness(run, account).tenants[1].short_gpu_hours == 0.0
    borrowed, _ = shared("fifo", jobs, asked)
    assert borrowed.completed_s[8:].min() > 3600


def test_hierarchical_water_gives_teams_their_parts() -> None:
    asked = claims(["a"] * 6 + ["b"] * 2)
    jobs = [(0.0, 4800.0, 4)] * 8
    _, account = shared("gavel-hierarchical", jobs, asked)
    course = account.course()
    upto = course.end_s < 4800
    assert course.held[upto].mean(axis=0) == pytest.approx([4.0, 4.0], abs=0.6)
    _, flat = shared("gavel-water-filling", jobs, asked)
    course = flat.course()
    assert course.held[course.end_s < 4800].mean(axis=0) == pytest.approx([6.0, 2.0], abs=0.6)


def test_entitlements_follow_guarantees_or_the_weights_of_the_tree() -> None:
    tree = {
        "org": Tenant(id="org", weight=1.0),
        "a": Tenant(id="a", parent="org", weight=1.0),
        "b": Tenant(id="b", parent="org", weight=2.0),
        "c": Tenant(id="c", weight=1.0),
    }
    by_weight = claims(["a", "b", "c"], **tree)
    assert by_weight.tenants == ("c", "a", "b")
    assert by_weight.share == pytest.approx([1 / 2, 1 / 6, 1 / 3])
    assert by_weight.entitled[:, 0].tolist() == [4, 1, 3]
    tree["c"] = Tenant(id="c", quotas={"gpu": Quota(guarantee=5)})
    assert claims(["a", "b", "c"], **tree).entitled[:, 0].tolist() == [5, 0, 0]


def test_wrong_tenants_are_named(tmp_path: Path) -> None:
    nodes = homogeneous(2, 4, "gpu")
    workload = tmp_path / "jobs.csv"
    workload.write_text("name,time,tenant,deadline_s\nx,0,vison,-4\n")
    tenants = tmp_path / "tenants.json"
    tenants.write_text('{"tenants": [{"id": "vision"}], "first_come": ["visio"], "gpu_cost": {"tpu": 1}}')
    with pytest.raises(InvalidInstance) as caught:
        read_tenants(tenants, nodes)
    assert [problem.path for problem in caught.value.problems] == ["$.first_come[0]", "$.gpu_cost.tpu"]
    tenants.write_text('{"tenants": [{"id": "vision"}]}')
    with pytest.raises(InvalidInstance) as caught:
        read_claims(workload, tenants, nodes, np.zeros(1))
    said = "\n".join(problem.message for problem in caught.value.problems)
    assert "did you mean 'vision'" in said
    assert "deadline_s must be a positive number, is '-4'" in said
    workload.write_text("name,time\nx,0\n")
    assert read_claims(workload, None, nodes, np.zeros(1)) is None


def test_the_command_reports_and_draws_how_teams_shared(tmp_path: Path) -> None:
    words = [*TEAMS, "--tenants", EXAMPLES / "tenants.json", "--policy", "kueue-tournament"]
    picture = tmp_path / "shared.svg"
    done = CliRunner().invoke(command, ["simulate", *map(str, words), "--plot", str(picture), "--json"])
    assert done.exit_code == 0, done.output
    fairness = json.loads(done.stdout)["fairness"]
    assert [one["tenant"] for one in fairness["tenants"]] == ["language", "speech", "vision"]
    assert sum(one["gpu_hours"] for one in fairness["tenants"]) == pytest.approx(
        json.loads(done.stdout)["gpu_hours"]
    )
    assert 0 < fairness["share_above_1"] <= 1
    assert fairness["worst_finish_time_ratio"] >= fairness["mean_finish_time_ratio"]
    drawn = picture.read_text()
    assert "Jain" in drawn
    assert "language" in drawn
    words[-1] = "fifo"
    text = CliRunner().invoke(command, ["simulate", *map(str, words)]).output
    assert "jain_tenants" in text
    assert "due_gpu_hours" in text
