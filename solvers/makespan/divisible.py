"""Gavel's minimum makespan as one linear program in T, its duals as certificate.

Narayanan et al. (OSDI 2020) bisect on T; with shares of work instead of shares of time T is linear.
"""

from __future__ import annotations

from apportion.models.assignment_lowering import lower_assignment
from apportion.outcome import Outcome, Termination
from apportion.solvers.assignment.call import AssignmentCall
from apportion.solvers.assignment.lp import Unsolved, relax
from apportion.solvers.general.guard import check_engines
from apportion.solvers.makespan.first import divisible_prices

__all__ = ["solve"]


def solve(call: AssignmentCall) -> Outcome:
    """Solve the divisible makespan of a call."""
    model = call.model
    lowered = lower_assignment(model)
    check_engines("highspy")
    relaxation = relax(lowered.model, call.clock.seconds_left)
    if isinstance(relaxation, Unsolved):
        ended = Termination.TIME_LIMIT if call.clock.late() else relaxation.termination
        ended = Termination.NUMERICAL_ERROR if ended is Termination.INFEASIBLE else ended
        return Outcome(termination=ended, raw_status=relaxation.raw)
    shares = lowered.choice(relaxation.point)
    call.best.bound = relaxation.objective
    call.offer(shares)
    return Outcome(
        termination=Termination.OPTIMAL,
        raw_status="optimal basis",
        point=shares,
        objective=model.objective(shares),
        bound=relaxation.objective,
        bound_source="solver",
        multipliers=divisible_prices(model, lowered, relaxation),
    )
