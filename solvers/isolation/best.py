"""The best that a child process streamed: checked here, for a child can send anything."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.models.linear import LinearModel
from apportion.options import Incumbent
from apportion.outcome import Outcome, Termination

__all__ = ["Best"]


class Best:
    """The best feasible point so far and the best claimed bound.

    Parameters
    ----------
    model
        What points are checked against.
    on_incumbent
        Told of every improvement; what it raises passes through and is kept in `raised`.
    """

    def __init__(self, model: LinearModel, on_incumbent: Callable[[Incumbent], None] | None) -> None:
        self._model = model
        self._sign = 1.0 if model.sense == "maximize" else -1.0
        self._on_incumbent = on_incumbent
        self._point: NDArray[np.float64] | None = None
        self._objective: float | None = None
        self._bound: float | None = None
        self.raised: BaseException | None = None

    def begin_with(self, start: NDArray[np.float64] | None) -> None:
        """Take a start as the first incumbent, if it is feasible; nobody is told."""
        if start is not None:
            self._improved(start)

    def take(self, point: Any, objective: Any, bound: Any, seconds: Any) -> None:
        """Take what was streamed, as far as it is a better bound or a better feasible point."""
        if _is_number(bound) and (self._bound is None or self._sign * bound < self._sign * self._bound):
            self._bound = float(bound)
        if point is None or not self._improved(point) or self._on_incumbent is None:
            return
        assert self._objective is not None
        known = float(bound) if _is_number(bound) else None
        try:
            self._on_incumbent(Incumbent(self._objective, known, float(seconds)))
        except BaseException as error:
            self.raised = error
            raise

    def outcome(self, termination: Termination, raw: str) -> Outcome:
        """Return what there is as an outcome."""
        return Outcome(
            termination=termination,
            raw_status=raw,
            point=self._point,
            objective=self._objective,
            bound=self._bound,
            bound_source=None if self._bound is None else "solver",
        )

    def merged(self, outcome: Any) -> Outcome:
        """Return the backend's outcome, with the best incumbent where its own is worse or no point at all."""
        if not isinstance(outcome, Outcome) or not isinstance(outcome.termination, Termination):
            return self.outcome(Termination.ERROR, f"the backend returned {type(outcome).__name__}")
        if outcome.point is None:
            return outcome if self._point is None else self._with_own(outcome)
        found = _numbers(outcome.point, self._model.num_columns)
        if found is None:
            told = f"the backend's point is not {self._model.num_columns} finite numbers"
            return self.outcome(Termination.ERROR, told)
        # an infeasible point is left for the caller's check to refuse, unless there is a better one here
        worse = self._objective is not None and (
            not self._model.check(found).feasible
            or self._sign * self._objective > self._sign * self._model.objective(found)
        )
        return self._with_own(outcome) if worse else outcome

    def _with_own(self, outcome: Outcome) -> Outcome:
        return replace(outcome, point=self._point, objective=self._objective)

    def _improved(self, candidate: Any) -> bool:
        point = _numbers(candidate, self._model.num_columns)
        if point is None:
            return False
        report = self._model.check(point)
        if not report.feasible or report.objective is None:
            return False
        if self._objective is not None and self._sign * report.objective <= self._sign * self._objective:
            return False
        self._point, self._objective = point, report.objective
        return True


def _numbers(candidate: Any, size: int) -> NDArray[np.float64] | None:
    try:
        point = np.array(candidate, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    return point if point.shape == (size,) and bool(np.isfinite(point).all()) else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
