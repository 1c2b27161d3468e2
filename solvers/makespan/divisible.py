"""Gavel's minimum makespan as one linear program in T, its duals as certificate.

Narayanan et al. (OSDI 2020) bisect on T; with shares of work instead of shares of time T is linear.
"""

from __future__ import annotations

from apportion.models.assignment import Assignment
from apportion.models.assignment_lowering import lower_assignment
from apportion.options import SolveOptions
from apportion.outcome import Outcome, Termination
from apportion.solvers.assignment.clock import Clock
from apportion.solvers.assignment.lp import Unsolved, relax
from apportion.solvers.general.guard import check_engines
from apportion.solvers.makespan.first import divisible_prices

__all__ = ["solve"]


def solve(model: Assignment, options: SolveOptions, clock: Clock) -> Outcome:
    """Solve a divisible makespan.

    Parameters
    ----------
    model
        The assignment, divisible.
    options
        Limits.
    clock
        The clock of the call.
    """
    lowered = lower_assignment(model)
    check_engines("highspy")
    relaxation = relax(lowered.model, clock.left)
    if isinstance(relaxation, Unsolved):
        ended = Termination.TIME_LIMIT if clock.over else relaxation.termination
        ended = Termination.NUMERICAL_ERROR if ended is Termination.INFEASIBLE else ended
        return Outcome(termination=ended, raw_status=relaxation.raw)
    shares = lowered.choice(relaxation.point)
    objective = model.objective(shares)
    clock.bound = relaxation.objective
    clock.tell(objective, shares)
    return Outcome(
        termination=Termination.OPTIMAL,
        raw_status="optimal basis",
        point=shares,
        objective=objective,
        bound=relaxation.objective,
        bound_source="solver",
        multipliers=divisible_prices(model, lowered, relaxation),
    )
