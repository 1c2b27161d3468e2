"""The columns of a matching instance: what is said of pools, and uses that no 64 bits hold."""

from __future__ import annotations

import numpy as np
import pytest

from apportion import InvalidInstance
from apportion.formulations.matching.by_machine import Entries, MatchingByMachine
from apportion.instances.matching import MatchingEntry, MatchingInstance, MatchingJob, MatchingMachine


def _instance(*jobs: dict[str, MatchingEntry], count: int = 2, capacity: int = 10) -> MatchingInstance:
    pools = [MatchingMachine(id=name, count=count, capacity=capacity) for name in "ab"]
    named = [MatchingJob(id=f"job-{k}", on=on) for k, on in enumerate(jobs)]
    return MatchingInstance(schema_version="1", objective="cost", machines=pools, jobs=named)


def test_steps_mixed_uses_and_gangs_are_told_by_pool() -> None:
    entries = Entries.of(
        _instance(
            {"a": MatchingEntry(cost=1.0, uses=4), "b": MatchingEntry(cost=2.0, uses=0, gpus=2)},
            {"a": MatchingEntry(cost=3.0, uses=6), "b": MatchingEntry(cost=4.0, uses=5)},
        )
    )
    assert entries.job.tolist() == [0, 0, 1, 1]
    assert entries.value.tolist() == [1.0, 2.0, 3.0, 4.0]
    assert entries.step.tolist() == [2, 5]
    assert entries.mixed.tolist() == [True, False]
    assert entries.gang.tolist() == [False, True]


def test_a_pool_that_is_taken_apart_has_a_row_for_every_machine() -> None:
    one = {"a": MatchingEntry(cost=1.0, uses=4), "b": MatchingEntry(cost=2.0, uses=5)}
    two = {"b": MatchingEntry(cost=4.0, uses=5), "a": MatchingEntry(cost=3.0, uses=6)}
    formulation = MatchingByMachine(_instance(one, two))
    assert [formulation.option_name(row) for row in range(6)] == ["a[0]", "a[1]", "b", "b", "a[0]", "a[1]"]
    point = np.array([1, 4])
    plan = formulation.plan(point)
    assert plan["assignment"] == {"job-0": "a", "job-1": "a"}
    assert plan["machine_index"] == {"job-0": 1, "job-1": 0}
    chosen = formulation.choice(plan)
    assert chosen is not None
    assert chosen.tolist() == point.tolist()


def test_uses_of_a_gang_beyond_64_bits_are_refused_by_name() -> None:
    gang = {"a": MatchingEntry(cost=1.0, uses=10**12, gpus=10**9)}
    with pytest.raises(InvalidInstance, match="uses"):
        MatchingByMachine(_instance(gang, count=10**9, capacity=10**18))
