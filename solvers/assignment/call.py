"""What the solvers of an assignment share in one call: the model, the limits and the best schedule found.

Prove that no placement of the required jobs fits: prices at which they pay more than the capacities cost.

For any prices lambda >= 0 a placement of the required jobs uses at least ``sum_j min_i lambda_i u_ji`` and
at most ``sum_i lambda_i C_i``; if the first is more, there is none (Farkas).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.core.options import SolveOptions
from apportion.core.outcome import Outcome, Termination
from apportion.models.assignment import Assignment
from apportion.models.linear import LinearModel, LinearModelBuilder
from apportion.solvers.assignment.relaxation import Relaxation, relax
from apportion.solvers.clock import Clock
from apportion.solvers.general.points import BestFound

__all__ = ["AssignmentCall", "no_placement", "prices_exclude", "small"]


_GRAIN = 2**40
"""Prices are whole numbers up to here: any prices prove, so rounding them loses strength, never truth."""


def no_placement(model: Assignment, seconds: float | None = None) -> bool:
    """Return whether prices are found that exclude every placement of the required jobs.

    Parameters
    ----------
    model
        An assignment with a cost or a value.
    seconds
        Time limit for finding them.
    """
    limited = np.flatnonzero(model.limited)
    if not limited.size or not model.required.any():
        return False
    relaxation = relax(_overflow(model, limited), seconds)
    if not isinstance(relaxation, Relaxation):
        return False
    prices = np.zeros(model.num_machines)
    prices[limited] = np.maximum(-relaxation.duals[model.num_jobs :], 0.0)
    return prices_exclude(model, prices)


def prices_exclude(model: Assignment, prices: NDArray[np.float64]) -> bool:
    """Return whether prices exclude every placement, computed in whole numbers of any size."""
    largest = float(prices.max(initial=0.0))
    if not largest > 0 or not np.isfinite(largest):
        return False
    price = np.rint(np.where(model.limited, prices, 0.0) / largest * _GRAIN).astype(np.int64).astype(object)
    paid = price[model.machine] * model.uses.astype(object)
    filled = np.flatnonzero(np.diff(model.offsets))
    least = np.zeros(model.num_jobs, dtype=object)
    least[filled] = np.minimum.reduceat(paid, model.offsets[:-1][filled])
    total = sum(least[model.required].tolist())
    room = sum(int(price[k]) * int(model.capacities[k]) for k in np.flatnonzero(model.limited).tolist())
    return bool(total > room)


def small(model: Assignment) -> bool:
    """Return whether floats hold every sum of uses with room to spare: HiGHS's search then is believed."""
    most = float(model.uses.max(initial=0)) * model.num_jobs
    return max(most, float(model.capacities[model.limited].max(initial=0))) < 2.0**40


def _overflow(model: Assignment, limited: NDArray[np.int64]) -> LinearModel:
    """Return the linear program of the least total overflow; its capacity duals are the prices."""
    m = LinearModelBuilder("minimize")
    x = m.continuous("x", (model.num_options,), 0.0, 1.0)
    over = m.continuous("over", (limited.size,))
    m.between("one_machine", model.required.astype(np.float64), x.segment_sum(model.offsets), 1.0)
    order = np.argsort(model.machine, kind="stable")
    ends = np.concatenate(([0], np.cumsum(np.bincount(model.machine, minlength=model.num_machines))))
    used = (x[order] * model.uses[order]).segment_sum(ends.astype(np.int64))[limited]
    m.at_most("capacity", used - over, model.capacities[limited])
    m.objective(over.sum())
    return m.build()


_ROUNDING = 1e-10
"""Relative distance of a bound that counts as none."""


@dataclass(frozen=True, slots=True)
class AssignmentCall:
    """One call of an assignment solver.

    Attributes
    ----------
    model
        What is solved.
    options
        The gap, the seed and the limits; deterministic calls count nodes and rounds, not seconds.
    clock
        What the limits leave.
    best
        The best choice found, or shares, and the best bound.
    """

    model: Assignment
    options: SolveOptions
    clock: Clock
    best: BestFound[NDArray[Any]]

    @classmethod
    def begun(cls, model: Assignment, options: SolveOptions) -> AssignmentCall:
        """Begin a call: its clock runs from now."""
        clock = Clock(options)
        return cls(model, options, clock, BestFound(model.sense == "maximize", options, clock))

    def closes(self, objective: float) -> bool:
        """Return whether the bound shows that an objective is as close as asked for."""
        return self.best.closes(objective, _ROUNDING)

    def offer(self, choice: NDArray[Any]) -> None:
        """Keep and report a feasible choice, or shares, if it is better than the best so far."""
        self.best.offer(choice, self.model.objective(choice))

    def interrupted(self) -> Outcome:
        """Return the best found so far, whatever the search was about when Ctrl-C came."""
        best = self.best
        return Outcome(
            termination=Termination.INTERRUPTED,
            raw_status="KeyboardInterrupt",
            point=best.point,
            objective=best.objective,
            bound=best.bound,
            bound_source=None if best.bound is None else "branch_and_bound",
        )
