"""Gap filling at its corners: curves on their points, bans on breakpoints, gains and losses that cancel."""

from __future__ import annotations

from fractions import Fraction
from random import Random
from typing import Any

import pytest

import apportion
from apportion.instances import kind_of
from apportion.instances.gap_filling import ScalingCurve, check
from tests.hunt import truth_gap_filling
from tests.instances.meant import defined_bound


def told(*jobs: dict[str, Any], nodes: int = 6, horizon: float = 10.0) -> dict[str, Any]:
    return {
        "kind": "gap_filling",
        "schema_version": "1",
        "horizon_s": horizon,
        "nodes": [f"n{k}" for k in range(nodes)],
        "jobs": list(jobs),
    }


def cornered(rng: Random) -> dict[str, Any]:
    """Return an instance whose bans and pins lie on what decides: breakpoints, limits, what is held."""
    jobs = []
    nodes = rng.randint(3, 9)
    free = [f"n{k}" for k in range(nodes)]
    for j in range(rng.randint(1, 2)):
        low, high = rng.randint(1, 2), rng.randint(5, 9)
        points = [0, *sorted(rng.sample(range(1, high), 2)), high]
        held = [free.pop() for _ in range(min(len(free), rng.randint(0, 3)))]
        job = {
            "id": f"j{j}",
            "min_nodes": low,
            "max_nodes": high,
            "scaling": {"nodes": points, "rate": [0.0, *(float(rng.randint(0, 30)) for _ in points[1:])]},
            "current_nodes": held,
            "rescale_up_s": float(rng.choice((0, 1, 9))),
            "rescale_down_s": float(rng.choice((0, 1, 9))),
        }
        corners = sorted({*points, low, high, len(held), min(high, nodes)} - {0})
        job["forbidden_counts"] = rng.sample(corners, rng.randint(0, len(corners)))
        if rng.random() < 0.2:
            job["forbidden_counts"].append(0)
        jobs.append(job)
    return told(*jobs, nodes=nodes)


def test_the_bound_holds_beside_bans_on_breakpoints() -> None:
    compared = 0
    for number in range(300):
        rng = Random(f"corners {number}")
        document = cornered(rng)
        try:
            instance = apportion.read(document)
        except apportion.InvalidInstance:
            continue
        for price in (0.0, rng.random() * 40, float(rng.randint(0, 60))):
            prices = {"idle_nodes": price}
            assert kind_of(instance).exact_bound(instance, prices) == defined_bound(document, prices), (
                document,
                price,
            )
            compared += 1
    assert compared > 600


def test_a_curve_is_exact_on_its_points_linear_between_and_level_beyond() -> None:
    curve = ScalingCurve((0, 3, 10, 17), (0.0, 0.1, 0.7, 0.3))
    for count, rate in zip(curve.nodes, curve.rate, strict=True):
        assert check.rate_at(curve, count) == rate
    assert check.rate_at(curve, 18) == check.rate_at(curve, 10**9) == 0.3
    for count in range(18):
        low, high = (0, 3) if count <= 3 else (3, 10) if count <= 10 else (10, 17)
        at_low, at_high = (Fraction(curve.rate[curve.nodes.index(k)]) for k in (low, high))
        exact = at_low + (at_high - at_low) * Fraction(count - low, high - low)
        assert abs(Fraction(check.rate_at(curve, count)) - exact) <= abs(exact) * Fraction(1, 10**15)


JOB = {
    "id": "j0",
    "min_nodes": 1,
    "max_nodes": 6,
    "scaling": {"nodes": [0, 1, 6], "rate": [0.0, 0.3, 0.3]},
    "current_nodes": ["n0"],
    "rescale_down_s": 0.0,
}


@pytest.mark.parametrize("rest", [1e-15, 3e-14, 1e-12, 1e-9, 1e-3, 0.5])
def test_an_objective_whose_gain_and_loss_cancel_is_rounded_once(rest: float) -> None:
    document = told({**JOB, "rescale_up_s": 10.0 * (1 - rest)})
    instance = apportion.read(document)
    plan = {"allocation": {"j0": ["n0", "n1"]}}
    worth = truth_gap_filling.worth(document, plan)
    report = check.check(instance, plan)  # type: ignore[arg-type]
    assert worth is not None and report.objective is not None
    assert abs(Fraction(report.objective) - worth) <= abs(worth) * Fraction(1, 10**13)


def test_where_nothing_cancels_no_fractions_are_formed(monkeypatch: pytest.MonkeyPatch) -> None:
    document = told(
        {**JOB, "rescale_up_s": 4.0}, {**JOB, "id": "j1", "current_nodes": [], "rescale_up_s": 9.0}
    )
    instance = apportion.read(document)

    def slowly(*given: Any) -> Fraction:
        raise AssertionError("in fractions")

    monkeypatch.setattr(check, "exact_job_value", slowly)
    for plan in ({"j0": ["n0", "n1"]}, {"j0": ["n0"]}, {"j1": ["n3"]}, {}):
        assert check.check(instance, {"allocation": plan}).feasible  # type: ignore[arg-type]


def test_nothing_is_worth_nothing() -> None:
    document = told({**JOB, "current_nodes": [], "rescale_up_s": 4.0})
    report = check.check(apportion.read(document), {"allocation": {}})  # type: ignore[arg-type]
    assert report.feasible and report.objective == 0.0


def test_a_job_that_gives_up_nodes_for_others_is_told_how_many() -> None:
    document = told({**JOB, "current_nodes": ["n0", "n1", "n2"], "rescale_up_s": 1.0})
    report = check.check(apportion.read(document), {"allocation": {"j0": ["n0", "n5"]}})  # type: ignore[arg-type]
    assert "gives up 2 of its nodes and takes 1 others" in str(report.violations[0])
