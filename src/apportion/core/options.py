"""What a solver is given beside the model: options, validated once at the door, and where to begin."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from apportion.core.errors import InvalidOption

__all__ = ["Choice", "Incumbent", "KnownBound", "Multipliers", "Point", "SolveOptions", "Start"]

Choice = NDArray[np.int64]
"""int64 [jobs]: the chosen row of every job, -1 for none."""
Point = Choice | NDArray[np.float64]
"""What a model's variables are set to: a `Choice`, or float64 columns or shares."""
Multipliers = NDArray[np.float64]
"""float64 [capacities]: one Lagrange multiplier >= 0 per capacity."""


@dataclass(frozen=True, slots=True)
class Incumbent:
    """A feasible solution found on the way.

    Attributes
    ----------
    objective
        Its objective, in the instance's own sense.
    bound
        The best claimed dual bound at that moment, or ``None``.
    seconds
        Wall-clock seconds since the solver started.
    """

    objective: float
    bound: float | None
    seconds: float


class KnownBound(NamedTuple):
    """A bound on the objective of a model that an earlier search has shown.

    Attributes
    ----------
    value
        The bound, in the model's own sense.
    source
        Where it comes from; see `Outcome.bound_source`.
    """

    value: float
    source: str


@dataclass(frozen=True, slots=True, eq=False)
class Start:
    """What is known of a model before it is solved; every part may be absent.

    Attributes
    ----------
    point
        A feasible point: the first incumbent.
    preferred
        int64 [jobs]: the row that every job has now (-1: none). Among equal optima, the one that keeps more
        of them is preferred.
    hint
        float64 [capacities]: multipliers of a similar model, where the search for this one's begins.
    bound
        What nothing is better than. A point that meets it needs no search.
    """

    point: Point | None = None
    preferred: Choice | None = None
    hint: Multipliers | None = None
    bound: KnownBound | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SolveOptions:
    """How long, how close and how reproducibly to solve.

    Attributes
    ----------
    time_limit
        Wall-clock seconds for the whole call; ``None`` for no limit.
    gap
        Relative gap at which to stop, ``|bound - objective| / max(|objective|, 1e-9)``; 0 asks for a proof.
    threads
        Worker threads of a general solver, and of the exact searches over several capacities and of jobs on
        machines where they are compiled; other exact solvers use one. `deterministic` repeats for the same
        number; with another one the plan may be another, equally good.
    seed
        Random seed, at least 0.
    deterministic
        Same input, same answer: no clock decides anything (give `work_limit` rather than `time_limit`).
    work_limit
        Limit counted in the solver's own deterministic work units (nodes, sweeps); ``None`` for no limit.
    on_incumbent
        Called with every improving `Incumbent`; an exception it raises stops the solve and propagates.
    keep_running
        Whether the last goals of all are to stop, then to move as few jobs as possible.

    Raises
    ------
    InvalidOption
        If a value is out of its range.
    """

    time_limit: float | None = None
    gap: float = 0.0
    threads: int = 1
    seed: int = 0
    deterministic: bool = False
    work_limit: float | None = None
    on_incumbent: Callable[[Incumbent], None] | None = None
    keep_running: bool = True

    def __post_init__(self) -> None:
        for name in ("time_limit", "work_limit"):
            value = getattr(self, name)
            if value is not None and not (_is_number(value) and math.isfinite(value) and value > 0):
                raise InvalidOption(f"{name} must be a positive finite number or None, not {value!r}")
        if not (_is_number(self.gap) and 0 <= self.gap < math.inf):
            raise InvalidOption(f"gap must be a finite number >= 0, not {self.gap!r}")
        if not _is_count(self.threads) or not 1 <= self.threads <= 1024:
            raise InvalidOption(f"threads must be an integer from 1 to 1024, not {self.threads!r}")
        if not _is_count(self.seed) or not 0 <= self.seed < 2**31:
            raise InvalidOption(f"seed must be an integer from 0 to 2**31 - 1, not {self.seed!r}")
        for flag in ("deterministic", "keep_running"):
            if not isinstance(getattr(self, flag), bool):
                raise InvalidOption(f"{flag} must be true or false, not {getattr(self, flag)!r}")
        if self.on_incumbent is not None and not callable(self.on_incumbent):
            raise InvalidOption("on_incumbent must be callable or None")
        for name in ("time_limit", "work_limit", "gap"):
            value = getattr(self, name)
            # numpy's doubles pass for floats and cannot be stored
            if value is not None and type(value) not in (int, float):
                object.__setattr__(self, name, float(value))

    def within(self, time_limit: float) -> SolveOptions:
        """Return the same with a part of their time limit, in seconds; nothing is checked again."""
        part = object.__new__(SolveOptions)
        for name in self.__slots__:
            object.__setattr__(part, name, getattr(self, name))
        object.__setattr__(part, "time_limit", time_limit)
        return part


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
