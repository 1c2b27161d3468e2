"""Among equal optima nobody is stopped, then nobody moved, whom some optimum keeps: against enumeration."""

from __future__ import annotations

import itertools
from random import Random
from typing import Any

import pytest

import apportion


def round_of(seed: int, capacities: int, tenants: bool) -> Any:
    """Return jobs alike in a few classes, of which some run."""
    rng = Random(f"keep {seed} {capacities} {tenants}")
    names = [f"c{k}" for k in range(capacities)]
    classes = [
        [
            {
                "id": f"o{k}",
                "value": float(rng.randint(1, 3)),
                "uses": {name: rng.randint(0, 3) for name in names},
            }
            for k in range(rng.randint(1, 2))
        ]
        for _ in range(2)
    ]
    jobs: list[dict[str, Any]] = []
    for k in range(6):
        menu = rng.choice(classes)
        jobs.append({"id": f"j{k}", "required": False, "options": menu})
        if rng.random() < 0.5:
            jobs[-1]["current"] = rng.choice(menu)["id"]
        if tenants:
            jobs[-1]["tenant"] = rng.choice("ab")
    document = {"kind": "multiple_choice_knapsack", "schema_version": "1", "sense": "maximize", "jobs": jobs}
    document["capacities"] = {name: rng.randint(3, 8) for name in names}
    if tenants:
        quota = {names[0]: {"guarantee": 0, "borrowing_limit": rng.randint(2, 6)}}
        document["tenants"] = [{"id": "a", "quotas": quota}, {"id": "b"}]
    return apportion.read(document)


def ranked(instance: Any, plan: Any) -> tuple[float, int, int]:
    """Return what a plan is worth, how many running jobs it keeps running, and how many where they are."""
    report = apportion.check(instance, plan)
    if not report.feasible or report.objective is None:
        return (-1.0, 0, 0)
    has = {job.id: job.current for job in instance.jobs if job.current is not None}
    choice = {name: got for name, got in plan["choice"].items() if got is not None}
    return (
        report.objective,
        sum(name in choice for name in has),
        sum(choice.get(n) == got for n, got in has.items()),
    )


def best(instance: Any) -> tuple[float, int, int]:
    menus = [[None, *(one.id for one in job.options)] for job in instance.jobs]
    names = [job.id for job in instance.jobs]
    plans = ({"choice": dict(zip(names, got, strict=True))} for got in itertools.product(*menus))
    return max(ranked(instance, plan) for plan in plans)


@pytest.mark.parametrize("tenants", [False, True])
@pytest.mark.parametrize("capacities", [1, 2, 3, 4])
@pytest.mark.parametrize("seed", range(6))
def test_no_job_is_stopped_or_moved_that_some_optimum_keeps(
    seed: int, capacities: int, tenants: bool
) -> None:
    """Jobs were given back one by one: an exchange of two was never seen, 41 of 80 were stopped."""
    instance = round_of(seed, capacities, tenants)
    solution = apportion.solve(instance, time_limit=60.0)
    assert ranked(instance, solution.require()) == best(instance)


@pytest.mark.parametrize("backend", ["highs", "cp-sat"])
def test_general_solvers_keep_what_runs_too(backend: str) -> None:
    for seed in range(4):
        instance = round_of(seed, 2, tenants=False)
        solution = apportion.solve(instance, backend=backend, time_limit=120.0)
        assert ranked(instance, solution.require()) == best(instance)


@pytest.mark.parametrize("backend", ["exact", "highs"])
def test_ctrl_c_while_ties_are_looked_at_keeps_the_optimum(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    instance = round_of(3, 2, tenants=False)
    free = apportion.solve(instance)
    monkeypatch.setattr("apportion.solvers.least_change.least_change", interrupted)
    solution = apportion.solve(instance, backend=backend)
    assert (solution.termination.value, solution.objective) == ("interrupted", free.objective)
