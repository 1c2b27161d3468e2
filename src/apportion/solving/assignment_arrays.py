"""A bare `Assignment` as an instance kind of its own: its plan is its point."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from apportion.instances.kinds import Kind
from apportion.models.assignment import Assignment
from apportion.models.assignment_lowering import LoweredAssignment, lower_assignment
from apportion.options import Point
from apportion.report import Report

__all__ = ["ASSIGNMENT", "BareAssignment"]


class BareAssignment:
    """An assignment taken as it is.

    Attributes
    ----------
    model
        The model.
    value_error
        0: values are taken as they are.
    relaxes
        False: a point is its own plan.
    """

    __slots__ = ("model", "relaxes", "value_error")

    def __init__(self, model: Assignment) -> None:
        self.model = model
        self.value_error = 0.0
        self.relaxes = False

    def plan(self, point: Point) -> Point:
        """Return the point itself."""
        return point

    def choice(self, plan: object) -> Point | None:
        """Return a plan of the right shape as it is, entries of other jobs as -1; otherwise ``None``."""
        point = np.asarray(plan)
        if self.model.divisible:
            fits = point.shape == (self.model.num_options,) and point.dtype.kind in "iuf"
            return point.astype(np.float64) if fits else None
        if point.dtype.kind not in "iu" or point.shape[-1:] != (self.model.num_jobs,) or point.ndim > 2:
            return None
        if point.ndim == 2:  # a makespan with the turns of its jobs, checked as it is
            return point.astype(np.int64) if self.model.check(point).feasible else None
        own = (point >= self.model.offsets[:-1]) & (point < self.model.offsets[1:])
        return np.where(own, point, -1).astype(np.int64)

    def preferred(self) -> None:
        """Return ``None``: bare arrays have no present state."""
        return

    def lowered(self) -> LoweredAssignment:
        """Return the linear model, its columns numbered."""
        return lower_assignment(self.model)

    def job_names(self) -> list[str]:
        """Return the jobs' positions as text."""
        return [str(job) for job in range(self.model.num_jobs)]

    def option_name(self, row: int) -> str:
        """Return an entry's machine as text."""
        return str(self.model.machine[row])


def _check(model: Assignment, plan: ArrayLike) -> Report:
    return model.check(plan)


def _exact_objective(model: Assignment, plan: object) -> Fraction:
    """Return the objective in fractions; of pools, whose packing is of doubles, that of the packing."""
    point = np.asarray(plan)
    if model.goal != "makespan":
        return sum((Fraction(value) for value in model.values[point[point >= 0]].tolist()), Fraction(0))
    if model.divisible or (model.counts != 1).any():
        return Fraction(model.objective(point))
    taken = point[point >= 0]
    ends = [Fraction(0)] * model.num_machines
    for machine, time in zip(model.machine[taken].tolist(), model.values[taken].tolist(), strict=True):
        ends[machine] += Fraction(time)
    return max(ends, default=Fraction(0))


def _no_exact_bound(model: Assignment, multipliers: Mapping[str, float]) -> Fraction | None:
    """Return ``None``: bare arrays are certified vectorised or not at all."""
    return None


ASSIGNMENT = Kind(
    "matching",
    Assignment,
    lambda model: bool(model.goal == "value"),
    _check,
    _exact_objective,
    _no_exact_bound,
)
"""The kind of a bare assignment; it is never written to JSON."""
