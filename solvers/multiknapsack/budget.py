"""How much search is left: by the clock, or, in deterministic mode, by counting work."""

from __future__ import annotations

import math
import time

from apportion.options import SolveOptions

__all__ = ["Budget"]

_SECONDS_PER_STATE = 2.5e-7
_SECONDS_PER_LAYER = 1.5e-4
_CAUTION = 0.4
"""Share of a time limit that estimated work may fill in deterministic mode: the clock is a safety net."""


class Budget:
    """One solve call's time, real or estimated.

    Parameters
    ----------
    options
        With `deterministic` every decision is taken on estimated seconds (states, layers and nodes counted
        at fixed prices); a time limit then becomes a work limit below it, and the clock only a last resort.
    margin
        Seconds kept back from the time limit for handing over the answer.
    """

    def __init__(self, options: SolveOptions, margin: float = 0.02) -> None:
        self._begin = time.perf_counter()
        self._counted = options.deterministic
        self._estimate = 0.0
        self._limit = options.time_limit
        self._margin = 0.0 if options.time_limit is None else min(margin, 0.1 * options.time_limit)
        self._work_limit = options.work_limit
        self.work = 0

    @property
    def seconds(self) -> float:
        """Wall-clock seconds since the call began."""
        return time.perf_counter() - self._begin

    @property
    def counted(self) -> bool:
        """Whether estimates, not the clock, decide."""
        return self._counted

    def elapsed(self) -> float:
        """Return the seconds that decisions go by: the clock's, or the estimate in deterministic mode."""
        return self._estimate if self._counted else self.seconds

    def remaining(self) -> float | None:
        """Return the seconds left to decide on; ``None`` without a time limit."""
        if self._limit is None:
            return None
        if self._counted:
            return _CAUTION * self._limit - self._estimate
        return self._limit - self._margin - self.seconds

    def late(self) -> bool:
        """Whether the time limit has passed (in deterministic mode by the clock as a last resort)."""
        if self._limit is None:
            return False
        return self.seconds > self._limit - self._margin

    def spent(self) -> bool:
        """Whether no further unit of work may start."""
        if self._work_limit is not None and self.work >= self._work_limit:
            return True
        left = self.remaining()
        return self.late() or (left is not None and left <= 0)

    @property
    def out_of_work(self) -> bool:
        """Whether the work limit is what stops the search."""
        return self._work_limit is not None and self.work >= self._work_limit

    @property
    def nodes_left(self) -> int | None:
        """How many nodes the work limit leaves; ``None`` without one."""
        return None if self._work_limit is None else max(0, math.ceil(self._work_limit - self.work))

    def charge(self, states: int, layers: int) -> None:
        """Count a pass of the beam: every state is one unit of work."""
        self.work += max(1, states)
        self._estimate += states * _SECONDS_PER_STATE + layers * _SECONDS_PER_LAYER

    def charge_nodes(self, nodes: int, seconds_per_node: float) -> None:
        """Count nodes of the exact search: each is one unit of work."""
        self.work += nodes
        self._estimate += nodes * seconds_per_node
