"""The listing of a matching decides nothing; pools stay small and quick; more machines never hurt."""

from __future__ import annotations

import json
import time
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import apportion
from apportion.formulations.matching.by_machine import MatchingByMachine
from apportion.instances import MatchingEntry, MatchingInstance, MatchingJob, MatchingMachine
from apportion.instances.matching.generator import generate_assignment, generate_cluster, generate_unrelated
from tests.budgets import examples
from tests.strategies import matchings
from tests.test_api import assert_certified


def shuffled(instance: MatchingInstance, seed: int) -> MatchingInstance:
    rng = np.random.default_rng(seed)
    jobs = []
    for job in instance.jobs:
        names = list(job.on)
        jobs.append(
            msgspec.structs.replace(job, on={names[i]: job.on[names[i]] for i in rng.permutation(len(names))})
        )
    return msgspec.structs.replace(
        instance,
        jobs=tuple(jobs[i] for i in rng.permutation(len(jobs))),
        machines=tuple(instance.machines[i] for i in rng.permutation(len(instance.machines))),
    )


def told(instance: MatchingInstance, **options: Any) -> str:
    """Return everything a deterministic solve says, but for its times."""
    solution = apportion.solve(instance, deterministic=True, **options)
    certificate = solution.certificate
    said = [solution.objective, solution.bound, certificate.verified_bound, certificate.multipliers]
    return json.dumps([solution.plan, *said, solution.termination.value], sort_keys=True)


@given(matchings(), st.integers(0, 99))
@settings(max_examples=examples(150))
def test_the_order_of_jobs_and_machines_changes_no_byte(instance: MatchingInstance, seed: int) -> None:
    assert told(instance, work_limit=20) == told(shuffled(instance, seed), work_limit=20)


@pytest.mark.parametrize("backend", ["auto", "highs", "cp-sat", "scip"])
def test_ties_of_larger_matchings_do_not_follow_the_listing(backend: str) -> None:
    for instance in (
        generate_assignment(1, 12, 3),
        generate_unrelated(2, 12, 3, 1, 6),
        MatchingInstance(
            "1",
            "cost",
            tuple(MatchingMachine(f"m{i}", capacity=1) for i in range(9)),
            tuple(
                MatchingJob(f"j{j}", {f"m{i}": MatchingEntry(cost=float((i + j) % 2)) for i in range(9)})
                for j in range(9)
            ),
        ),
    ):
        first = told(instance, backend=backend, work_limit=4)
        assert all(
            told(shuffled(instance, seed), backend=backend, work_limit=4) == first for seed in range(3)
        )


@pytest.mark.slow
def test_ten_thousand_jobs_on_five_pools_are_a_small_model() -> None:
    instance = generate_cluster(3, 10_000, {f"gpu{i}": 500 for i in range(5)})
    model = MatchingByMachine(instance).model
    assert model.num_machines == 5
    assert model.num_options <= 50_000
    began = time.process_time()
    solution = apportion.solve(instance, time_limit=20.0)
    assert time.process_time() - began < 15.0
    assert solution.plan is not None
    assert solution.gap is not None
    assert solution.gap < 0.02
    assert_certified(solution)


@given(st.integers(0, 10_000))
@settings(max_examples=examples(20), deadline=None)
def test_one_more_machine_in_a_pool_never_hurts(seed: int) -> None:
    """Single GPUs are proven optimal, so the optimum with more machines ends no later."""
    instance = generate_cluster(seed, 7, {"a": 2, "b": 1}, wide=0.0)
    first = apportion.solve(instance, time_limit=None)
    more = msgspec.structs.replace(
        instance, machines=tuple(msgspec.structs.replace(m, count=m.count + 1) for m in instance.machines)
    )
    second = apportion.solve(more, time_limit=None)
    assert first.objective is not None
    assert second.objective is not None
    assert second.objective <= first.objective * (1 + 1e-9)
    assert second.bound is not None
    assert second.bound <= first.objective * (1 + 1e-9)
