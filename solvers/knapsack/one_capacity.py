"""Solve a one-capacity multiple-choice knapsack exactly: dual, greedy choice, reduction, core.

Among equal optima the answer depends on the arrays alone (no clock, no chance), and with `preferred` it keeps
as many jobs at their preferred option as the tie-break search can prove.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from apportion.errors import BackendUnavailable
from apportion.models import MultipleChoiceKnapsack
from apportion.options import SolveOptions
from apportion.outcome import Outcome, Termination
from apportion.solvers.clock import Clock
from apportion.solvers.knapsack.menu_blocks import build
from apportion.solvers.knapsack.phases import PhasedSolve

__all__ = ["solve"]


def solve(
    model: MultipleChoiceKnapsack,
    options: SolveOptions,
    start: NDArray[np.int64] | None = None,
    preferred: NDArray[np.int64] | None = None,
    hint: float | None = None,
) -> Outcome:
    """Solve a knapsack with one capacity.

    Parameters
    ----------
    model
        The model; either sense.
    options
        Limits. A `time_limit` is looked at between sweeps over the menus and between stages of the core;
        a `work_limit` counts expanded states of the core.
    start
        A choice to start from (the model's row per job, -1 for none); ignored if it is not feasible.
    preferred
        A row per job, or -1: among optima equal within 1e-12 relative, the one that keeps more jobs at their
        preferred row is chosen. The counter ``tie_break_proven`` says whether that was searched to the end.

    hint
        The multiplier of a similar model, where the search for this one's begins.

    Returns
    -------
    Outcome
        Its bound is the objective when proven (``dynamic_programming``, or ``multipliers`` where the
        Lagrangian bound alone proves it), loosened by what rounding may hide where that is more than 1e-12 of
        the values chosen.

    Raises
    ------
    BackendUnavailable
        If the model has not exactly one capacity.
    """
    if model.num_capacities != 1:
        raise BackendUnavailable(
            f"this solver takes one capacity, the model has {model.num_capacities}; use the exact backend"
        )
    clock = Clock(options)
    try:
        menus = build(model)
    except KeyboardInterrupt:
        return Outcome(termination=Termination.INTERRUPTED, raw_status="interrupted before the first choice")
    if menus is None:
        return Outcome(
            termination=Termination.INFEASIBLE,
            raw_status="the least uses of the required jobs exceed the capacity",
            seconds={"solve": clock.seconds},
        )
    if model.num_options and max(float(model.values.max()), -float(model.values.min())) >= 1e150:
        return Outcome(
            termination=Termination.NUMERICAL_ERROR, raw_status="values of 1e150 and more would overflow"
        )
    run = PhasedSolve(model, menus, options, clock)
    try:
        termination = run.to_the_end(start, hint)
        if preferred is not None and termination is Termination.OPTIMAL:
            run.settle_ties(np.asarray(preferred, dtype=np.int64))
    except KeyboardInterrupt:
        termination = Termination.INTERRUPTED
    return run.outcome(termination)
