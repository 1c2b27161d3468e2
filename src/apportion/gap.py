"""The relative gap between an objective and a bound, and when that gap counts as none: one rule for all."""

from __future__ import annotations

__all__ = ["absolute_gap", "meets", "relative_gap"]

_LEAST = 1e-9
"""What a gap is relative to where the objective is nearer to zero than this."""
_NONE = 1e-9
"""Relative difference that counts as none."""
_LEAST_FLOAT = 5e-324
"""Two neighbouring doubles next to zero differ by this, which no part of theirs can show."""


def relative_gap(objective: float, bound: float) -> float:
    """Return ``|bound - objective| / max(|objective|, 1e-9)``."""
    return abs(bound - objective) / max(abs(objective), _LEAST)


def absolute_gap(objective: float, relative: float) -> float:
    """Return how far a bound may lie from the objective: ``relative * max(|objective|, 1e-9)``.

    >>> absolute_gap(-200.0, 0.25), relative_gap(-200.0, -150.0)
    (50.0, 0.25)
    """
    return relative * max(abs(objective), _LEAST)


def meets(objective: float, bound: float) -> bool:
    """Return whether a bound shows an objective to be optimal: they differ by at most 1e-9 of the objective.

    Unlike the gap, this has no floor under the objective, below which any plan of tiny values was optimal,
    and no allowance for what was added up on the way: objectives are rounded once, from exact sums.

    >>> meets(5.0, 5.0), meets(1e-12, 1.5e-12), meets(0.0, 0.0)
    (True, False, True)
    """
    return abs(bound - objective) <= max(_NONE * abs(objective), _LEAST_FLOAT)
