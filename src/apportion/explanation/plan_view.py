"""One plan beside its menus and prices: the numbers every question about it is answered from."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.explanation.parts import Difference, OptionWorth
from apportion.explanation.subject import Subject
from apportion.formulations.protocol import KnapsackFormulation
from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.outcome import Termination
from apportion.solution import Solution

__all__ = ["PlanView", "difference", "settled"]


@dataclass(frozen=True, slots=True, eq=False)
class PlanView:
    """A solved instance as arrays.

    Attributes
    ----------
    subject, structure, solution
        The instance, its menus and its solution with a plan.
    rows
        int64 [jobs]: the chosen row per job, -1 for none.
    prices
        float64 [capacities], or ``None`` if there are no multipliers.
    """

    subject: Subject
    structure: KnapsackFormulation
    solution: Solution
    rows: NDArray[np.int64]
    prices: NDArray[np.float64] | None

    @property
    def model(self) -> MultipleChoiceKnapsack:
        """The menus."""
        return self.structure.model

    @property
    def sign(self) -> float:
        """1 when maximising, -1 when minimising."""
        return 1.0 if self.model.sense == "maximize" else -1.0

    def worth(self, row: int) -> OptionWorth:
        """Return an option at the prices; row -1 is leaving the job out."""
        if row < 0:
            free = None if self.prices is None else 0.0
            return OptionWorth(None, 0.0, {}, free, free)
        value, uses = float(self.model.values[row]), self.model.uses[row]
        pays = None if self.prices is None else float(uses @ self.prices)
        return OptionWorth(
            option=self.structure.option_name(row),
            value=value,
            uses={self.model.capacity_names[k]: int(uses[k]) for k in np.flatnonzero(uses)},
            pays=pays,
            net=None if pays is None else settled(self.sign * value - pays, max(abs(value), pays)),
        )

    def choices(self, job: int) -> list[int]:
        """Return the rows a job may get, -1 first where it may be left out."""
        menu = range(int(self.model.offsets[job]), int(self.model.offsets[job + 1]))
        return ([] if self.model.required[job] else [-1]) + list(menu)


def settled(gain: float, scale: float) -> float:
    """Return a difference of sums of doubles, 0 where it is below their rounding."""
    return 0.0 if abs(gain) <= 1e-12 * scale else gain


def difference(better: Solution, worse: Solution, sign: float, least: float | None = 0.0) -> Difference:
    """Return by how much one optimum exceeds another, exactly if both are proven.

    Parameters
    ----------
    better, worse
        Two solutions with plans.
    sign
        1 when maximising, -1 when minimising.
    least
        What the difference cannot be below, where that is known.
    """
    high = None if better.bound is None or worse.objective is None else better.bound - worse.objective
    low = None if worse.bound is None or better.objective is None else better.objective - worse.bound
    if sign < 0:
        high, low = (None if high is None else -high), (None if low is None else -low)
    if better.termination is worse.termination is Termination.OPTIMAL:
        assert better.objective is not None
        assert worse.objective is not None
        scale = max(abs(better.objective), abs(worse.objective))
        gain = settled(sign * (better.objective - worse.objective), scale)
        gain = gain if least is None else max(gain, least)
        return Difference(gain, gain, gain)
    if least is not None:
        low = least if low is None else max(low, least)
        high = None if high is None else max(high, least)
    assert low is None or math.isfinite(low)
    return Difference(None, low, high)
