"""Relaxations over the entries near good weights or prices, beside those over all entries."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

import apportion
from apportion.formulations.matching.by_machine import MatchingByMachine
from apportion.instances.matching.generator import generate_cluster, generate_unrelated
from apportion.models.assignment import Assignment
from apportion.models.assignment_bounds import filtered_work, pooled
from apportion.models.lowering import lower_assignment
from apportion.solvers.assignment.mip import Relaxation, relax
from apportion.solvers.makespan import least_makespan
from apportion.solvers.search.assignment_tree import available

POOLS = {f"pool {i}": 4 * (1 + i % 3) for i in range(12)}


def _model(kind: str, seed: int) -> Assignment:
    if kind == "gangs":
        return MatchingByMachine(generate_cluster(seed, 300, POOLS)).model
    correlated: Literal["no", "jobs", "machines"] = kind  # type: ignore[assignment]
    return MatchingByMachine(generate_unrelated(seed, 300, 60, correlated=correlated)).model


@pytest.mark.parametrize("kind", ["no", "jobs", "machines", "gangs"])
def test_a_makespan_of_near_entries_is_relaxed_as_that_of_all(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = _model(kind, 5)
    monkeypatch.setattr(least_makespan, "_MANY", model.num_options)
    every = least_makespan.relaxed(model)
    full = relax(lower_assignment(model).model)
    assert isinstance(full, Relaxation)
    assert every.longest == full.objective
    monkeypatch.setattr(least_makespan, "_MANY", 0)
    near = least_makespan.relaxed(model)
    assert near.point is not None
    assert (np.add.reduceat(near.point > 0, model.offsets[:-1]) <= 8).all()
    assert np.allclose(np.add.reduceat(near.point, model.offsets[:-1]), 1.0)
    assert full.objective <= near.longest * (1 + 1e-9) <= full.objective * 1.02
    least = full.objective * (0.85 if kind == "machines" else 0.97)
    assert least <= filtered_work(model, pooled(model, near.weights))


def test_a_job_may_have_one_entry_and_all_entries_may_take_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(least_makespan, "_MANY", 0)
    machine, offsets = np.array([0, 0, 1, 1]), np.array([0, 1, 3, 4])
    for times, least in (([3.0, 2.0, 4.0, 1.0], 5.0), ([0.0] * 4, 0.0), ([1e9, 1.0, 1.0, 1e-3], 1e9)):
        model = Assignment.from_arrays("makespan", np.array(times), machine, offsets, 2)
        near = least_makespan.relaxed(model)
        assert near.point is not None
        assert np.isfinite(near.weights).all()
        assert model.objective(least_makespan.rounded(model, near.point, near.longest)) == least


@pytest.mark.skipif(not available(), reason="the tree of machines in Python takes minutes")
def test_two_thousand_jobs_on_a_hundred_machines_end_near_their_bound() -> None:
    solution = apportion.solve(
        generate_unrelated(4, 2_000, 100, correlated="machines"), work_limit=60, deterministic=True
    )
    assert solution.objective is not None
    assert solution.bound is not None
    assert solution.objective <= 1.03 * solution.bound
