"""The relative gap between an objective and a bound, the one formula that everything uses."""

from __future__ import annotations

__all__ = ["absolute_gap", "relative_gap"]

_LEAST = 1e-9
"""What a gap is relative to where the objective is nearer to zero than this."""


def relative_gap(objective: float, bound: float) -> float:
    """Return ``|bound - objective| / max(|objective|, 1e-9)``."""
    return abs(bound - objective) / max(abs(objective), _LEAST)


def absolute_gap(objective: float, relative: float) -> float:
    """Return how far a bound may lie from the objective: ``relative * max(|objective|, 1e-9)``.

    >>> absolute_gap(-200.0, 0.25), relative_gap(-200.0, -150.0)
    (50.0, 0.25)
    """
    return relative * max(abs(objective), _LEAST)
