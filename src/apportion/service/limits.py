"""What the administrator of a service allows its callers."""

from __future__ import annotations

from dataclasses import dataclass

from apportion.errors import InvalidInstance

__all__ = ["Limits"]


@dataclass(frozen=True, slots=True)
class Limits:
    """What the administrator allows.

    Attributes
    ----------
    sessions
        Sessions that may be open.
    longest_s
        The longest time limit of a decision, seconds.
    grace_s
        Seconds after a decision's time limit at which its worker is killed.
    """

    sessions: int = 256
    longest_s: float = 600.0
    grace_s: float = 1.0

    def check_time_limit(self, time_limit: float) -> None:
        """Raise `InvalidInstance` for a time limit in seconds that is too long here."""
        if time_limit > self.longest_s:
            raise InvalidInstance.at("$.time_limit", f"must be at most {self.longest_s:g} seconds here")
