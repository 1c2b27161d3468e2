"""How soon nodes leave, estimated online from nothing but what was seen: hazards by age, and hits per job.

Idle nodes of a supercomputer leave in groups (a large job starts), and the longer a node has been idle the
longer it tends to stay: a decreasing hazard. Both estimators count occurrences and exposure in bins,
the maximum-likelihood estimate of a piecewise constant hazard (occurrence-exposure rate), with a
Gamma prior of one occurrence so that an unseen bin has a finite rate.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["HitRates", "IdleHazard"]

_AGE_EDGES_S = (120.0, 300.0, 600.0, 1200.0, 2400.0, 4800.0, 9600.0)
_PRIOR_HAZARD = 1.0 / 1200.0
_PRIOR_HITS = 7.0 / 3600.0


class IdleHazard:
    """The hazard of a node to leave, by how long it has been idle.

    Groups count once: nodes that joined at one instant are one exposure, and one occurrence when any of
    them leaves.
    """

    __slots__ = ("_exposed_s", "_left")

    def __init__(self) -> None:
        bins = len(_AGE_EDGES_S) + 1
        self._left = np.ones(bins)
        self._exposed_s = np.full(bins, 1.0 / _PRIOR_HAZARD)

    def expose(self, ages_s: NDArray[np.float64], seconds: float) -> None:
        """Book that groups of these ages were there for some seconds."""
        self._exposed_s += np.bincount(self._bin(ages_s), minlength=self._left.size) * seconds

    def depart(self, ages_s: NDArray[np.float64]) -> None:
        """Book that groups left at these ages."""
        if ages_s.size:
            self._left += np.bincount(self._bin(np.unique(ages_s)), minlength=self._left.size)

    def rate(self, ages_s: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return departures per second at these ages."""
        rates: NDArray[np.float64] = (self._left / self._exposed_s)[self._bin(ages_s)]
        return rates

    def state(self) -> dict[str, Any]:
        """Return the state as JSON-ready numbers, which `restore` takes back."""
        return {"left": self._left.tolist(), "exposed_s": self._exposed_s.tolist()}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from an earlier state."""
        self._left, self._exposed_s = np.array(state["left"]), np.array(state["exposed_s"])

    @staticmethod
    def _bin(ages_s: NDArray[np.float64]) -> NDArray[np.intp]:
        return np.searchsorted(_AGE_EDGES_S, ages_s, side="right")


class HitRates:
    """How often a job loses nodes, by how many it holds: occurrences per second in bins of powers of two."""

    __slots__ = ("_exposed_s", "_hits")

    def __init__(self, bins: int = 16) -> None:
        self._hits = np.ones(bins)
        self._exposed_s = np.full(bins, 1.0 / _PRIOR_HITS)

    def observe(self, held: NDArray[np.int64], hit: NDArray[np.bool_], seconds: float) -> None:
        """Book that jobs with `held` nodes went through some seconds, and which of them lost nodes."""
        some = held > 0
        place = np.minimum(np.log2(np.maximum(held[some], 1)).astype(np.intp), self._hits.size - 1)
        self._exposed_s += np.bincount(place, minlength=self._hits.size) * seconds
        self._hits += np.bincount(place, weights=hit[some], minlength=self._hits.size)

    def rate(self, counts: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return hits per second at these node counts; never falling, 0 at 0 nodes."""
        rates = np.maximum.accumulate(self._hits / self._exposed_s)
        at = np.interp(np.log2(np.maximum(counts, 1)), np.arange(self._hits.size), rates)
        return np.where(counts > 0, at, 0.0)

    def state(self) -> dict[str, Any]:
        """Return the state as JSON-ready numbers, which `restore` takes back."""
        return {"hits": self._hits.tolist(), "exposed_s": self._exposed_s.tolist()}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from an earlier state."""
        self._hits, self._exposed_s = np.array(state["hits"]), np.array(state["exposed_s"])
