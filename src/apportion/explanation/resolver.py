"""Re-solving variants of an instance within one budget of seconds."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.core.interruption import uninterrupted
from apportion.core.options import SolveOptions
from apportion.core.outcome import Termination
from apportion.core.solution import Solution
from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.solving.api import solve
from apportion.solving.registry import Backend

__all__ = ["Resolver", "held_to", "least_uses", "part", "with_capacities"]


def part(
    model: MultipleChoiceKnapsack, jobs: NDArray[np.int64], capacities: NDArray[np.int64]
) -> MultipleChoiceKnapsack:
    """Return the knapsack of some jobs under some capacities; costs are relative uses, to be minimised."""
    sizes = np.diff(model.offsets)[jobs]
    rows = _rows(model.offsets, jobs)
    uses = model.uses_of(rows)[:, capacities]
    room = np.maximum(model.capacities[capacities], 1)
    return MultipleChoiceKnapsack.from_arrays(
        (uses / room).sum(axis=1),
        uses,
        np.concatenate(([0], np.cumsum(sizes))).astype(np.int64),
        model.capacities[capacities],
        required=model.required[jobs],
        sense="minimize",
        capacity_names=[model.capacity_names[k] for k in capacities],
    )


def with_capacities(model: MultipleChoiceKnapsack, capacities: NDArray[np.int64]) -> MultipleChoiceKnapsack:
    """Return the same menus under other capacities."""
    uses: Any = model.matrix
    return model.under(uses, capacities, model.capacity_names)


def held_to(model: MultipleChoiceKnapsack, job: int, row: int) -> MultipleChoiceKnapsack:
    """Return the knapsack with one job held to one row of its menu, or left out (row -1)."""
    start, stop = int(model.offsets[job]), int(model.offsets[job + 1])
    kept = np.ones(model.num_options, dtype=np.bool_)
    kept[start:stop] = False
    if row >= 0:
        kept[row] = True
    offsets = model.offsets.copy()
    offsets[job + 1 :] -= (stop - start) - int(row >= 0)
    required = model.required.copy()
    required[job] = row >= 0
    return MultipleChoiceKnapsack.from_arrays(
        model.values[kept],
        model.matrix[kept],
        offsets,
        model.capacities,
        required,
        model.sense,
        model.capacity_names,
    )


def least_uses(model: MultipleChoiceKnapsack) -> NDArray[np.int64]:
    """Return int64 [jobs, capacities]: the least any option of a job uses of each; 0 for an empty menu."""
    least = np.zeros((model.num_jobs, model.num_capacities), dtype=np.int64)
    filled = np.flatnonzero(np.diff(model.offsets))
    if filled.size and model.num_capacities:
        least[filled] = np.minimum.reduceat(model.uses, model.offsets[:-1][filled], axis=0)
    return least


def _rows(offsets: NDArray[np.int64], jobs: NDArray[np.int64]) -> NDArray[np.int64]:
    sizes = np.diff(offsets)[jobs]
    within = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    rows: NDArray[np.int64] = np.repeat(offsets[:-1][jobs], sizes) + within
    return rows


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
