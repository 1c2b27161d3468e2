"""Bounds of matchings: the exact ones by their definition, the vectorised ones outward of these and close."""

from __future__ import annotations

import math
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
import pytest

import apportion
from apportion.formulations.matching.by_machine import MatchingByMachine
from apportion.instances.matching.bounds import exact_bound, price_names
from apportion.models import assignment_bounds
from apportion.models.assignment import Assignment
from apportion.models.assignment_bounds import (
    counting_bound,
    filtered_work,
    machine_bound,
    pooled,
    weak_duality_bound,
)
from tests.hunt import draw_matching, truth_matching
from tests.instances.meant import defined_bound, priced

Told = dict[str, Any]
DRAWN = 250
CLOSE = Fraction(2, 10**10)


def instances(wants: str | None, count: int = DRAWN) -> list[tuple[Random, Told, Any]]:
    """Return matchings of the hunt, half of them in small whole numbers."""
    found = []
    for number in range(count):
        rng = Random(f"bounds {wants} {number}")
        told = draw_matching.instance(rng, wants)
        if number % 2:
            for job in told["jobs"]:
                for entry in job["on"].values():
                    for field in ("time_s", "cost", "value"):
                        if field in entry:
                            entry[field] = float(rng.randint(0 if not told["divisible"] else 1, 9))
        try:
            found.append((rng, told, apportion.read(told)))
        except apportion.InvalidInstance:
            continue
    return found


def prices_of(rng: Random, instance: Any) -> dict[str, float]:
    return priced(rng, price_names(instance))


def made_up_makespan(told: Told, prices: dict[str, float]) -> Fraction:
    """Return the bound of a makespan as its module defines it, level by level."""
    rows = [
        [(n, Fraction(e["time_s"]), e.get("gpus", 1)) for n, e in job["on"].items()] for job in told["jobs"]
    ]
    if not rows:
        return Fraction(0)
    counts = {machine["id"]: machine.get("count", 1) for machine in told["machines"]}
    fastest = max(min(p for _, p, _ in row) for row in rows)
    if told["divisible"]:
        weight = sum(map(Fraction, prices.values()), Fraction(0))
        if not weight:
            return fastest
        work = sum(
            min(
                p * (Fraction(prices[f"job:{job['id']}"]) + Fraction(prices[f"machine:{n}"]) * g / counts[n])
                for n, p, g in row
            )
            for job, row in zip(told["jobs"], rows, strict=True)
        )
        return max(fastest, work / weight)
    weight = sum(map(Fraction, prices.values()), Fraction(0))
    levels = sorted({p for row in rows for _, p, _ in row if p >= fastest})
    least = fastest
    for level, following in zip(levels, [*levels[1:], None], strict=True):
        if not weight:
            break
        work = sum(
            min(Fraction(prices[n]) * p * g / counts[n] for n, p, g in row if p <= level) for row in rows
        )
        least = max(level, work / weight)
        if following is None or least < following:
            break
    return max(least, made_up_count(rows, counts))


def made_up_count(rows: list[list[tuple[str, Fraction, int]]], counts: dict[str, int]) -> Fraction:
    """Return the first instant by which machines that run nothing but short jobs have room for all."""
    needed = sum(min(g for _, _, g in row) for row in rows)
    ends: list[tuple[Fraction, int]] = []
    for name, count in counts.items():
        total = Fraction(0)
        for time in sorted(p for row in rows for n, p, _ in row if n == name):
            total += time
            ends.append((total, count))
    held = 0
    for end, count in sorted(ends):
        held += count
        if held >= needed:
            return end
    return max(end for end, _ in ends)


def whole(told: Told, bound: Fraction) -> Fraction:
    times = [entry["time_s"] for job in told["jobs"] for entry in job["on"].values()]
    if not told["divisible"] and all(float(time).is_integer() for time in times):
        return Fraction(math.ceil(bound))
    return bound


@pytest.mark.parametrize("wants", ["makespan", "sum", None])
def test_exact_bounds_are_what_they_are_defined_to_be_and_no_plan_beats_them(wants: str | None) -> None:
    compared = 0
    for rng, told, instance in instances(wants):
        prices = prices_of(rng, instance)
        bound = exact_bound(instance, prices)
        if any(job["required"] and not job["on"] for job in told["jobs"]):
            assert bound is None
            continue
        assert bound is not None
        if told["objective"] == "makespan":
            assert bound == whole(told, made_up_makespan(told, prices)), (told, prices)
        else:
            assert bound == defined_bound(told, prices), (told, prices)
        maximize, best = truth_matching.best(told)
        if best is not None:
            sign = 1 if maximize else -1
            assert sign * (bound - best) >= 0, (told, prices)
            compared += 1
    assert compared > DRAWN / 4


@pytest.mark.parametrize("wants", ["makespan", "sum", None])
def test_vectorised_bounds_are_outward_of_the_exact_ones_and_close(wants: str | None) -> None:
    bounded = 0
    for rng, told, instance in instances(wants):
        prices = prices_of(rng, instance)
        model = MatchingByMachine(instance).model
        assert model.capacity_names == tuple(price_names(instance))
        quick = weak_duality_bound(model, np.array(list(prices.values()), dtype=np.float64))
        exact = exact_bound(instance, prices)
        if quick is None:
            continue
        assert exact is not None
        outward = (Fraction(quick) - exact) * (1 if told["objective"] == "value" else -1)
        assert 0 <= outward <= CLOSE * abs(exact) + Fraction(1, 10**300), (told, prices, quick, float(exact))
        bounded += 1
    assert bounded > DRAWN / 4


def test_a_required_job_that_can_run_nowhere_leaves_no_bound() -> None:
    for goal in ("cost", "makespan"):
        for required, bounded in (([True, False], True), ([False, True], False), ([True, True], False)):
            if goal == "makespan" and not all(required):
                continue
            model = Assignment.from_arrays(
                goal, [2.0], [0], [0, 1, 1], 1, capacities=[3], required=np.array(required)
            )
            told = weak_duality_bound(model, np.array([0.5]))
            assert (told is not None) is bounded


def test_a_makespan_of_nothing_is_zero() -> None:
    model = Assignment.from_arrays("makespan", [], [], [0], 2)
    assert weak_duality_bound(model, np.ones(2)) == 0.0
    assert counting_bound(model) == 0.0
    beside = Assignment.from_arrays("makespan", [5.0], [0], [0, 1, 1], 1)
    assert counting_bound(beside) == 5.0  # a job that can run nowhere takes no room


def test_whole_times_make_whole_makespans_but_near_a_whole_number_fractions_decide() -> None:
    six = np.repeat([5.0, 5.0, 5.0, 5.0, 5.0, 2.0], 2)
    times = Assignment.from_arrays("makespan", six, [0, 1] * 6, np.arange(7) * 2, 2)
    assert filtered_work(times, np.ones(2)) == 13.5
    assert counting_bound(times) == 12.0
    assert weak_duality_bound(times, np.ones(2)) == 14.0
    shares = Assignment.from_arrays("makespan", six, [0, 1] * 6, np.arange(7) * 2, 2, divisible=True)
    told = weak_duality_bound(shares, np.array([1.0, 1.0, *[0.0] * 6]))
    assert told == pytest.approx(13.5, rel=1e-9)
    assert weak_duality_bound(shares, np.zeros(8)) == pytest.approx(5.0, rel=1e-9)
    few = weak_duality_bound(shares, np.array([0.25, 0.25, *[0.0] * 6]))
    assert few == pytest.approx(13.5, rel=1e-9)
    quarter = Assignment.from_arrays("makespan", six + 0.25, [0, 1] * 6, np.arange(7) * 2, 2)
    assert weak_duality_bound(quarter, np.ones(2)) == pytest.approx(14.25, rel=1e-9)
    one = Assignment.from_arrays("makespan", [3.0, 4.0], [0, 0], [0, 1, 2], 1)
    assert weak_duality_bound(one, np.ones(1)) is None
    large = Assignment.from_arrays("makespan", [2.0**51, 2.0**51 + 2], [0, 0], [0, 1, 2], 1)
    told = weak_duality_bound(large, np.ones(1))
    assert told is not None and told < 2.0**52 + 2


def test_shares_of_time_are_bounded_by_the_work_and_by_the_jobs() -> None:
    """Six jobs of 5 s on two machines fill them for 15 s; a job that is priced runs at most all the time."""
    told = {
        "kind": "matching",
        "schema_version": "1",
        "objective": "makespan",
        "divisible": True,
        "machines": [{"id": "a"}, {"id": "b", "count": 1}],
        "jobs": [{"id": f"j{k}", "on": {"a": {"time_s": 5.0}, "b": {"time_s": 5.0}}} for k in range(6)],
    }
    instance: Any = apportion.read(told)
    even = {**dict.fromkeys(price_names(instance), 0.0), "machine:a": 1.0, "machine:b": 1.0}
    assert exact_bound(instance, even) == made_up_makespan(told, even) == 15
    mixed = {**even, "job:j0": 0.5, "job:j1": 0.25}
    assert (
        exact_bound(instance, mixed)
        == made_up_makespan(told, mixed)
        == Fraction(30 + 5 * 0.75) / Fraction(2.75)
    )
    jobs = {name: float(name.startswith("job")) for name in even}
    assert exact_bound(instance, jobs) == 5


def test_prices_of_machines_bound_outward_however_far() -> None:
    compared = 0
    for rng, told, instance in instances("sum"):
        if any(job["required"] and not job["on"] for job in told["jobs"]):
            continue
        model = MatchingByMachine(instance).model
        prices = np.array([rng.choice((0.0, rng.random(), 1e9)) for _ in range(model.num_machines)])
        quick = machine_bound(model, prices)
        exact, size = made_up_machines(model, prices)
        sign = 1 if model.goal == "value" else -1
        assert 0 <= sign * (Fraction(quick) - exact) <= Fraction(1, 10**13) * size + Fraction(1, 10**300)
        compared += 1
    assert compared > DRAWN / 4


def made_up_machines(model: Assignment, prices: np.ndarray[Any, Any]) -> tuple[Fraction, Fraction]:
    """Return the bound of prices of machines, and what was added up."""
    sign = 1 if model.goal == "value" else -1
    price = [
        Fraction(p) if limited else Fraction(0)
        for p, limited in zip(prices.tolist(), model.limited, strict=True)
    ]
    total = sum((p * int(c) for p, c in zip(price, model.capacities.tolist(), strict=True)), Fraction(0))
    size = total
    for j in range(model.num_jobs):
        rows = range(int(model.offsets[j]), int(model.offsets[j + 1]))
        paid = [price[int(model.machine[i])] * int(model.uses[i]) for i in rows]
        worths = [sign * Fraction(float(model.values[i])) - cost for i, cost in zip(rows, paid, strict=True)]
        size += max(
            (abs(Fraction(float(model.values[i]))) + cost for i, cost in zip(rows, paid, strict=True)),
            default=Fraction(0),
        )
        total += max(worths + ([] if model.required[j] else [Fraction(0)]))
    return sign * total, size


@pytest.mark.parametrize("goal", ["makespan", "value"])
def test_prices_of_machines_become_prices_of_pools(goal: Any) -> None:
    """The mean of a pool's machines, or for a makespan their sum; never below 0."""
    model = Assignment.from_arrays(
        goal,
        [1.0],
        [0],
        [0, 1],
        4,
        capacities=[5, 5, 5, 5],
        pool=[0, 0, 1, 2],
        pool_names=("a", "b", "c"),
    )
    told = pooled(model, np.array([1.0, 3.0, 5.0, -2.0]))
    assert told.tolist() == ([4.0, 5.0, 0.0] if goal == "makespan" else [2.0, 5.0, 0.0])


def test_a_margin_that_would_show_leaves_the_bound_to_fractions(monkeypatch: pytest.MonkeyPatch) -> None:
    values = [1e9 + 0.25, -1e9]
    model = Assignment.from_arrays("value", values, [0, 0], [0, 1, 2], 1, capacities=[2])
    assert weak_duality_bound(model, np.zeros(1)) is None
    timed = Assignment.from_arrays("makespan", [0.1, 0.7], [0, 0], [0, 1, 2], 1)
    assert weak_duality_bound(timed, np.ones(1)) == pytest.approx(0.8, rel=1e-9)
    monkeypatch.setattr(assignment_bounds, "_LOOSEST", 1e-16)
    assert weak_duality_bound(timed, np.ones(1)) is None
    roomy = Assignment.from_arrays("value", [3.0], [0], [0, 1], 1, capacities=[2])
    assert weak_duality_bound(roomy, np.ones(1)) is None
