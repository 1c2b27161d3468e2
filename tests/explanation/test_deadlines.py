"""What is asked about a large round ends when its seconds are used up, and says what was left out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import apportion
from apportion.explanation.resolver import Resolver
from apportion.instances.multiple_choice_knapsack.generator import generate_tenants
from apportion.instances.tenants.ledger import under_floors
from apportion.instances.tenants.schema import Fairness
from apportion.solving.pipeline import menus_of_tenants


@contextmanager
def spent() -> Iterator[Callable[[], float]]:
    began = time.process_time()
    yield lambda: time.process_time() - began


@pytest.fixture(scope="module")
def large() -> tuple[Any, apportion.Solution[Any], float]:
    """Return a round of 2,000 jobs and 100 tenants, its solution, and the CPU seconds of reading it once."""
    instance = generate_tenants(1, 2000, 100, 384, Fairness())
    solution = apportion.solve(instance, gap=2e-3, time_limit=None)
    with spent() as seconds:
        menus_of_tenants(under_floors(instance, solution.floors), None)
        return instance, solution, seconds()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("limit", [1e-3, 1.0])
def test_an_explanation_takes_its_limit_and_what_reading_costs(
    limit: float, large: tuple[Any, apportion.Solution[Any], float]
) -> None:
    instance, solution, reading = large
    took = []
    for _ in range(3):  # the least counts: the first loads what it needs, and a busy core adds to any
        with spent() as seconds:
            told = apportion.explain(instance, solution, time_limit=limit)
            took.append(seconds())
    assert min(took) < limit + 6 * reading
    assert told.tenants and told.waiting and told.capacities and told.jobs
    if limit < 1.0:
        missing = [one.name for one in told.capacities if one.one_more is None]
        assert missing == list(instance.capacities)
        for name in missing:
            assert f"one more unit of {name} was not solved within the limit" in told.notes
        assert any("jobs more are not listed: the limit came first" in note for note in told.notes)
        assert any(
            "the limit came while more guarantees were solved: 0 of them" in note for note in told.notes
        )


@pytest.mark.one_in(2)
@pytest.mark.parametrize("limit", [1e-3, 1.0])
def test_a_what_if_takes_its_limit_and_what_reading_costs(
    limit: float, large: tuple[Any, apportion.Solution[Any], float]
) -> None:
    instance, solution, reading = large
    heavier = {str(instance.jobs[0].tenant): {"weight": 3.0}}
    took = []
    for _ in range(2):  # the least counts, as above
        with spent() as seconds:
            compared = apportion.what_if(instance, solution=solution, tenant=heavier, time_limit=limit)
            took.append(seconds())
    assert min(took) < limit + 8 * reading
    if limit < 1.0:
        assert compared.after.termination.value == "time_limit"


def test_nothing_is_begun_that_takes_longer_beside_its_limit_than_is_left() -> None:
    resolver = Resolver(time_limit=3600.0)
    assert not resolver.exhausted
    resolver.set_aside(60.0)
    assert not resolver.exhausted
    resolver.set_aside(3601.0)
    assert resolver.exhausted
    model = apportion.MultipleChoiceKnapsack.from_arrays([1.0], [1], [0, 1], [1])
    assert resolver.solve(model) is None
    assert resolver.ensured(model).objective == 1.0
