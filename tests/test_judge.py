"""What survives of a claim, case by case."""

from __future__ import annotations

from typing import Any

import pytest

from apportion.core.outcome import Termination
from apportion.solving.judge import Verdict, judge


def weigh(**changes: Any) -> Verdict:
    facts: dict[str, Any] = {
        "maximizes": True,
        "objective": 10.0,
        "claimed": Termination.OPTIMAL,
        "claimed_bound": 10.0,
        "claimed_source": "solver",
        "verified_bound": None,
        "asked_gap": 0.0,
    }
    return judge(**{**facts, **changes})


def test_a_supported_claim_stands() -> None:
    assert weigh() == Verdict(Termination.OPTIMAL, 10.0, "solver", ())


def test_a_bound_below_the_objective_is_refuted() -> None:
    verdict = weigh(claimed_bound=9.0)
    assert verdict.bound is None
    assert verdict.termination is Termination.NUMERICAL_ERROR
    assert "refuted" in verdict.notes[0]


def test_minimising_mirrors() -> None:
    assert weigh(maximizes=False, claimed_bound=11.0).bound is None
    assert weigh(maximizes=False, claimed_bound=9.0, claimed=Termination.TIME_LIMIT).bound == 9.0


def test_a_time_limit_whose_bound_meets_the_plan_is_optimal() -> None:
    assert weigh(claimed=Termination.TIME_LIMIT).termination is Termination.OPTIMAL


def test_the_verified_bound_replaces_a_looser_claim() -> None:
    verdict = weigh(claimed_bound=20.0, verified_bound=12.0, asked_gap=0.5)
    assert (verdict.bound, verdict.source, verdict.termination) == (
        12.0,
        "multipliers",
        Termination.GAP_REACHED,
    )


@pytest.mark.parametrize("bound", [float("nan"), float("inf")])
def test_an_unusable_bound_is_dropped(bound: float) -> None:
    verdict = weigh(claimed_bound=bound)
    assert verdict.bound is None
    assert verdict.notes


def test_optimal_at_a_solvers_tolerance_is_a_gap_not_a_proof() -> None:
    verdict = weigh(claimed_bound=10.0 + 5e-6)
    assert verdict.termination is Termination.GAP_REACHED
    assert "gap" in verdict.notes[0]


@pytest.mark.parametrize("claimed", [Termination.INFEASIBLE, Termination.UNBOUNDED])
def test_a_plan_refutes_infeasible_and_unbounded(claimed: Termination) -> None:
    assert weigh(claimed=claimed, claimed_bound=None).termination is Termination.NUMERICAL_ERROR


def test_optimal_without_a_plan_is_an_error() -> None:
    verdict = weigh(objective=None)
    assert verdict.termination is Termination.ERROR


@pytest.mark.parametrize("termination", list(Termination))
def test_every_termination_is_handled_with_and_without_a_plan(termination: Termination) -> None:
    assert weigh(claimed=termination, claimed_bound=None).termination in set(Termination)
    assert weigh(claimed=termination, objective=None).termination in set(Termination)


def test_a_claim_by_multipliers_is_the_verified_bound_or_nothing() -> None:
    equal = weigh(claimed_source="multipliers", verified_bound=10.0 + 1e-12)
    assert (equal.bound, equal.source, equal.termination) == (
        10.0 + 1e-12,
        "multipliers",
        Termination.OPTIMAL,
    )
    beyond = weigh(claimed_source="multipliers", verified_bound=12.0)
    assert (beyond.bound, beyond.source, beyond.termination) == (
        12.0,
        "multipliers",
        Termination.NUMERICAL_ERROR,
    )
    assert "do not prove" in beyond.notes[0]


@pytest.mark.parametrize("scale", [1e-12, 1e-6, 1.0, 1e6, 1e12])
@pytest.mark.parametrize("maximizes", [True, False])
def test_every_tolerance_is_relative(scale: float, maximizes: bool) -> None:
    """Mutants that divided by the objective where it multiplies survived objectives of 10 alone."""
    better = 1.0 if maximizes else -1.0  # a bound on this side of the objective proves something
    facts: dict[str, Any] = {"maximizes": maximizes, "objective": scale}
    refuted = weigh(**facts, claimed_bound=scale * (1 - better * 3e-9))
    assert refuted.bound is None and "refuted" in refuted.notes[0]
    met = weigh(**facts, claimed_bound=scale * (1 - better * 5e-10))
    assert (met.termination, met.bound) == (Termination.OPTIMAL, scale)
    near = weigh(**facts, claimed_bound=scale * (1 + better * 5e-10))
    assert (near.termination, near.bound) == (Termination.OPTIMAL, scale * (1 + better * 5e-10))
    open_ = weigh(**facts, claimed_bound=scale * (1 + better * 5e-7), claimed=Termination.TIME_LIMIT)
    assert open_.termination is Termination.TIME_LIMIT
    assert (
        weigh(**facts, claimed_bound=scale * (1 + better * 5e-6)).termination is Termination.NUMERICAL_ERROR
    )


def test_a_gap_that_is_just_what_was_asked_for_is_enough() -> None:
    assert weigh(claimed_bound=15.0, asked_gap=0.5).termination is Termination.GAP_REACHED
    assert weigh(claimed_bound=15.0, asked_gap=0.49).termination is Termination.NUMERICAL_ERROR


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_multipliers_refute_a_claim_that_goes_beyond_them(scale: float) -> None:
    facts: dict[str, Any] = {"objective": scale, "claimed_source": "multipliers"}
    beyond = weigh(**facts, claimed_bound=scale * 1.5, verified_bound=scale * 1.6, asked_gap=1.0)
    assert beyond.bound == scale * 1.6 and "do not prove" in beyond.notes[0]
    same = weigh(**facts, claimed_bound=scale * 1.5, verified_bound=scale * 1.5 * (1 + 5e-10), asked_gap=1.0)
    assert same.notes == ()


def test_a_bound_next_to_zero_meets_an_objective_of_zero() -> None:
    """Rounded outward, a bound of 0 is the least double; relative to an objective of 0 nothing is small."""
    verdict = weigh(objective=0.0, claimed_bound=5e-324)
    assert verdict.termination is Termination.OPTIMAL
    assert weigh(objective=0.0, claimed_bound=1e-30).termination is not Termination.OPTIMAL


def test_whoever_interrupts_is_told_so_even_where_the_bound_is_met() -> None:
    assert weigh(claimed=Termination.INTERRUPTED).termination is Termination.INTERRUPTED


@pytest.mark.parametrize(("maximizes", "claimed", "verified"), [(True, 12.0, 11.5), (False, 8.0, 8.5)])
def test_the_tighter_of_two_bounds_is_kept_and_its_source(
    maximizes: bool, claimed: float, verified: float
) -> None:
    limited: dict[str, Any] = {"maximizes": maximizes, "claimed": Termination.TIME_LIMIT}
    verdict = weigh(**limited, claimed_bound=claimed, verified_bound=verified)
    assert (verdict.bound, verdict.source) == (verified, "multipliers")
    verdict = weigh(**limited, claimed_bound=verified, verified_bound=claimed)
    assert (verdict.bound, verdict.source) == (verified, "solver")


def test_a_bound_that_rounding_parts_from_the_objective_is_the_objective() -> None:
    assert weigh(claimed_bound=10.0 * (1 + 5e-13)).bound == 10.0
    assert weigh(claimed_bound=10.0 * (1 + 2e-12)).bound == 10.0 * (1 + 2e-12)


def test_a_gap_of_just_a_solvers_tolerance_is_told_as_a_gap() -> None:
    verdict = weigh(objective=1e6, claimed_bound=1e6 + 1.0)
    assert (verdict.termination, len(verdict.notes)) == (Termination.GAP_REACHED, 1)


def test_what_is_refused_is_said() -> None:
    assert "'optimal' is not supported" in weigh(claimed_bound=20.0).notes[0]
    assert "without a plan" in weigh(objective=None).notes[0]


def test_minimising_a_bound_that_rounding_parts_from_the_objective_is_the_objective() -> None:
    assert weigh(maximizes=False, claimed_bound=10.0 * (1 - 5e-13)).bound == 10.0


def test_the_tolerances_are_those_that_are_documented() -> None:
    by_prices: dict[str, Any] = {"claimed_source": "multipliers", "claimed_bound": 12.0, "asked_gap": 1.0}
    assert weigh(**by_prices, verified_bound=12.0 * (1 + 2e-9)).notes != ()
    assert weigh(claimed_bound=10.0 * (1 + 2e-6)).termination is Termination.NUMERICAL_ERROR


def test_a_claim_by_multipliers_without_a_verified_bound_is_dropped() -> None:
    verdict = weigh(claimed_source="multipliers", claimed=Termination.TIME_LIMIT)
    assert (verdict.bound, verdict.source) == (None, None)
    assert (
        weigh(objective=0.0, claimed_bound=0.0, claimed_source="multipliers", verified_bound=0.0).notes == ()
    )


def test_of_equal_bounds_the_claim_keeps_its_source() -> None:
    verdict = weigh(claimed=Termination.TIME_LIMIT, claimed_bound=12.0, verified_bound=12.0)
    assert (verdict.bound, verdict.source) == (12.0, "solver")


def test_what_is_no_bound_is_said_once_and_nothing_else_is() -> None:
    limited: dict[str, Any] = {"claimed": Termination.TIME_LIMIT}
    assert weigh(**limited, claimed_bound=None).notes == ()
    for bound in ("12", float("inf")):
        verdict = weigh(**limited, claimed_bound=bound)
        assert verdict.bound is None and "not a finite number" in verdict.notes[0]
    assert weigh(**limited, claimed_source=None, claimed_bound=12.0).source == "solver"
    assert weigh(objective=None, claimed=Termination.INFEASIBLE).notes == ()
