"""The search for any placement under tight capacities counts in whole numbers, as large as uses may be."""

from __future__ import annotations

import numpy as np
import pytest

import apportion
from apportion.core.outcome import Termination
from apportion.models.assignment import Assignment
from apportion.solvers.assignment import relaxation
from apportion.solvers.assignment.relaxation import Unsolved, relaxed
from apportion.solvers.generalised_assignment import least_cost
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


def _tight(seed: int, jobs: int, machines: int) -> Assignment:
    """Draw costs that fall as uses rise, under tight capacities."""
    rng = np.random.default_rng(seed)
    uses = rng.integers(1, 101, (jobs, machines))
    costs = 111 - uses + rng.integers(-10, 11, (jobs, machines))
    room = np.full(machines, int(0.8 * uses.sum() / machines / machines))
    return Assignment.from_matrix("cost", costs, capacities=room, uses=uses)


@pytest.mark.parametrize("seed", range(3))
def test_without_a_relaxation_jobs_are_placed_at_one_price(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 2,000 jobs on 300 machines no plan was there when the time of the relaxation had passed."""
    model = _tight(seed, 120, 12)
    solved = apportion.solve(model, work_limit=3)
    assert solved.objective is not None and solved.bound is not None
    unsolved = Unsolved(Termination.TIME_LIMIT, "Time limit reached")
    monkeypatch.setattr(relaxation, "relax", lambda *args: unsolved)
    price, nobody = relaxed(model).prices, np.full(model.num_jobs, -1, dtype=np.int64)
    choice = least_cost._one_by_one(model, model.values + price[model.machine] * model.uses, nobody)
    assert (choice < 0).mean() < 0.05
    placed = apportion.solve(model, work_limit=1)
    assert placed.objective is not None and placed.bound is not None
    assert placed.bound <= solved.objective + 1e-6
    assert solved.bound <= placed.objective <= 1.05 * solved.bound


def test_late_jobs_are_placed_all_the_same() -> None:
    model = _tight(3, 300, 30)
    placed = apportion.solve(model, time_limit=1e-6)
    assert placed.termination is Termination.TIME_LIMIT
    assert placed.objective is not None and placed.bound is not None
    assert placed.bound <= placed.objective <= 2 * placed.bound
