"""The local search over pools counts its schedules, so that a work limit ends it where no clock does."""

from __future__ import annotations

import numpy as np
import pytest

import apportion
from apportion.instances import MatchingEntry, MatchingInstance, MatchingJob, MatchingMachine
from apportion.models.assignment import Assignment
from apportion.solvers.makespan import by_pools


def _gangs(jobs: int, seed: int) -> MatchingInstance:
    rng = np.random.default_rng(seed)
    sizes = rng.choice([2, 4, 8], jobs)
    times = rng.uniform(1.0, 50.0, (jobs, 3))
    return MatchingInstance(
        "1",
        "makespan",
        tuple(MatchingMachine(str(pool), count=8) for pool in range(3)),
        tuple(
            MatchingJob(
                f"j{job}",
                {
                    str(pool): MatchingEntry(time_s=float(times[job, pool]), gpus=int(sizes[job]))
                    for pool in range(3)
                },
            )
            for job in range(jobs)
        ),
    )


def test_no_schedule_is_made_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    made, asked = 0, 0
    pack = by_pools.pack

    def counted(*given: object) -> object:
        nonlocal made
        made += 1
        return pack(*given)  # type: ignore[arg-type]

    def over(makespan: float) -> bool:
        nonlocal asked
        asked += 1
        return asked > 50

    monkeypatch.setattr(by_pools, "pack", counted)
    rng = np.random.default_rng(3)
    time = rng.uniform(1.0, 50.0, (40, 3))
    machine, offsets = np.tile(np.arange(3), 40), np.arange(0, 121, 3)
    model = Assignment.from_arrays("makespan", time.ravel(), machine, offsets, 3, gpus=2, counts=8)
    by_pools.rearranged(model, model.rows()[:, 0].copy(), 0, over)
    # one schedule on either pool after every question, no more
    assert 0 < made <= 2 * 51


def test_a_work_limit_ends_a_deterministic_search_of_gangs() -> None:
    instance = _gangs(60, 1)
    few, more = (
        apportion.solve(instance, deterministic=True, time_limit=None, work_limit=work) for work in (5, 400)
    )
    again = apportion.solve(instance, deterministic=True, time_limit=None, work_limit=400)
    assert few.objective is not None
    assert more.objective is not None
    assert more.objective <= few.objective
    assert again.require() == more.require()
    assert few.termination.value == more.termination.value == "node_limit"


def test_a_search_whose_work_is_over_asks_no_general_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*_: object) -> None:
        raise AssertionError("CP-SAT has work of its own, which the limit does not count")

    monkeypatch.setattr("apportion.solvers.makespan.by_pools.solve", asked)
    solution = apportion.solve(_gangs(20, 1), deterministic=True, time_limit=None, work_limit=50)
    assert solution.termination.value == "node_limit"
    assert solution.require()
