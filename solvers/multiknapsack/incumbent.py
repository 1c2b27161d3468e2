"""The best choice so far: checked in integers before it is kept, reported when it improves."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from apportion.gap import absolute_gap
from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.options import Incumbent, SolveOptions

from .budget import Budget

__all__ = ["EQUAL", "Best"]

EQUAL = 5e-10
"""Relative difference of values that counts as none: half of what is called optimal."""


class Best:
    """The incumbent of one solve call, and the bound it is measured against.

    Parameters
    ----------
    model
        The model whose rows choices name.
    options
        For `gap` and `on_incumbent`.
    budget
        For the seconds reported.
    """

    def __init__(self, model: MultipleChoiceKnapsack, options: SolveOptions, budget: Budget) -> None:
        self._model = model
        self._options = options
        self._budget = budget
        self._sign = 1.0 if model.sense == "maximize" else -1.0
        self.rows: NDArray[np.int64] | None = None
        self.objective: float | None = None
        self.bound: float | None = None
        self.step = 0.0
        self.improvements = 0

    @property
    def value(self) -> float | None:
        """The incumbent's value, maximising."""
        return None if self.objective is None else self._sign * self.objective

    @property
    def floor(self) -> float | None:
        """The least value of interest, maximising: one step above the incumbent, or `EQUAL` of it."""
        value = self.value
        if value is None:
            return None
        return value + (self.step if self.step > 0 else EQUAL * abs(value))

    @property
    def ceiling(self) -> float | None:
        """The bound, maximising."""
        return None if self.bound is None else self._sign * self.bound

    @property
    def proven(self) -> bool:
        """Whether nothing better can exist by the bound and the grid of values."""
        floor, ceiling = self.floor, self.ceiling
        if floor is None or ceiling is None:
            return False
        return ceiling < floor - 0.5 * self.step if self.step > 0 else ceiling <= floor

    @property
    def close(self) -> bool:
        """Whether the relative gap asked for is reached."""
        if self.objective is None or self.bound is None:
            return False
        return abs(self.bound - self.objective) <= absolute_gap(self.objective, self._options.gap)

    def fits(self, rows: NDArray[np.int64]) -> bool:
        """Whether a choice of rows serves every required job and keeps every capacity."""
        model = self._model
        if (model.required & (rows < 0)).any():
            return False
        return bool((model.used(rows) <= model.capacities).all())

    def values_of(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the values of the rows that are chosen, maximising."""
        return self._sign * self._model.values[rows[rows >= 0]]

    def offer(self, rows: NDArray[np.int64]) -> bool:
        """Keep a choice of rows if it is feasible and better; calls `on_incumbent` if it is kept."""
        model = self._model
        if not self.fits(rows):
            return False
        objective = model.objective(rows)
        if self.objective is not None and self._sign * (objective - self.objective) <= 0:
            return False
        self.rows, self.objective = rows, objective
        self.improvements += 1
        if self._options.on_incumbent is not None:
            self._options.on_incumbent(Incumbent(objective, self.bound, self._budget.seconds))
        return True
