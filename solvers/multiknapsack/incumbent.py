"""The best choice so far: checked in integers before it is kept, and what would be better than it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.options import SolveOptions
from apportion.solvers.clock import Clock
from apportion.solvers.incumbent import BestFound

from .option_table import OptionTable

__all__ = ["EQUAL", "BestChoice"]

EQUAL = 5e-10
"""Relative difference of values that counts as none: half of what is called optimal."""


class BestChoice(BestFound[NDArray[np.int64]]):
    """The incumbent of one solve call; its point is the chosen row of every job, -1 for none.

    Parameters
    ----------
    model
        The model whose rows choices name.
    options
        For `gap` and `on_incumbent`.
    clock
        For the seconds reported.

    Attributes
    ----------
    step
        The step of the grid on which all objectives lie, 0 where none is known.
    """

    def __init__(self, model: MultipleChoiceKnapsack, options: SolveOptions, clock: Clock) -> None:
        super().__init__(model.sense == "maximize", options, clock)
        self._model = model
        self.step = 0.0

    @property
    def value(self) -> float | None:
        """The incumbent's value, maximising."""
        return None if self.objective is None else self.sign * self.objective

    @property
    def floor(self) -> float | None:
        """The least value of interest, maximising: one step above the incumbent, or `EQUAL` of it."""
        value = self.value
        if value is None:
            return None
        return value + (self.step if self.step > 0 else EQUAL * abs(value))

    @property
    def proven(self) -> bool:
        """Whether nothing better can exist by the bound and the grid of values."""
        floor = self.floor
        if floor is None or self.bound is None:
            return False
        ceiling = self.sign * self.bound
        return ceiling < floor - 0.5 * self.step if self.step > 0 else ceiling <= floor

    @property
    def close(self) -> bool:
        """Whether the relative gap asked for is reached."""
        return self.objective is not None and self.closes(self.objective)

    def among(self, menus: OptionTable) -> NDArray[np.int64] | None:
        """Return int64 [jobs], the incumbent's options of some menus, ``None`` where one is missing."""
        if self.point is None:
            return None
        place = menus.locate(self.point)
        return place if bool((place >= 0).all()) else None

    def fits(self, rows: NDArray[np.int64]) -> bool:
        """Return whether a choice of rows serves every required job and keeps every capacity."""
        return self._model.fits(rows)

    def values_of(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the values of the rows that are chosen, maximising."""
        return self.sign * self._model.values[rows[rows >= 0]]

    def take(self, rows: NDArray[np.int64]) -> bool:
        """Keep and report a choice of rows if it is feasible and better; return whether it was kept."""
        return self.fits(rows) and self.offer(rows, self._model.objective(rows))
