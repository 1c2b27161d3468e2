"""How a backend is called: one type of call per type of model it accepts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from apportion.models.assignment import Assignment
    from apportion.models.linear import LinearModel
    from apportion.models.multiple_choice import MultipleChoiceKnapsack
    from apportion.options import SolveOptions, Start
    from apportion.outcome import Outcome

__all__ = ["AssignmentSolver", "KnapsackSolver", "LinearSolver", "Solver"]


class KnapsackSolver(Protocol):
    """Answers a `MultipleChoiceKnapsack` with a choice."""

    def __call__(self, model: MultipleChoiceKnapsack, options: SolveOptions, start: Start, /) -> Outcome:
        """Solve a knapsack; `options.time_limit` is what is left for this call."""
        ...


class AssignmentSolver(Protocol):
    """Answers an `Assignment` with a choice of entries, or with shares where it is divisible."""

    def __call__(self, model: Assignment, options: SolveOptions, start: Start, /) -> Outcome:
        """Solve an assignment; `options.time_limit` is what is left for this call."""
        ...


class LinearSolver(Protocol):
    """Answers a `LinearModel` with float64 column values; of a start it knows the point alone."""

    def __call__(
        self, model: LinearModel, options: SolveOptions, start: NDArray[np.float64] | None, /
    ) -> Outcome:
        """Solve a linear model; `options.time_limit` is what is left for this call."""
        ...


Solver = KnapsackSolver | AssignmentSolver | LinearSolver
"""Whichever of them a backend's ``accepts`` says."""
