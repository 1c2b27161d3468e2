"""How a search for the least makespan ended."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from apportion.outcome import Outcome, Termination
from apportion.solvers.assignment.call import AssignmentCall
from apportion.solvers.clock import Clock

__all__ = ["ended", "searched"]


def ended(clock: Clock) -> Termination:
    """Say why a search without a proof ended: by a limit of the call only if that was reached."""
    return clock.stopped() or Termination.SOLUTION_LIMIT


def searched(
    call: AssignmentCall,
    choice: NDArray[np.int64],
    prices: NDArray[np.float64],
    termination: Termination,
    nodes: int | None = None,
    own: float | None = None,
) -> Outcome:
    """Return a choice with the call's bound; if it is not `own` any more, a general solver has raised it."""
    call.offer(choice)
    return Outcome(
        termination=termination,
        raw_status="searched",
        point=choice,
        objective=call.model.objective(choice),
        bound=call.best.bound,
        bound_source="branch_and_bound" if own is None or own == call.best.bound else "solver",
        multipliers=prices,
        seconds={"solve": call.clock.seconds},
        counters={} if nodes is None else {"nodes": float(nodes)},
    )
