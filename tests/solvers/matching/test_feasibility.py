"""The search for any placement under tight capacities counts in whole numbers, as large as uses may be."""

from __future__ import annotations

import numpy as np
import pytest

import apportion
from apportion.models.assignment import Assignment
from apportion.solvers.generalised_assignment.least_cost import without_overflow


def _held(model: Assignment, rows: np.ndarray) -> list[int]:
    """Return what every machine holds, added up in Python's integers."""
    held = [0] * model.num_machines
    for row in rows.tolist():
        held[int(model.machine[row])] += int(model.uses[row])
    return held


def test_what_overflows_by_one_beyond_the_digits_of_doubles_is_moved() -> None:
    """Uses were weights of a bincount: 2^53 + 1 + 1 came out as 2^53, and the overflow was not seen."""
    most = 2**53
    model = Assignment.from_arrays(
        "cost",
        [1.0, 9.0, 1.0, 9.0, 1.0, 9.0],
        [0, 1, 0, 1, 0, 1],
        [0, 2, 4, 6],
        2,
        uses=[most, most, 1, 1, 1, 1],
        capacities=[most + 1, 1],
    )
    rows = without_overflow(model, model.values, 0, lambda: False)
    assert rows is not None
    held = _held(model, rows)
    assert held == [most + 1, 1], "one of the small jobs must go where it costs more"


def test_a_machine_without_a_limit_holds_all_that_uses_may_add_up_to() -> None:
    """Room without a limit was 2^61, less than uses may add up to: a placement that there is was missed."""
    use = 2**60 - 1
    model = Assignment.from_arrays(
        "cost",
        [1.0, 2.0, 1.0, 2.0, 1.0, 2.0],
        [0, 1, 0, 1, 0, 1],
        [0, 2, 4, 6],
        2,
        uses=use,
        capacities=[0, 1],
        limited=[False, True],
    )
    rows = without_overflow(model, model.values, 0, lambda: False)
    assert rows is not None
    assert _held(model, rows) == [3 * use, 0] and 3 * use > 2**61


def test_what_cannot_be_placed_is_not_placed() -> None:
    model = Assignment.from_arrays("cost", [1.0, 1.0], [0, 0], [0, 1, 2], 1, uses=[2, 2], capacities=[3])
    assert without_overflow(model, model.values, 0, lambda: False) is None
    loose = Assignment.from_arrays("cost", [1.0, 1.0], [0, 0], [0, 1, 2], 1, uses=[2, 2], capacities=[4])
    assert without_overflow(loose, loose.values, 0, lambda: True) is None, "no time, no answer"


@pytest.mark.parametrize("seed", [70, 72])
def test_a_first_plan_far_from_the_bound_is_soon_near_it(seed: int) -> None:
    """Two hundred required jobs that each may go to eight of forty nearly full machines."""
    rng = np.random.default_rng(seed)
    entries = [
        {
            f"m{m}": {"value": float(rng.integers(1, 1000)) / 10, "uses": int(rng.integers(1, 9))}
            for m in rng.choice(40, 8, replace=False)
        }
        for _ in range(200)
    ]
    instance = apportion.read(
        {
            "kind": "matching",
            "schema_version": "1",
            "objective": "value",
            "machines": [{"id": f"m{m}", "capacity": 8} for m in range(40)],
            "jobs": [{"id": f"j{i}", "on": on} for i, on in enumerate(entries)],
        }
    )
    solution = apportion.solve(instance, work_limit=700)
    assert solution.objective is not None
    assert solution.bound is not None
    assert solution.objective > 0.97 * solution.bound
