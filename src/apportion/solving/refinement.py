"""What one formulation leaves open, another one closes: it begins with the plan and the bound of the first.

A relaxation over few capacities finds the value at once and may not tell who moves; a formulation of every
node tells that, and would search long for the value. In this order each does what it does well.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from apportion.core.options import KnownBound
from apportion.core.outcome import Termination
from apportion.core.solution import Solution
from apportion.solving.call import Call, Log

__all__ = ["closed", "is_open"]


def is_open(solution: Solution) -> bool:
    """Return whether a search has come to an end that decides less than all goals."""
    if solution.termination is Termination.OPTIMAL:
        return not all(goal.proven for goal in solution.goals)
    return solution.termination in (Termination.NODE_LIMIT, Termination.SOLUTION_LIMIT)


def closed(found: Solution, call: Call, by: Callable[[Call, Any, KnownBound | None], Solution]) -> Solution:
    """Return the better of an answer and another one that begins with its plan and its bound.

    Parameters
    ----------
    found
        The answer.
    call
        The call, in what is left of which the other one is found.
    by
        ``by(call, start, bound)``: the other answer.
    """
    bound, source = found.certificate.bound, found.certificate.source
    # what prices show of one model is the claim of a search about another one
    claim = "branch_and_bound" if source == "multipliers" else source
    known = None if bound is None or claim is None else KnownBound(bound, claim)
    again = by(replace(call, options=call.remaining(), log=Log()), found, known)
    notes, times = (*found.notes, *again.notes), {**again.times, "total": call.log.elapsed}
    if _rank(again, call) < _rank(found, call):
        best = found
    elif found.termination is Termination.OPTIMAL and again.objective == found.objective:
        best = replace(found, plan=again.plan, report=again.report, goals=again.goals)
    else:
        best = again
    ended = again.termination is Termination.INTERRUPTED
    return replace(
        best,
        notes=tuple(dict.fromkeys(notes)),
        times=times,
        termination=again.termination if ended else best.termination,
    )


def _rank(solution: Solution, call: Call) -> tuple[float, ...]:
    """Return what makes an answer better than another, in this order."""
    if solution.objective is None:
        return (-math.inf,)
    signs = (-1 if goal.sense == "minimize" else 1 for goal in solution.goals)
    goals = (sign * goal.value for sign, goal in zip(signs, solution.goals, strict=True))
    proven = sum(goal.proven for goal in solution.goals)
    worth = float(f"{solution.objective:.12g}")  # equal sums of doubles differ in the last digits
    optimal = solution.termination is Termination.OPTIMAL
    return (worth if call.maximizes else -worth, *goals, optimal, proven)
