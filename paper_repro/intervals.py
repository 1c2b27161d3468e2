"""Means over seeds or workloads with their 95 % intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["Mean"]


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean with the half-width of its 95 % interval by Student's t.

    Attributes
    ----------
    value
        The mean.
    half
        ``None`` for fewer than three values.
    count
        Values.
    """

    value: float
    half: float | None
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Mean:
        """Return the mean of values."""
        if len(values) < 3:
            return cls(float(np.mean(values)), None, len(values))
        from scipy.stats import t

        half = float(t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values)))
        return cls(float(np.mean(values)), half, len(values))

    def words(self, scale: float = 1.0, digits: int = 0) -> str:
        """Return it in words."""
        if self.half is None:
            return f"{self.value * scale:.{digits}f}"
        return f"{self.value * scale:.{digits}f} ± {self.half * scale:.{digits}f}"
