"""Gangs on pools whose machines have a capacity: what is chosen must also fit machine by machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import apportion


def _instance(seed: int, gangs: int) -> dict[str, Any]:
    """Thirty machines of which each has room for a gang's part and one job more, or for two jobs."""
    rng = np.random.default_rng(seed)
    jobs = [
        {"id": f"{name}{k}", "on": {"pool": {"time_s": float(time), "uses": uses, "gpus": gpus}}}
        for name, uses, gpus, count in (("gang", 5, 3, gangs), ("job", 4, 1, 25))
        for k, time in enumerate(rng.integers(100, 900, count))
    ]
    machines = [{"id": "pool", "count": 30, "capacity": 9}]
    return {
        "kind": "matching",
        "schema_version": "1",
        "objective": "makespan",
        "machines": machines,
        "jobs": jobs,
    }


@pytest.mark.parametrize("backend", ["auto", "highs"])
@pytest.mark.parametrize("seed", range(2))
def test_gangs_are_packed_by_their_uses_where_times_would_overfill_machines(seed: int, backend: str) -> None:
    """Gangs were chosen as if they used one machine and packed by times alone: 10 of 9, and no plan."""
    instance = apportion.read(_instance(seed, 9))
    solution = apportion.solve(instance, backend, time_limit=5.0)
    assert solution.plan is not None, solution.notes
    report = apportion.check(instance, solution.plan)
    assert report.feasible and report.objective == solution.objective
    assert solution.bound is not None and solution.objective is not None
    longest = max(job["on"]["pool"]["time_s"] for job in _instance(seed, 9)["jobs"])
    assert longest <= solution.bound <= solution.objective <= 2 * 900


def test_more_gangs_than_machines_have_room_for_are_no_choice() -> None:
    """Twenty-one gangs of three use 315 of the 270 that thirty machines hold: their sum shows it."""
    instance = apportion.read(_instance(0, 21))
    solution = apportion.solve(instance, "highs", time_limit=5.0)
    assert solution.termination is apportion.Termination.INFEASIBLE, solution.notes
