"""One thing that was looked at: whether it is in order, and what to do if it is not."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Finding", "Verdict"]


class Verdict(StrEnum):
    """What came of a check."""

    OK = "ok"
    MEND = "mend"
    UNKNOWN = "unknown"
    """It could not be checked; that proves nothing either way."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found.

    Attributes
    ----------
    check
        Which check.
    told
        What was seen.
    advice
        What to mend, or how to check it; empty if all is well.
    node
        The node it was seen from, ``None`` for this machine.
    """

    check: str
    verdict: Verdict
    told: str
    advice: str = ""
    node: str | None = None

    @classmethod
    def of(cls, check: str, well: bool, told: str, advice: str, node: str | None = None) -> Finding:
        """Return a finding whose advice counts only if it is not in order."""
        return cls(check, Verdict.OK if well else Verdict.MEND, told, "" if well else advice, node)
