"""Re-solving variants of an instance within one budget of seconds."""

from __future__ import annotations

import time
from typing import Any

from apportion.api import solve
from apportion.interruption import uninterrupted
from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.options import SolveOptions
from apportion.outcome import Termination
from apportion.registry import Backend
from apportion.solution import Solution

__all__ = ["Resolver"]

_ANY_PLAN = 1e9
"""A relative gap that every plan meets."""


class Resolver:
    """Solves variants with one backend until its seconds are used up.

    Parameters
    ----------
    backend
        As in `apportion.solve`.
    time_limit
        Seconds for everything it solves together; ``None`` for no limit.
    threads, seed
        As in `apportion.solve`.

    Raises
    ------
    InvalidOption
        If `time_limit` is not positive and finite.

    Attributes
    ----------
    solves
        How many variants it has solved.
    """

    def __init__(
        self,
        backend: str | Backend = "auto",
        time_limit: float | None = None,
        threads: int = 1,
        seed: int = 0,
    ) -> None:
        self._backend = backend
        self._threads = threads
        self._seed = seed
        SolveOptions(time_limit=time_limit)  # refuses what is out of range
        self._end = None if time_limit is None else time.perf_counter() + time_limit
        self._beside = 0.0
        self.solves = 0

    @property
    def exhausted(self) -> bool:
        """Whether the seconds are used up, or too few for what a solve takes beside its limit."""
        return self._end is not None and time.perf_counter() + self._beside >= self._end

    def set_aside(self, seconds: float) -> None:
        """Keep seconds for what every solve takes beside its limit: the variant read, its plan checked."""
        self._beside = max(self._beside, seconds)

    @property
    def remaining(self) -> float | None:
        """The seconds that are left, ``None`` without a limit."""
        return None if self._end is None else max(self._end - time.perf_counter(), 0.0)

    def solve(
        self, variant: Any, warm_start: Any = None, share: float = 1.0, gap: float = 0.0
    ) -> Solution | None:
        """Solve a variant in at most a share of the seconds left; ``None`` if there are none.

        Parameters
        ----------
        variant
            An instance, or a bare knapsack.
        warm_start
            As in `apportion.solve`.
        share
            Largest part of the remaining seconds to spend.
        gap
            Relative gap at which to stop.

        Raises
        ------
        KeyboardInterrupt
            If Ctrl-C ended it: half an answer would explain something else.
        """
        return None if self.exhausted else self._solve(variant, warm_start, share, gap)

    def _solve(self, variant: Any, warm_start: Any, share: float, gap: float) -> Solution:
        self.solves += 1
        left, began = self.remaining, time.perf_counter()
        limit = None if left is None else max((left - self._beside) * share, 1e-3)
        solution = uninterrupted(
            solve(
                variant,
                backend=self._backend,
                time_limit=limit,
                gap=gap,
                threads=self._threads,
                seed=self._seed,
                warm_start=warm_start,
            )
        )
        if limit is not None:
            self.set_aside(time.perf_counter() - began - limit)
        return solution

    def ensured(self, variant: Any, warm_start: Any = None, share: float = 1.0) -> Solution:
        """Solve a variant even where the seconds are used up: it then gets a moment.

        Parameters
        ----------
        variant, warm_start, share
            As in `solve`.
        """
        return self._solve(variant, warm_start, share, 0.0)

    def first(self, instance: Any) -> Solution:
        """Solve the instance that is asked about, in at most half of the seconds left."""
        return self.ensured(instance, share=0.5)

    def feasible(self, model: MultipleChoiceKnapsack, share: float = 1.0) -> bool | None:
        """Return whether a knapsack has any feasible choice, ``None`` if that was not settled in time."""
        answer = self.solve(model, share=share, gap=_ANY_PLAN)
        if answer is None:
            return None
        if answer.plan is not None:
            return True
        return False if answer.termination is Termination.INFEASIBLE else None
