"""Gangs of few jobs: CP-SAT's bound against every order of starts, and proofs where the packing meets it."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings

import apportion
from apportion.formulations.matching.by_machine import MatchingByMachine
from apportion.instances import MatchingInstance
from apportion.instances.matching.generator import generate_cluster
from apportion.options import SolveOptions
from apportion.outcome import Termination
from apportion.solvers.assignment.repair import repaired
from apportion.solvers.makespan.gangs import scheduled, small_enough
from tests.solving.test_matching import oracle
from tests.strategies import matchings


@given(matchings(objectives=("makespan",)))
@settings(max_examples=80, deadline=None)
def test_the_cumulative_bound_is_the_optimum(instance: MatchingInstance) -> None:
    model = MatchingByMachine(instance).model
    best = oracle(instance)
    if best is None or not model.num_jobs or not small_enough(model):
        return
    start = repaired(model, np.full(model.num_jobs, -1, dtype=np.int64))
    assert start is not None
    found = scheduled(model, start, 0.0, SolveOptions(), None)
    assert found.bound <= best * (1 + 1e-9)
    assert found.bound >= best * (1 - 1e-4)
    if found.choice is not None:
        assert model.check(found.choice).feasible
    solution = apportion.solve(instance, time_limit=None)
    assert solution.bound is not None
    assert solution.bound <= best * (1 + 1e-9)


def test_twelve_gangs_on_two_pools_are_proven() -> None:
    for seed in range(2):
        drawn = generate_cluster(seed, 12, {"a": 8, "b": 8}, wide=0.6)
        instance = msgspec.structs.replace(
            drawn,
            jobs=tuple(
                msgspec.structs.replace(
                    job,
                    on={
                        name: msgspec.structs.replace(entry, time_s=float(np.ceil(entry.time_s or 0.0)))
                        for name, entry in job.on.items()
                    },
                )
                for job in drawn.jobs
            ),
        )
        solution = apportion.solve(instance, deterministic=True)
        assert solution.termination is Termination.OPTIMAL
        assert solution.bound == pytest.approx(solution.objective, rel=1e-12)
