"""How far a check may go, what of that it has spent, and how a walk ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Budget", "Limits", "OverBudget", "Walked", "bytes_of"]

_OF_OBJECTS = 40
"""Steps that a calculation with a Python integer counts as, beside one in 64 bits."""


class OverBudget(Exception):
    """A check would take more than its budget allows; the message says of what."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How far a check may go before it is called incomplete.

    Attributes
    ----------
    states
        Most states in all.
    kept
        Most numbers of states, or of tables of rows, that are kept at the same time, of 8 bytes each; a
        longer number counts as many as it takes.
    seconds
        Wall-clock seconds, ``None`` for no limit.
    steps
        Most numbers that are calculated or compared, a billion of which take about a second; one beyond 64
        bits counts as 40.
    """

    states: int = 50_000_000
    kept: int = 100_000_000
    seconds: float | None = None
    steps: int = 20_000_000_000


class Budget:
    """What is left of the steps and the memory that a check may take.

    Parameters
    ----------
    limits
        What it may take at most; without a limit where it is ``None``.
    """

    def __init__(self, limits: Limits | None) -> None:
        self._limits = limits
        self._steps = 0

    def spend(self, steps: int, dtype: np.dtype[Any]) -> None:
        """Count steps before they are made.

        Raises
        ------
        OverBudget
            If there are not so many left.
        """
        self._steps += steps * (_OF_OBJECTS if dtype.hasobject else 1)
        if self._limits is not None and self._steps > self._limits.steps:
            raise OverBudget(f"more than {self._limits.steps} steps")

    def hold(self, numbers: int, each: int, what: str) -> None:
        """Look at numbers of so many bytes before they are kept.

        Raises
        ------
        OverBudget
            If they take more than may be kept.
        """
        if self._limits is not None and numbers * each > 8 * self._limits.kept:
            raise OverBudget(f"more than {self._limits.kept} numbers kept, {what}")


@dataclass(frozen=True, slots=True)
class Walked:
    """How a walk ended.

    Attributes
    ----------
    status
        ``"proved"``, ``"refused"`` or ``"incomplete"``.
    why
        What was not closed, or which limit was reached.
    states
        How many states were looked at.
    """

    status: str
    why: str
    states: int


def bytes_of(largest: int) -> int:
    """Return what a number up to a size takes as Python keeps it in an array of objects."""
    return 8 + 24 + 4 * (1 + largest.bit_length() // 30)
