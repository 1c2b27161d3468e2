"""The best that a child process streamed: checked here, for a child can send anything."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from apportion.models.multiple_choice import Sense
from apportion.options import Point, SolveOptions
from apportion.outcome import Outcome, Termination
from apportion.report import Report
from apportion.solvers.clock import Clock
from apportion.solvers.incumbent import BestFound

__all__ = ["CheckedModel", "StreamedBest"]


class CheckedModel(Protocol):
    """A model that checks points itself, and travels without its names."""

    @property
    def sense(self) -> Sense:
        """Whether it maximises or minimises."""

    def check(self, point: NDArray[Any], /) -> Report:
        """Check a point; one of a wrong shape has no objective."""

    def nameless(self) -> Self:
        """Return the model without the names of its parts."""


class StreamedBest(BestFound[Point]):
    """The best feasible point that was streamed and the best bound that was claimed.

    Parameters
    ----------
    model
        What points are checked against.
    options
        For `on_incumbent`; what it raises passes through and is kept in `raised`.
    clock
        For the seconds reported.
    """

    def __init__(self, model: CheckedModel, options: SolveOptions, clock: Clock) -> None:
        super().__init__(model.sense == "maximize", options, clock)
        self._model = model

    def begin_with(self, start: Point | None) -> None:
        """Take a start as the first incumbent, if it is feasible; nobody is told."""
        if (checked := self._checked(start)) is not None:
            self.keep(*checked)

    def take(self, point: Any, bound: Any) -> None:
        """Take what was streamed, as far as it is a better bound or a better feasible point."""
        if _is_number(bound):
            self.tighten(float(bound))
        if (checked := self._checked(point)) is not None:
            self.offer(*checked)

    def outcome(self, termination: Termination, raw: str) -> Outcome:
        """Return what there is as an outcome."""
        return Outcome(
            termination=termination,
            raw_status=raw,
            point=self.point,
            objective=self.objective,
            bound=self.bound,
            bound_source=None if self.bound is None else "solver",
        )

    def merged(self, outcome: Any) -> Outcome:
        """Return the backend's outcome, with the best incumbent where its own is worse or no point at all."""
        if not isinstance(outcome, Outcome) or not isinstance(outcome.termination, Termination):
            return self.outcome(Termination.ERROR, f"the backend returned {type(outcome).__name__}")
        if outcome.point is None:
            return outcome if self.point is None else self._with_own(outcome)
        found = _numbers(outcome.point)
        report = None if found is None else self._model.check(found)
        if report is None or report.objective is None:
            wrong = "is not finite numbers" if report is None else str(report.violations[0])
            return self.outcome(Termination.ERROR, f"the backend's point {wrong}")
        # an infeasible point is left for the caller's check to refuse, unless there is a better one here
        worse = self.objective is not None and (
            not report.feasible or self.sign * self.objective > self.sign * report.objective
        )
        return self._with_own(outcome) if worse else outcome

    def _with_own(self, outcome: Outcome) -> Outcome:
        return replace(outcome, point=self.point, objective=self.objective)

    def _checked(self, candidate: Any) -> tuple[Point, float] | None:
        point = None if candidate is None else _numbers(candidate)
        if point is None:
            return None
        report = self._model.check(point)
        return (point, report.objective) if report.feasible and report.objective is not None else None


def _numbers(candidate: Any) -> NDArray[Any] | None:
    try:
        point = np.array(candidate)
    except (TypeError, ValueError):
        return None
    return point if point.dtype.kind in "iuf" and bool(np.isfinite(point).all()) else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
