"""What the solvers of an assignment share in one call: the model, the limits and the best schedule found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from apportion.models.assignment import Assignment
from apportion.options import SolveOptions
from apportion.outcome import Outcome, Termination
from apportion.solvers.clock import Clock
from apportion.solvers.incumbent import BestFound

__all__ = ["AssignmentCall"]

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
