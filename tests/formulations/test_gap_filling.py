"""Both formulations of gap filling against each other, against enumeration, and the published big-M."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import apportion
from apportion.core.outcome import Termination
from apportion.formulations.gap_filling.by_count import GapFillingByCount, complete
from apportion.formulations.gap_filling.by_node import GapFillingByNode
from apportion.instances import GapFillingInstance, GapFillingJob, ScalingCurve
from tests.budgets import examples
from tests.strategies import gap_filling_instances


@given(gap_filling_instances(max_jobs=3, max_nodes=6, pins=True))
@settings(max_examples=examples(150))
def test_by_count_equals_the_published_milp_by_node(instance: GapFillingInstance) -> None:
    from apportion.core.options import SolveOptions
    from apportion.solvers.general.highs import solve as highs

    counted = apportion.solve(instance)
    formulation = GapFillingByNode(instance)
    outcome = highs(formulation.model, SolveOptions(), None)
    if counted.plan is None:
        assert outcome.termination is Termination.INFEASIBLE
        return
    assert outcome.point is not None
    plan = formulation.plan(outcome.point)
    report = apportion.check(instance, plan)
    assert report.feasible, report.violations
    assert report.objective == pytest.approx(counted.objective, rel=1e-6, abs=1e-6)


@given(gap_filling_instances(pins=True))
@settings(max_examples=examples(200))
def test_a_plan_is_a_feasible_point_of_the_milp(instance: GapFillingInstance) -> None:
    solution = apportion.solve(instance)
    if solution.plan is None:
        return
    formulation = GapFillingByNode(instance)
    point = formulation.point(solution.plan)
    assert point is not None
    report = formulation.model.check(point)
    assert report.feasible, report.violations
    assert report.objective == pytest.approx(solution.objective, rel=1e-9, abs=1e-9)
    assert formulation.plan(point)["allocation"].keys() == solution.plan["allocation"].keys()


@given(gap_filling_instances(), st.randoms(use_true_random=False))
@settings(max_examples=examples(200))
def test_any_counts_that_fit_complete_without_migration(instance: GapFillingInstance, random) -> None:  # type: ignore[no-untyped-def]
    formulation = GapFillingByCount(instance)
    knapsack = formulation.model
    choice = np.array(
        [
            random.randrange(start, stop)
            for start, stop in zip(knapsack.offsets[:-1].tolist(), knapsack.offsets[1:].tolist(), strict=True)
        ],
        dtype=np.int64,
    )
    if not knapsack.check(choice).feasible:
        return
    plan = {"allocation": complete(instance, formulation.counts[choice].tolist())}
    report = apportion.check(instance, plan)
    assert report.feasible, report.violations
    assert report.objective == pytest.approx(knapsack.objective(choice), rel=1e-9, abs=1e-9)
    rows = formulation.choice(plan)
    assert rows is not None
    assert (rows == choice).all()


@pytest.mark.parametrize(("idle", "published"), [(4, 2), (10, 5), (20, 10), (64, 32)])
def test_the_published_big_m_halves_the_reachable_change(idle: int, published: int) -> None:
    """One new job on N idle nodes gets at most (N + 1) / 2 of them under the published big-M."""
    curve = ScalingCurve((0, 64), (0.0, 64.0))
    job = GapFillingJob("j0", 1, 64, curve, 18.0, 12.0)
    instance = GapFillingInstance("1", 120.0, tuple(f"n{i}" for i in range(idle)), (job,))
    corrected = apportion.solve(instance, formulation="by_node", time_limit=60)
    restricted = apportion.solve(instance, formulation="by_node_published", time_limit=60)
    assert len(corrected.require()["allocation"]["j0"]) == idle
    assert len(restricted.require()["allocation"]["j0"]) == published
    assert restricted.termination is Termination.SOLUTION_LIMIT
    assert "restricts" in " ".join(restricted.notes)


def test_a_job_that_lost_nodes_below_its_minimum_starts_again_for_free() -> None:
    curve = ScalingCurve((0, 4), (0.0, 40.0))
    job = GapFillingJob("j0", 3, 4, curve, 1000.0, 1000.0, current_nodes=("a", "b"))
    instance = GapFillingInstance("1", 10.0, ("a", "b", "c", "d"), (job,))
    solution = apportion.solve(instance)
    assert solution.objective == pytest.approx(400.0)


def test_keeping_is_better_than_growing_when_the_stall_costs_more() -> None:
    curve = ScalingCurve((0, 1, 2), (0.0, 10.0, 11.0))
    job = GapFillingJob("j0", 1, 2, curve, 18.0, 12.0, current_nodes=("b",))
    instance = GapFillingInstance("1", 60.0, ("a", "b"), (job,))
    assert apportion.solve(instance).plan == {"allocation": {"j0": ["b"]}}
