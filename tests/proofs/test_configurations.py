"""The checker's columns of a freezing round are what the meaning of the round says, to the last bit."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.instances import FreezingInstance
from apportion.instances.freezing.check import configurations
from apportion.instances.freezing.option_columns import configurations_of
from apportion.instances.freezing.schema import PENALTY
from tests import strategies
from tests.budgets import examples
from tests.proofs.claims import KINDS

Row = tuple[int, str, int, int, float]


def meant(instance: FreezingInstance) -> list[Row]:
    """Return job, GPU type, GPUs, penalty and value as the meaning says them, one by one."""
    found = [
        (at, gpu_type, gpus, uses.get(PENALTY, 0), value)
        for at, job in enumerate(instance.jobs)
        for gpu_type, gpus, value, uses in configurations(instance, job)
    ]
    if instance.penalty_cap_millionths is not None:
        return found
    best = max if instance.power > 0 else min
    places = dict.fromkeys(row[:3] for row in found)
    return [(*place, 0, best(row[4] for row in found if row[:3] == place)) for place in places]


def stated(instance: FreezingInstance) -> list[Row]:
    """Return the same as the checker has it in columns."""
    types, told = list(instance.gpus), configurations_of(instance)
    columns = (told.job, told.gpu_type, told.gpus, told.penalty, told.value)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [(job, types[at], gpus, penalty, value) for job, at, gpus, penalty, value in rows]


@settings(max_examples=examples(150), deadline=None)
@given(st.one_of(strategies.freezing_instances(), strategies.freezing_on_nodes()))
def test_columns_are_what_is_meant(instance: FreezingInstance) -> None:
    assert stated(instance) == meant(instance)


@pytest.mark.parametrize("kind", ["freezing", "freezing on nodes"])
def test_hostile_numbers_are_what_is_meant(kind: str) -> None:
    for number in range(60):
        instance = KINDS[kind].case(Random(f"{kind} 3/{number}"))
        assert stated(instance) == meant(instance)


def test_no_jobs_are_no_columns() -> None:
    assert stated(FreezingInstance(schema_version="1", gpus={"a": 4}, round_s=60.0, jobs=())) == []
