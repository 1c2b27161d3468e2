"""A policy under a name: where it stands and how it is made, without importing it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from apportion.references import loaded

__all__ = ["NamedPolicy"]


@dataclass(frozen=True, slots=True)
class NamedPolicy:
    """How a policy is made, and how its jobs train.

    Attributes
    ----------
    reference
        ``"module:name"`` of a policy class, or of a function that is the policy itself.
    parameter
        The parameter of the class that takes the number of `make`; ``None`` if it takes none.
    options
        Further keyword arguments of the class.
    adaptive
        Whether its jobs choose their batch by themselves; otherwise they keep their user's.
    elastic
        Whether it chooses GPU counts for jobs that keep their user's batch.
    freezes
        Whether its jobs may be frozen.
    live
        Whether it may decide for real jobs.
    round_s
        Seconds between two decisions as its authors set them.
    """

    reference: str
    parameter: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    adaptive: bool = False
    elastic: bool = False
    freezes: bool = False
    live: bool = False
    round_s: float = 60.0

    def make(self, number: float) -> Any:
        """Return a fresh policy; `number` is the forward-looking time in seconds, or a seed."""
        found = loaded(self.reference)
        if not isinstance(found, type):
            return found
        given = {} if self.parameter is None else {self.parameter: number}
        return found(**given, **self.options)
