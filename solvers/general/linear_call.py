"""What every general backend does before and after its engine: begin a call, and put its outcome together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.core.options import SolveOptions
from apportion.core.outcome import Outcome, Termination
from apportion.models.linear import LinearModel
from apportion.solvers.clock import Clock
from apportion.solvers.general.points import (
    Observe,
    Observer,
    Start,
    consistent_termination,
    judged_start,
    kept,
)

__all__ = ["LinearCall"]


@dataclass(frozen=True, slots=True)
class LinearCall:
    """One call of a general backend.

    Attributes
    ----------
    model, options
        What is solved, and within which limits.
    clock
        What the limits leave.
    start
        The start as the backend may use it, ``None`` if none was given.
    observer
        Told of incumbents and bounds.
    """

    model: LinearModel
    options: SolveOptions
    clock: Clock
    start: Start | None
    observer: Observer

    @classmethod
    def begun(
        cls,
        model: LinearModel,
        options: SolveOptions,
        start: NDArray[np.float64] | None,
        observe: Observe | None,
    ) -> LinearCall:
        """Begin a call of a backend: its clock runs from now.

        Parameters
        ----------
        model
            The model.
        options
            The limits; each backend says what its `work_limit` counts.
        start
            float64 [columns]; NaN where there is no hint.
        observe
            Called with points and bounds on the way.
        """
        clock = Clock(options)
        observer = Observer(model.sense == "maximize", options, observe, clock)
        return cls(model, options, clock, judged_start(model, start), observer)

    @property
    def hint(self) -> NDArray[np.float64] | None:
        """The start to pass on: float64 [columns], NaN where there is no hint."""
        return None if self.start is None else self.start.point

    @property
    def seconds(self) -> float | None:
        """The time limit to pass on, at least 10 ms; ``None`` without one."""
        left = self.clock.seconds_left
        return None if left is None else max(left, 0.01)

    def outcome(
        self,
        termination: Termination,
        raw: str,
        point: NDArray[np.float64] | None,
        bound: float | None,
        *,
        seconds: tuple[float, float],
        counters: Mapping[str, float],
        start_used: bool | None,
    ) -> Outcome:
        """Return what the engine said, with the better of its point and the start.

        Parameters
        ----------
        termination, raw
            Why it ended, and in its own words.
        point, bound
            Its best point, rounded, and its bound, in the model's unit.
        seconds
            For handing the model over, and for solving it.
        counters
            Its own counts.
        start_used
            Whether it took the start.

        Raises
        ------
        BaseException
            What the caller's own callback raised.
        """
        self.observer.finish()
        point, objective = kept(self.model, self.start, point)
        return Outcome(
            termination=consistent_termination(termination, objective, bound, self.options.gap),
            raw_status=raw,
            point=point,
            objective=objective,
            bound=bound,
            bound_source=None if bound is None else "solver",
            seconds={"hand_over": seconds[0], "solve": seconds[1]},
            counters=counters,
            start_used=start_used,
        )
