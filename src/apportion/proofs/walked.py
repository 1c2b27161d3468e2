"""How far a walk may go, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Limits", "Walked"]


@dataclass(frozen=True, slots=True)
class Limits:
    """How far a walk may go before it is called incomplete.

    Attributes
    ----------
    states
        Most states in all.
    kept
        Most numbers of states that are kept at the same time, 8 bytes each in 64-bit walks.
    seconds
        Wall-clock seconds, ``None`` for no limit.
    """

    states: int = 50_000_000
    kept: int = 100_000_000
    seconds: float | None = None


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
