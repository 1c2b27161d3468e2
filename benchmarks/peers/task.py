"""What every peer is given and what it gives back.

A peer is a module with ``solve(task, limits) -> Answer``. It gets the menus or the assignment as arrays,
after the reductions of our own formulations (node counts instead of nodes, one depth per place): that is
generous to it, and keeps the work the same. Only the literal models start from the instance itself.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.core.outcome import Termination
from apportion.models.assignment import Assignment
from apportion.models.multiple_choice import MultipleChoiceKnapsack
from apportion.solving.call import entry_of
from apportion.solving.pipeline import compiled

__all__ = ["Answer", "CannotTake", "Limits", "Row", "Task", "Watch", "coupling_rows"]


class CannotTake(Exception):
    """The peer has no way to say this problem; the message says why."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How long, how close, on how many threads.

    Attributes
    ----------
    seconds
        Wall-clock limit of the whole call, building the model included.
    gap
        Relative gap at which to stop.
    threads, seed
        As the peer understands them.
    """

    seconds: float
    gap: float
    threads: int
    seed: int


class Watch:
    """Seconds by phase since it was made, and the trace of incumbents."""

    def __init__(self) -> None:
        self._began = self._last = time.perf_counter()
        self.seconds: dict[str, float] = {}
        self.trace: list[tuple[float, float | None, float | None]] = []

    def lap(self, phase: str) -> None:
        """Book the time since the last lap under a phase."""
        now = time.perf_counter()
        self.seconds[phase] = self.seconds.get(phase, 0.0) + now - self._last
        self._last = now

    def left(self, limit: float) -> float:
        """Return the seconds left of a limit, at least a hundredth."""
        return max(limit - (time.perf_counter() - self._began), 0.01)

    def saw(self, objective: float | None, bound: float | None) -> None:
        """Note an incumbent or a bound now; infinities are none."""
        finite = [v if v is not None and abs(v) < 1e19 else None for v in (objective, bound)]
        self.trace.append((time.perf_counter() - self._began, finite[0], finite[1]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a peer says; nothing of it is believed.

    Attributes
    ----------
    termination, raw_status
        Why it stopped, and in its own words.
    x
        One number per option (or entry), ``None`` without a solution.
    plan
        A plan of the instance instead of `x`.
    objective, bound
        As claimed.
    watch
        Its phases and trace.
    """

    termination: Termination
    raw_status: str
    x: NDArray[np.float64] | None = None
    plan: Any = None
    objective: float | None = None
    bound: float | None = None
    watch: Watch = field(default_factory=Watch)


@dataclass(frozen=True)
class Task:
    """An instance and its arrays, compiled when first asked for."""

    instance: Any

    @cached_property
    def formulation(self) -> Any:
        """Our formulation of the instance."""
        return compiled(self.instance, entry_of(self.instance, None))

    @property
    def menus(self) -> MultipleChoiceKnapsack | None:
        """The menus, ``None`` for an assignment."""
        return self.model if isinstance(self.model, MultipleChoiceKnapsack) else None

    @property
    def assignment(self) -> Assignment | None:
        """The assignment, ``None`` for menus."""
        return self.model if isinstance(self.model, Assignment) else None

    @property
    def model(self) -> MultipleChoiceKnapsack | Assignment:
        """Whichever there is."""
        model: MultipleChoiceKnapsack | Assignment = self.formulation.model
        return model

    def plan(self, x: NDArray[np.float64]) -> Any:
        """Return the plan of a 0-1 point, or of shares."""
        model = self.model
        if isinstance(model, Assignment) and model.divisible:
            shares = np.maximum(x, 0.0)
            job = model.job_of_option()
            done = np.bincount(job, weights=shares, minlength=model.num_jobs)
            return self.formulation.plan(shares / np.where(done > 0, done, 1.0)[job])
        chosen = np.full(model.num_jobs, -1, dtype=np.int64)
        taken = np.flatnonzero(x > 0.5)
        chosen[np.searchsorted(model.offsets, taken, side="right") - 1] = taken
        if isinstance(model, MultipleChoiceKnapsack) and (model.required & (chosen < 0)).any():
            return None
        return self.formulation.plan(chosen)


@dataclass(frozen=True, slots=True)
class Row:
    """One row ``sum coefficients x[options] - makespan * of_makespan <= limit`` that couples the jobs."""

    name: str
    options: NDArray[np.int64]
    coefficients: NDArray[np.float64]
    limit: float
    of_makespan: float = 0.0


def coupling_rows(model: MultipleChoiceKnapsack | Assignment) -> Iterator[Row]:
    """Yield the capacity rows, or a makespan's load rows; a divisible job also runs on one machine at a time.

    Raises
    ------
    CannotTake
        For gangs and pools, whose load rows are only a relaxation.
    """
    if isinstance(model, MultipleChoiceKnapsack):
        for k, name in enumerate(model.capacity_names):
            used = np.flatnonzero(model.uses[:, k])
            yield Row(name, used, model.uses[used, k].astype(np.float64), float(model.capacities[k]))
        return
    if model.goal == "makespan" and not model.divisible and (model.counts > 1).any():
        raise CannotTake("load rows are a relaxation where pools have several machines")
    for machine in range(model.num_machines):
        on = np.flatnonzero(model.machine == machine)
        if model.limited[machine]:
            yield Row(
                f"capacity_{machine}",
                on,
                model.uses[on].astype(np.float64),
                float(model.capacities[machine]),
            )
        if model.goal == "makespan":
            busy = model.values[on] * model.gpus[on]
            yield Row(f"load_{machine}", on, busy, 0.0, float(model.counts[machine]))
    if model.divisible:
        for job in range(model.num_jobs):
            own = np.arange(model.offsets[job], model.offsets[job + 1])
            yield Row(f"alone_{job}", own, model.values[own], 0.0, 1.0)
