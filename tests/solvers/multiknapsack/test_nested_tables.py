"""Tables over open capacities: the optimum by enumeration, few entries where capacities nest."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from apportion.core.options import KnownBound, SolveOptions
from apportion.core.outcome import Termination
from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.solvers.multiknapsack import several_capacities
from apportion.solvers.multiknapsack.nested_tables import nested_tables
from apportion.solvers.multiknapsack.option_table import build


def drawn(seed: int) -> MultipleChoiceKnapsack:
    """Few jobs; a capacity concerns some of them, the last may be the first once more with other room."""
    rng = random.Random(seed)
    jobs, capacities = rng.randint(1, 5), rng.randint(1, 5)
    member = [[k == 0 or rng.random() < 0.5 for k in range(capacities)] for _ in range(jobs)]
    offsets, uses = [0], list[list[int]]()
    for job in range(jobs):
        for _ in range(rng.randint(1, 4)):
            uses.append([rng.randint(0, 4) * rng.choice([1, 2]) if own else 0 for own in member[job]])
        offsets.append(len(uses))
    if rng.random() < 0.5:
        uses = [[*row[:-1], row[0]] for row in uses]
    return MultipleChoiceKnapsack.from_arrays(
        [float(rng.randint(0, 20)) for _ in uses],
        np.array(uses),
        offsets,
        [rng.randint(5, 16) for _ in range(capacities)],
    )


def test_the_optimum_is_that_of_enumeration() -> None:
    decided = 0
    for seed in range(400):
        model = drawn(seed)
        menus = build(model)
        choices = itertools.product(*(range(a, b) for a, b in itertools.pairwise(model.offsets.tolist())))
        best = max(
            (report.objective for one in choices if (report := model.check(one)).feasible), default=None
        )
        if menus is None or not menus.num_capacities:
            assert menus is not None or best is None
            continue
        tables = nested_tables(menus)
        assert tables is not None
        filled, choice = tables.best(lambda: False)
        assert filled
        if choice is None:
            assert best is None
        else:
            report = model.check(menus.rows[choice])
            assert report.feasible and report.objective == best
            decided += 1
    assert decided > 90


def of_tenants(number: int) -> MultipleChoiceKnapsack:
    """Tenants of six jobs each on two capacities of ten, with a limit of their own that binds."""
    rng = random.Random(number)
    uses, offsets = list[list[int]](), [0]
    for tenant in range(number):
        for _ in range(6):
            for amount in range(4):
                where = rng.randrange(2)
                row = [0] * (2 + number)
                row[where] = row[2 + tenant] = amount
                uses.append(row)
            offsets.append(len(uses))
    values = [rng.randint(1, 9) * max(row) for row in uses]
    room = [10, 10, *([5] * number)]
    return MultipleChoiceKnapsack.from_arrays(np.array(values, dtype=float), np.array(uses), offsets, room)


def test_jobs_of_a_tenant_stand_together() -> None:
    for number in (4, 16):
        menus = build(of_tenants(number))
        assert menus is not None
        tables = nested_tables(menus)
        assert tables is not None
        # of one tenant after the other: eleven rooms twice, six of its own, four options a job
        assert tables.entries <= 6 * number * 11 * 11 * 6 * 4


def test_nothing_is_said_late() -> None:
    menus = build(of_tenants(4))
    assert menus is not None
    tables = nested_tables(menus)
    assert tables is not None and tables.best(lambda: True) == (False, None)


def test_too_many_jobs_or_rooms_have_no_tables() -> None:
    many = MultipleChoiceKnapsack.from_arrays(np.ones(900), [0, 1] * 450, np.arange(0, 901, 2), [100])
    wide = MultipleChoiceKnapsack.from_arrays(
        np.ones(12),
        np.array([[0, 0, 0], [9973, 9967, 9949]] * 6) + np.eye(12, 3, dtype=int),
        range(0, 13, 2),
        [30000, 31000, 32000],
    )
    for model in (many, wide):
        menus = build(model)
        assert menus is not None and nested_tables(menus) is None


@pytest.mark.parametrize("scale", [1.0, 2.0**-600])
def test_a_start_that_meets_a_known_bound_needs_no_search(scale: float) -> None:
    model = of_tenants(8)
    found = several_capacities.solve(model, SolveOptions())
    assert found.termination is Termination.OPTIMAL and found.objective is not None
    scaled = MultipleChoiceKnapsack.from_arrays(
        model.values * scale, model.uses, model.offsets, model.capacities
    )
    known = KnownBound(found.objective * scale, "branch_and_bound")
    again = several_capacities.solve(scaled, SolveOptions(), found.point, None, known)
    assert again.termination is Termination.OPTIMAL and again.bound == known.value
    assert again.bound_source == "branch_and_bound" and not any(again.counters.values())
    far = known._replace(value=known.value * 3.0)
    searched = several_capacities.solve(scaled, SolveOptions(), found.point, None, far)
    assert searched.termination is Termination.OPTIMAL and searched.bound == known.value
