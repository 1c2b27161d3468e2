"""What is true of a case: its optimum in fractions, and what any plan is worth, read from the JSON alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import Any, NamedTuple

from tests.hunt import truth_freezing, truth_gap_filling, truth_knapsack, truth_matching, truth_tenants
from tests.hunt.case import Case

__all__ = ["Truth", "Worth", "truth_of", "truth_under", "worth_of"]

Worth = Fraction | None
"""The objective of a plan; ``None`` if it breaks a rule."""


class Truth(NamedTuple):
    """The optimum.

    Attributes
    ----------
    maximize
        Whether more is better.
    best
        The optimal objective; ``None`` if there is no feasible plan.
    """

    maximize: bool
    best: Fraction | None


_BEST: Mapping[str, Callable[[Any], tuple[bool, Fraction | None]]] = MappingProxyType(
    {
        "gap_filling": truth_gap_filling.best,
        "multiple_choice_knapsack": truth_knapsack.best,
        "menus": truth_knapsack.best_of_arrays,
        "matching": truth_matching.best,
        "assignment": truth_matching.best_of_arrays,
        "freezing": truth_freezing.best,
        "tenants": truth_tenants.best,
    }
)
_WORTH: Mapping[str, Callable[[Any, Any], Worth]] = MappingProxyType(
    {
        "gap_filling": truth_gap_filling.worth,
        "multiple_choice_knapsack": truth_knapsack.worth,
        "menus": truth_knapsack.worth_of_arrays,
        "matching": truth_matching.worth,
        "assignment": truth_matching.worth_of_arrays,
        "freezing": truth_freezing.worth,
        "tenants": truth_tenants.worth,
    }
)


def truth_of(case: Case) -> Truth:
    """Return the optimum of a case."""
    return Truth(*_BEST[case.kind](case.document))


def truth_under(case: Case, floors: Mapping[str, int]) -> Truth:
    """Return the optimum among the plans that keep shares: those that a solution says are due."""
    return Truth(*truth_tenants.best(case.document, floors))


def worth_of(case: Case, plan: Any) -> Worth:
    """Return what a plan is worth, ``None`` if it breaks a rule of the documents."""
    return _WORTH[case.kind](case.document, plan)
