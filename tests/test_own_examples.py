"""The policies and the formulation of ``examples/own`` keep the rules, and are right by another road."""

from __future__ import annotations

import runpy
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import apportion
from apportion.cluster.policies import GapFillingView, check_plan
from apportion.cluster.policies.rounds.cluster_view import ClusterPlan, ClusterView, check_cluster_plan
from apportion.cluster.simulation.rounds.job_states import SimulatedJobs
from apportion.cluster.simulation.rounds.scenario import homogeneous
from apportion.cluster.simulation.rounds.simulator import run_cluster
from apportion.cluster.simulation.rounds.workload_files import DurationLog, FixedDurations, durations_known
from apportion.core.options import SolveOptions
from apportion.instances import GapFillingInstance
from apportion.solvers.general.highs import solve as highs
from tests.budgets import examples
from tests.strategies import gap_filling_instances

OWN = Path(__file__).resolve().parent.parent / "examples" / "own"


def own(name: str) -> dict[str, Any]:
    """Return what a file of the folder defines."""
    return runpy.run_path(str(OWN / name))


FORMULATION = own("formulation.py")["GapFillingByIncrement"]


@given(gap_filling_instances(max_jobs=4, max_nodes=6))
@settings(max_examples=60)
def test_by_increment_equals_by_count(instance: GapFillingInstance) -> None:
    formulation = FORMULATION(instance)
    outcome = highs(formulation.model, SolveOptions(), None)
    report = apportion.check(instance, formulation.plan(outcome.point))
    assert report.feasible, report.violations
    assert report.objective == pytest.approx(apportion.solve(instance).objective, rel=1e-6, abs=1e-6)


@given(gap_filling_instances())
@settings(max_examples=examples(60))
def test_a_plan_survives_the_round_trip(instance: GapFillingInstance) -> None:
    plan = apportion.solve(instance).require()
    formulation = FORMULATION(instance)
    point = formulation.point(plan)
    report = formulation.model.check(point)
    assert report.feasible, report.violations
    assert report.objective == pytest.approx(apportion.check(instance, plan).objective, rel=1e-9, abs=1e-9)
    assert apportion.check(instance, formulation.plan(point)).feasible


def random_view(rng: np.random.Generator, jobs: int = 3, nodes: int = 7) -> GapFillingView:
    low = rng.integers(1, 3, jobs)
    high = low + rng.integers(0, 4, jobs)
    holder = rng.integers(-1, jobs, nodes)
    for job in range(jobs):
        holder[np.flatnonzero(holder == job)[high[job] :]] = -1
    return GapFillingView(
        time_s=0.0,
        jobs=np.arange(jobs),
        rates=np.hstack((np.zeros((jobs, 1)), np.cumsum(rng.random((jobs, 7)), axis=1))),
        min_nodes=low,
        max_nodes=high,
        up_s=np.full(jobs, 18.0),
        down_s=np.full(jobs, 12.0),
        remaining=np.full(jobs, 1e6),
        nodes=np.arange(nodes),
        holder=holder,
        idle_since_s=np.zeros(nodes),
        departed_after_s=np.zeros(0),
        waiting=0,
        measured=np.full(jobs, np.nan),
    )


@pytest.mark.parametrize("seed", range(20))
def test_the_fair_plan_is_the_fairest_of_all(seed: int) -> None:
    view = random_view(np.random.default_rng(seed))
    counts = check_plan(view, own("gap_filling_policy.py")["ProportionalFair"](stay=0.0)(view))

    def fairness(shares: tuple[int, ...]) -> float:
        alone = view.rates[np.arange(view.num_jobs), view.min_nodes]
        return float(np.log1p(view.rates[np.arange(view.num_jobs), list(shares)] / alone).sum())

    menus = [(0, *range(low, high + 1)) for low, high in zip(view.min_nodes, view.max_nodes, strict=True)]
    best = max(fairness(shares) for shares in product(*menus) if sum(shares) <= view.nodes.size)
    assert fairness(tuple(counts.tolist())) == pytest.approx(best)


def test_least_attained_service_keeps_the_rules_and_leaves_no_gpu_idle_that_somebody_fits() -> None:
    policy = own("cluster_policy.py")["least_attained_service"]
    rng = np.random.default_rng(0)
    log = DurationLog(np.sort(rng.uniform(0, 9e3, 40)), rng.uniform(60, 6e3, 40), rng.choice([1, 2, 4], 40))
    nodes = homogeneous(2, 4, "gpu")

    def observe(view: ClusterView, plan: ClusterPlan) -> None:
        check_cluster_plan(view, plan)
        taken = [len(held) for held in plan.nodes]
        assert set(zip(taken, view.requested_gpus.tolist(), strict=True)) <= {
            (got, wanted) for wanted in (1, 2, 4) for got in (0, wanted)
        }
        left = view.nodes.total_gpus - sum(taken)
        assert all(wanted > left for got, wanted in zip(taken, view.requested_gpus, strict=True) if not got)

    run = run_cluster(
        policy,
        nodes,
        SimulatedJobs(FixedDurations(log), log.submitted_s, log.gpus, durations_known(log, nodes.types)),
        observe=observe,
    )
    assert np.isfinite(run.completed_s).all()
