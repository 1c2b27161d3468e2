"""A bare `MultipleChoiceKnapsack` as an instance kind of its own: its plan is an int64 array of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from apportion.instances.kinds import Kind
from apportion.models.lagrangian import exact_lagrangian_bound
from apportion.models.lowering import Lowered, lower
from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.report import Report

__all__ = ["ARRAYS", "BareMenus"]


class BareMenus:
    """Ragged menus taken as they are.

    Attributes
    ----------
    model
        The menus.
    value_error
        0: values are taken as they are.
    """

    __slots__ = ("model", "value_error")

    def __init__(self, model: MultipleChoiceKnapsack) -> None:
        self.model = model
        self.value_error = 0.0

    def exact_values(self) -> list[Fraction]:
        """Return the values themselves."""
        return list(map(Fraction, self.model.values.tolist()))

    def plan(self, choice: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the choice itself."""
        return choice

    def choice(self, plan: object) -> NDArray[np.int64] | None:
        """Return a plan of the right shape as it is, rows of other menus as -1; otherwise ``None``."""
        rows = np.asarray(plan)
        if rows.dtype.kind not in "iu" or rows.shape != (self.model.num_jobs,):
            return None
        own = (rows >= self.model.offsets[:-1]) & (rows < self.model.offsets[1:])
        return np.where(own, rows, -1).astype(np.int64)

    def preferred(self) -> None:
        """Return ``None``: bare arrays have no present state."""
        return

    def lowered(self) -> Lowered:
        """Return the MILP, its columns numbered."""
        return lower(self.model)

    def job_names(self) -> Sequence[str]:
        """Return the jobs' numbers, ``job 0`` first."""
        return tuple(f"job {index}" for index in range(self.model.num_jobs))

    def option_name(self, row: int) -> str:
        """Return the option's row."""
        return str(row)

    def demand(self) -> MultipleChoiceKnapsack:
        """Return the menus themselves: they do not depend on the capacities."""
        return self.model


def _check(model: MultipleChoiceKnapsack, plan: ArrayLike) -> Report:
    return model.check(plan)


def _exact_objective(model: MultipleChoiceKnapsack, plan: object) -> Fraction:
    chosen = np.asarray(plan)
    return sum((Fraction(float(value)) for value in model.values[chosen[chosen >= 0]]), Fraction(0))


def _exact_bound(model: MultipleChoiceKnapsack, multipliers: Mapping[str, float]) -> Fraction | None:
    return exact_lagrangian_bound(model, np.array([multipliers[name] for name in model.capacity_names]))


ARRAYS = Kind(
    "multiple_choice_knapsack",
    MultipleChoiceKnapsack,
    lambda model: bool(model.sense == "maximize"),
    _check,
    _exact_objective,
    _exact_bound,
)
"""The kind of a bare model; it is never written to JSON."""
