"""Gavel's minimum makespan as one linear program in T, its duals as certificate.

Narayanan et al. (OSDI 2020) bisect on T; with shares of work instead of shares of time T is linear.
"""

from __future__ import annotations

from apportion.models.assignment import Assignment
from apportion.models.assignment_lowering import lower_assignment
from apportion.options import SolveOptions
from apportion.outcome import Outcome, Termination
from apportion.solvers.assignment.clock import Clock
from apportion.solvers.assignment.lp import relax
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
    relaxation = relax(lowered.model, clock.left)
    if relaxation is None:
        return Outcome(termination=Termination.TIME_LIMIT, raw_status="no optimal basis in time")
    shares = lowered.choice(relaxation.point)
    objective = model.objective(shares)
    clock.bound = relaxation.objective
    clock.tell(objective)
    return Outcome(
        termination=Termination.OPTIMAL,
        raw_status="optimal basis",
        point=shares,
        objective=objective,
        bound=relaxation.objective,
        bound_source="solver",
        multipliers=divisible_prices(model, lowered, relaxation),
    )
