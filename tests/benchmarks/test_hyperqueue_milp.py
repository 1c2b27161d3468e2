"""HyperQueue's model of batches beside our search: the same optimum, and a plan of single tasks."""

from __future__ import annotations

import pytest
from benchmarks.peers.hyperqueue_milp import solve
from benchmarks.peers.task import CannotTake, Limits, Task
from benchmarks.suite.making import make

import apportion


@pytest.mark.parametrize("seed", range(6))
def test_batches_have_the_optimum_of_single_tasks(seed: int) -> None:
    instance = make("tasks", {"shapes": 3, "each": 3, "workers": 2, "seed": seed}, None)
    task = Task(instance)
    peer = solve(task, Limits(60.0, 0.0, 1, 0))
    assert peer.x is not None and peer.termination.value == "optimal"
    report = apportion.check(instance, task.plan(peer.x))
    assert report.feasible and report.objective == pytest.approx(peer.objective, rel=1e-9)
    assert report.objective == apportion.solve(instance).objective


def test_tasks_of_which_no_two_are_alike_are_not_taken() -> None:
    task = Task(make("tasks", {"shapes": 4, "each": 1, "workers": 2, "seed": 1}, None))
    with pytest.raises(CannotTake, match="alike"):
        solve(task, Limits(1.0, 0.0, 1, 0))
