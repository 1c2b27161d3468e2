"""Hold everything a solution says against the truth."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any, NamedTuple

from apportion import Solution
from apportion.io import stored
from tests.hunt.case import INSTANCE, Case
from tests.hunt.truth import Truth, worth_of

__all__ = ["Mismatch", "differences", "mismatches"]

_ROUNDING = Fraction(1, 10**12)
"""Rounding of an objective, relative to itself: ten times what the package allows itself."""
_TIMED = Fraction(4, 10**9)
"""Relative overlap of time that the rules of schedules and shares allow."""
_REFUSED = "takes bounded integer models only"
"""What CP-SAT's call says of a model that it cannot be given."""
_PROOFS = ("optimal", "infeasible")
_BROKEN = ("error", "numerical_error", "unbounded", "infeasible_or_unbounded")


class Mismatch(NamedTuple):
    """One thing that is wrong: which sort, and what was found."""

    sort: str
    told: str


def mismatches(
    case: Case, truth: Truth, solution: Solution, *, complete: bool, tolerance: float
) -> list[Mismatch]:
    """Return all that is wrong with a solution.

    Parameters
    ----------
    case, truth
        What was asked and what is true.
    solution
        What came.
    complete
        Whether the call had no limit and must end with a proof.
    tolerance
        Relative error up to which a claim of optimality passes.
    """
    found: list[Mismatch] = []
    sign, best = (1 if truth.maximize else -1), truth.best
    ended = solution.termination.value
    timed = case.document.get("objective", case.document.get("goal")) == "makespan"
    objective = None
    if solution.plan is not None:
        worth = worth_of(case, solution.plan)
        if worth is None:
            found.append(Mismatch("plan_breaks_a_rule", f"{solution.plan}"))
        else:
            objective = worth
            given = solution.objective
            if given is None or abs(Fraction(given) - objective) > _ROUNDING * abs(objective):
                found.append(Mismatch("objective_wrong", f"told {given!r}, is {float(objective)!r}"))
    if best is None:
        if solution.plan is not None:
            found.append(Mismatch("plan_of_nothing", "there is no feasible plan at all"))
    else:
        slack = tolerance * abs(best) + (_TIMED * best if timed else 0)
        if ended == "infeasible":
            found.append(Mismatch("wrong_infeasible", f"the optimum is {float(best)!r}"))
        if objective is not None and sign * (objective - best) > slack:
            found.append(
                Mismatch("better_than_best", f"{float(objective)!r}, the optimum is {float(best)!r}")
            )
        if ended == "optimal" and objective is not None and sign * (best - objective) > slack:
            found.append(
                Mismatch(
                    "wrong_optimal",
                    f"{float(objective)!r}, the optimum is {float(best)!r}, {_source(solution)}",
                )
            )
        gap = Fraction(case.options.get("gap", 0)) * max(abs(objective or 0), Fraction(1, 10**9))
        if ended == "gap_reached" and objective is not None and sign * (best - objective) > slack + gap:
            found.append(Mismatch("wrong_gap", f"{float(objective)!r}, the optimum is {float(best)!r}"))
        for name, bound, allowed in (
            ("bound", solution.bound, slack),
            ("verified_bound", solution.certificate.verified_bound, 0),
        ):
            if bound is not None and sign * (best - Fraction(bound)) > allowed:
                told = f"{bound!r} cuts off the optimum {float(best)!r}, {_source(solution)}"
                found.append(Mismatch(f"{name}_cuts_off", told))
    if complete and not found:
        if best is not None and solution.plan is None:
            found.append(Mismatch("no_plan", f"{ended}; {list(solution.notes)}"))
        elif ended not in _PROOFS:
            found.append(Mismatch("unproven", f"{ended}; {list(solution.notes)}, {_source(solution)}"))
    elif ended in _BROKEN and not found and not any(_REFUSED in note for note in solution.notes):
        found.append(Mismatch("broken", f"{ended}; {list(solution.notes)}"))
    if case.subject == INSTANCE:
        told = json.loads(stored.encode(stored.document(solution)))
        wrong = [check for check in stored.verify(solution.instance, told).checks if not check[1]]
        if wrong:
            found.append(Mismatch("own_check_refuses", f"{wrong}"))
    return found


def differences(first: Solution, second: Solution, what: str) -> list[Mismatch]:
    """Return what differs between two answers that must be the same."""
    pairs: list[tuple[str, Any, Any]] = [
        ("termination", first.termination, second.termination),
        ("objective", first.objective, second.objective),
        ("bound", first.bound, second.bound),
        ("plan", _listed(first.plan), _listed(second.plan)),
    ]
    told = [f"{name}: {one!r} and {two!r}" for name, one, two in pairs if one != two]
    return [Mismatch(what, "; ".join(told))] if told else []


def _listed(plan: Any) -> Any:
    return plan.tolist() if hasattr(plan, "tolist") else plan


def _source(solution: Solution) -> str:
    return f"bound {solution.bound!r} by {solution.certificate.source}, {solution.outcome.raw_status!r}"
