"""Answers that were wrong on input that the schema allows; each test is named after what broke."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import product
from typing import Any

import pytest

import apportion
from apportion import MultipleChoiceKnapsack, stored
from apportion.outcome import Termination


def matching(objective: str, machines: list[Any], jobs: list[Any]) -> Any:
    return apportion.read(
        {
            "kind": "matching",
            "schema_version": "1",
            "objective": objective,
            "machines": machines,
            "jobs": jobs,
        }
    )


def optimum(model: MultipleChoiceKnapsack) -> Fraction | None:
    """Return the best value over all choices, in fractions; ``None`` if none is feasible."""
    menus = [
        [*([] if need else [-1]), *range(int(a), int(b))]
        for need, a, b in zip(model.required, model.offsets, model.offsets[1:], strict=False)
    ]
    best: Fraction | None = None
    sign = 1 if model.sense == "maximize" else -1
    for rows in product(*menus):
        used = [sum(int(model.uses[r, k]) for r in rows if r >= 0) for k in range(model.num_capacities)]
        if all(u <= int(c) for u, c in zip(used, model.capacities, strict=True)):
            value = sum((Fraction(float(model.values[r])) for r in rows if r >= 0), Fraction(0))
            if best is None or sign * value > sign * best:
                best = value
    return best


@pytest.mark.parametrize("scale", [1.0, 1e-5, 1e-6, 1e-8, 1e-20, 1e-29])
def test_small_values_are_no_noise_to_highs(scale: float) -> None:
    """Values below 3e-6 went to HiGHS unscaled: a plan 35 % below the optimum was called optimal."""
    values = (0.748248741923692, 0.8541357260574801, 0.8593017574939626)
    jobs = [
        {"id": f"j{k}", "on": {"p": {"value": scale * value, "uses": use}}, "required": k < 2}
        for k, (value, use) in enumerate(zip(values, (2, 2, 4), strict=True))
    ]
    solution = apportion.solve(matching("value", [{"id": "p", "count": 3, "capacity": 4}], jobs))
    assert solution.termination is Termination.OPTIMAL
    assert solution.objective == pytest.approx(scale * sum(values), rel=1e-12)


def test_a_failed_relaxation_is_no_proof() -> None:
    """Values of 1e12 made HiGHS fail, and the failure was told as infeasible though every job is optional."""
    jobs = [
        {"id": "j0", "on": {"p0": {"value": 974259503178.7289, "uses": 4}}, "required": False},
        {
            "id": "j1",
            "on": {
                "p0": {"value": 128470238998.92628, "uses": 3},
                "p1": {"value": 906754768925.4282, "uses": 3},
            },
            "required": False,
        },
    ]
    pools = [{"id": "p0", "count": 3, "capacity": 4}, {"id": "p1", "count": 3, "capacity": 0}]
    solution = apportion.solve(matching("value", pools, jobs))
    assert solution.termination is Termination.OPTIMAL
    assert solution.objective == 974259503178.7289 + 128470238998.92628


def test_one_very_long_job_is_no_infeasibility() -> None:
    machine = {"id": "A", "capacity": 2}
    job = {"id": "j", "on": {"A": {"time_s": 2e15, "uses": 1}}}
    solution = apportion.solve(matching("makespan", [machine], [job]))
    assert (solution.termination, solution.objective) == (Termination.OPTIMAL, 2e15)
    free = matching("makespan", [{"id": "A"}], [job])
    assert apportion.solve(free, "highs").objective == 2e15


@pytest.mark.parametrize("backend", ["auto", "highs", "cp-sat", "scip"])
def test_the_longest_makespan_counts_capacities(backend: str) -> None:
    """Each job where it is quickest is no schedule if that machine is full."""
    machines = [{"id": "A", "capacity": 0}, {"id": "B", "capacity": 5}]
    jobs = [{"id": "j", "on": {"A": {"time_s": 1, "uses": 1}, "B": {"time_s": 10, "uses": 1}}}]
    solution = apportion.solve(matching("makespan", machines, jobs), backend)
    assert (solution.termination, solution.objective) == (Termination.OPTIMAL, 10.0)
    one_each = [{"id": "A", "capacity": 1}, {"id": "B", "capacity": 1}]
    jobs = [{"id": f"j{k}", "on": {"A": {"time_s": 3}, "B": {"time_s": 100}}} for k in range(2)]
    assert apportion.solve(matching("makespan", one_each, jobs), backend).objective == 100.0


@pytest.mark.parametrize(
    ("slow", "fast"), [(1000.1, 0.1), (1e6 + 0.1, 0.1), (1e5 + 0.3, 0.7), (86400.5, 1.3)]
)
def test_the_counting_bound_of_one_machine_does_not_cancel_in_anothers(slow: float, fast: float) -> None:
    """One running sum over all machines made the verified bound exceed the optimum."""
    jobs = [{"id": "j", "on": {"slow": {"time_s": slow}, "fast": {"time_s": fast}}}]
    instance = matching("makespan", [{"id": "slow"}, {"id": "fast"}], jobs)
    solution = apportion.solve(instance)
    verified = solution.certificate.verified_bound
    assert verified is not None and Fraction(verified) <= Fraction(fast)
    checked = stored.verify(instance, json.loads(stored.encode(stored.document(solution))))
    assert [check for check in checked.checks if not check[1]] == []


@pytest.mark.parametrize("penalty", [1e6, 1e9, 1e12, 1e15, 1e16, 1e18])
@pytest.mark.parametrize("worse", [1.1, 1.001, 1.0000001])
def test_a_big_penalty_takes_no_digits_from_the_dual(penalty: float, worse: float) -> None:
    """The dual stopped at a multiplier as large as the penalty, where ``value - lambda * use`` is noise."""
    model = MultipleChoiceKnapsack.from_arrays(
        values=[worse, 1.0, penalty, worse, 1.0, penalty, 0.5, 0.7],
        uses=[1, 1, 0, 1, 1, 0, 1, 0],
        offsets=[0, 3, 6, 8],
        capacities=[2],
        sense="minimize",
    )
    solution = apportion.solve(model)
    assert solution.termination is Termination.OPTIMAL
    assert solution.plan.tolist() == [1, 4, 7]
    verified = solution.certificate.verified_bound
    assert verified is not None and 2.7 * (1 - 1e-9) <= verified <= 2.7


@pytest.mark.parametrize("huge", [-1e12, -1e18])
def test_values_that_nobody_chooses_loosen_no_tie(huge: float) -> None:
    """`deterministic` took sums as equal that differ by a part of the largest value in any menu."""
    model = MultipleChoiceKnapsack.from_arrays(
        values=[1.0, 1.5, huge] * 2,
        uses=[1, 1, 0] * 2,
        offsets=[0, 3, 6],
        capacities=[2],
        required=False,
    )
    solution = apportion.solve(model, deterministic=True)
    assert (solution.termination, solution.objective) == (Termination.OPTIMAL, 3.0)
    too_large = MultipleChoiceKnapsack.from_arrays(
        values=[1.0, 1.5, 1e15] * 2,
        uses=[1, 1, 9] * 2,
        offsets=[0, 3, 6],
        capacities=[2],
        required=False,
    )
    assert apportion.solve(too_large, deterministic=True).objective == 3.0
