"""Gavel's minimum makespan as one linear program in T, its duals as certificate.

Narayanan et al. (OSDI 2020) bisect on T; with shares of work instead of shares of time T is linear.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from apportion.models.assignment import Assignment
from apportion.models.assignment_bounds import weak_duality_bound
from apportion.models.assignment_lowering import LoweredAssignment, lower_assignment
from apportion.outcome import Outcome, Termination
from apportion.solvers.assignment.call import AssignmentCall
from apportion.solvers.assignment.lp import Unsolved, relax
from apportion.solvers.general.guard import check_engines
from apportion.solvers.makespan.first import divisible_prices

__all__ = ["solve"]

_NEAR = 1e-6
"""How far the bound of an optimum's own prices may stay below it: HiGHS's tolerances are 1e-7."""
_FAR = 1e3
"""Entries so many times longer than all jobs one after the other take hardly a share of a plan."""


def solve(call: AssignmentCall) -> Outcome:
    """Solve the divisible makespan of a call.

    Times that differ by fifteen orders let HiGHS call a plan optimal that its own prices do not show to be.
    Then the program is solved without the hopelessly long entries, and the prices, which hold for all of
    them, decide.
    """
    model = call.model
    lowered = lower_assignment(model)
    check_engines("highspy")
    outcome = _solved(call, lowered, None)
    if outcome.termination is not Termination.OPTIMAL:
        return outcome
    if _shown(model, outcome):
        return _told(call, outcome)
    long = _hopeless(model)
    other = _solved(call, lowered, np.append(long, False)) if long.any() else outcome
    if other.objective is not None and outcome.objective is not None and other.objective < outcome.objective:
        outcome = other
    if not _shown(model, outcome):
        outcome = replace(
            outcome,
            termination=Termination.NUMERICAL_ERROR,
            raw_status="the prices do not show the optimum that HiGHS claims",
            bound=None,
            bound_source=None,
        )
    return _told(call, outcome)


def _told(call: AssignmentCall, outcome: Outcome) -> Outcome:
    """Return an outcome that the call's listener has heard of."""
    call.best.bound = outcome.bound
    if outcome.point is not None:
        call.offer(outcome.point)
    return outcome


def _solved(call: AssignmentCall, lowered: LoweredAssignment, forbidden: NDArray[np.bool_] | None) -> Outcome:
    """Return HiGHS's optimum; without all entries its bound is that of its prices."""
    model = call.model
    relaxation = relax(lowered.model, call.clock.seconds_left, forbidden)
    if isinstance(relaxation, Unsolved):
        ended = Termination.TIME_LIMIT if call.clock.late() else relaxation.termination
        ended = Termination.NUMERICAL_ERROR if ended is Termination.INFEASIBLE else ended
        return Outcome(termination=ended, raw_status=relaxation.raw)
    shares = lowered.choice(relaxation.point)
    prices = divisible_prices(model, lowered, relaxation)
    bound = relaxation.objective if forbidden is None else weak_duality_bound(model, prices)
    return Outcome(
        termination=Termination.OPTIMAL,
        raw_status="optimal basis",
        point=shares,
        objective=model.objective(shares),
        bound=bound,
        bound_source="solver",
        multipliers=prices,
    )


def _shown(model: Assignment, outcome: Outcome) -> bool:
    """Return whether the outcome's own prices show that nothing ends much earlier."""
    if outcome.multipliers is None or outcome.objective is None:
        return False
    bound = weak_duality_bound(model, outcome.multipliers)
    return bound is not None and outcome.objective - bound <= _NEAR * outcome.objective


def _hopeless(model: Assignment) -> NDArray[np.bool_]:
    """Return bool [entries]: those far longer than all jobs together, each where it is quickest."""
    filled = model.offsets[:-1][np.diff(model.offsets) > 0]
    quickest = np.minimum.reduceat(model.values, filled) if filled.size else np.zeros(1)
    return np.asarray(model.values > _FAR * float(quickest.sum()), dtype=np.bool_)
