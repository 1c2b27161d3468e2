"""The relative gap between an objective and a bound, the one formula that everything uses."""

from __future__ import annotations

__all__ = ["relative_gap"]


def relative_gap(objective: float, bound: float) -> float:
    """Return ``|bound - objective| / max(|objective|, 1e-9)``."""
    return abs(bound - objective) / max(abs(objective), 1e-9)
