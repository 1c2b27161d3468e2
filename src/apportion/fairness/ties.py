"""Of all plans whose sorted shares are as great, one with the best objective: who stays at which level.

Levels hold how many rise. Several sets of tenants may do, and all of them are equally fair; the objective
decides among them, in one question with every floor, every rung, and the values of the instance. What bounds
its optimum bounds the objective of every plan that is as fair, whoever rises in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.fairness.answering import Answering
from apportion.fairness.question import question
from apportion.gap import meets, relative_gap
from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.options import KnownBound
from apportion.outcome import Termination
from apportion.solution import Solution

__all__ = ["Prefer", "Tie", "broken_by_objective", "fair_bound"]

_NEGLIGIBLE = 2e-6
"""Relative gap of which nothing is noted: general solvers say optimal at half of it."""
_NEAR = 1e-2
"""Relative gap up to which a search that a limit ended says who rises."""
_ROUNDING = 1e-12
"""Relative difference that rounding leaves between equal numbers."""
_REFUTED = "the plan's objective refutes the bound over equally fair sets of"

Prefer = Callable[[MultipleChoiceKnapsack, NDArray[np.int64]], Solution]
"""Solves menus from a point that keeps their capacities, within the part of the call that is for ties."""


@dataclass(frozen=True, slots=True)
class Tie:
    """What is known of the best objective among plans that are equally fair.

    Attributes
    ----------
    bound
        A bound on it; ``None`` where none was found.
    prices
        What shows the bound, as far as multipliers do, by the names of a certificate.
    source
        Where the bound comes from, as certificates say it.
    """

    bound: float | None = None
    prices: Mapping[str, float] | None = None
    source: str | None = None

    @property
    def known(self) -> KnownBound | None:
        """What needs no search any more: a bound that holds of every set; prices are taken as they are."""
        if self.bound is None or self.source in (None, "multipliers"):
            return None
        return KnownBound(self.bound, str(self.source))


def broken_by_objective(answering: Answering, prefer: Prefer) -> Tie:
    """Choose who rises by the objective, among all that reach the same floors and rungs.

    The choice at hand stays where the search ends far from its own bound: the plans that keep its shares are
    searched after it, and may then have more.
    """
    model = answering.model
    while answering.choice is not None:
        asked = question(model, answering.floors, answering.rungs, valued=True)
        solution = prefer(asked.menus, asked.point(model, answering.choice))
        shown = solution.certificate.multipliers
        prices = None if shown is None else asked.prices(model, list(shown.values()))
        bound = _outward(solution.bound, model.placing.menus.value_error, asked.menus.sense)
        tie = Tie(bound, prices, solution.certificate.source)
        if not isinstance(solution.plan, np.ndarray):
            return tie
        choice = asked.choice(solution.plan.astype(np.int64))
        placed = model.placing.of(choice)
        if placed == "placed" and _is_near(solution):
            answering.choice = choice
        if placed != "cut" or model.placing.late():
            return tie
    return Tie()


def _is_near(solution: Solution) -> bool:
    """Return whether a search ended as asked, or near its bound."""
    ended = solution.termination in (Termination.OPTIMAL, Termination.GAP_REACHED)
    return ended or (solution.gap is not None and solution.gap <= _NEAR)


def _outward(bound: float | None, error: float, sense: str) -> float | None:
    if bound is None:
        return None
    return bound + error if sense == "maximize" else bound - error


def fair_bound(tie: Tie | None, solution: Solution, *, maximizes: bool) -> tuple[float | None, str | None]:
    """Return a bound on the objective of all plans that are as fair as a solution, and what to note of it.

    Parameters
    ----------
    tie
        What is known of the best among several sets; ``None`` where only one set is as fair.
    solution
        The best plan that keeps the shares of the set that was chosen, all of them.
    maximizes
        The sense of the objective.
    """
    if tie is None:
        return solution.bound, None
    bound, objective = tie.bound, solution.objective
    if bound is None or objective is None:
        return None, "several sets are equally fair: which of them has the best objective is not decided"
    beyond = objective - bound if maximizes else bound - objective
    if beyond >= -_ROUNDING * abs(objective):
        return (objective, None) if meets(objective, bound) else (None, f"{_REFUTED} {bound:.12g}")
    gap = relative_gap(objective, bound)
    if gap <= _NEGLIGIBLE or meets(objective, bound):
        return bound, None
    return bound, f"among sets that are equally fair no objective is beyond {bound:.12g} (gap {gap:.1e})"
