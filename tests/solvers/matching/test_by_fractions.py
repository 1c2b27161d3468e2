"""The divisible makespan in fractions, against an exact linear programme that shares no code."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import numpy as np
import pytest

from apportion.models.assignment import Assignment
from apportion.models.assignment_bounds import weak_duality_bound
from apportion.solvers.makespan.by_fractions import divided
from tests.hunt.simplex import maximum


def drawn(seed: int) -> Assignment:
    rng = Random(seed)
    machines, jobs = rng.randint(1, 3), rng.randint(1, 4)
    offsets, machine = [0], []
    for _ in range(jobs):
        machine += rng.sample(range(machines), rng.randint(1, machines))
        offsets.append(len(machine))
    times = [rng.choice((1e18, 0.5, 1e-15, 3.0, 7.0, 1e13)) for _ in machine]
    counts = [rng.choice((1, 2, 3)) for _ in range(machines)]
    return Assignment.from_arrays(
        "makespan", times, machine, offsets, machines, counts=counts, divisible=True
    )


def greatest_speed(model: Assignment) -> Fraction:
    owner, size = model.job_of_option().tolist(), model.num_options
    rows, rights = [], []
    for job in range(model.num_jobs):
        rows.append([Fraction(int(owner[k] == job)) for k in range(size)] + [Fraction(0)])
        rights.append(Fraction(1))
        speed = [
            -1 / Fraction(float(model.values[k])) if owner[k] == job else Fraction(0) for k in range(size)
        ]
        rows.append([*speed, Fraction(1)])
        rights.append(Fraction(0))
    for machine in range(model.num_machines):
        rows.append([Fraction(int(model.machine[k] == machine)) for k in range(size)] + [Fraction(0)])
        rights.append(Fraction(int(model.counts[machine])))
    found = maximum(rows, rights, [Fraction(0)] * size + [Fraction(1)])
    assert found is not None
    return found


@pytest.mark.parametrize("seed", range(60))
def test_shares_and_prices_meet_the_optimum(seed: int) -> None:
    model = drawn(seed)
    found = divided(model)
    assert found is not None
    shares, prices = found
    best = float(1 / greatest_speed(model))
    assert model.check(shares).feasible
    assert model.objective(shares) == pytest.approx(best, rel=1e-12)
    bound = weak_duality_bound(model, prices)
    assert bound is None or (bound == pytest.approx(best, rel=1e-9) and bound <= best * (1 + 1e-15))


def test_jobs_that_take_no_time_share_nothing() -> None:
    model = Assignment.from_arrays("makespan", [0.0, 5.0, 2.0], [0, 1, 1], [0, 2, 3], 2, divisible=True)
    found = divided(model)
    assert found is not None
    assert found[0].tolist() == [1.0, 0.0, 1.0]
    assert divided(Assignment.from_arrays("makespan", [], [], [0, 0], 1, divisible=True)) is None
    assert np.isfinite(found[1]).all()
