"""The nodes of a replay: which are idle, since when, and which of the admitted jobs holds each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.policies.gap_filling_view import FREE, count_held

__all__ = ["BUSY", "HeldNodes"]

BUSY = -2
"""Holder of a node that is not idle."""


class HeldNodes:
    """All nodes of a machine, none of them idle at first.

    Parameters
    ----------
    num_nodes
        How many there are.

    Attributes
    ----------
    holder
        int64 [nodes]: the position of the admitted job that holds a node, `FREE`, or `BUSY`.
    idle_since_s
        float64 [nodes]: when a node became idle.
    idle
        How many are idle.
    """

    def __init__(self, num_nodes: int) -> None:
        self.holder = np.full(num_nodes, BUSY, dtype=np.int64)
        self.idle_since_s = np.zeros(num_nodes)
        self.idle = 0
        self._departed: list[NDArray[np.float64]] = []

    def numbers(self) -> NDArray[np.int64]:
        """Return the nodes that are idle, held by a job or free."""
        return np.flatnonzero(self.holder > BUSY)

    def departed_after_s(self) -> NDArray[np.float64]:
        """Return how long the nodes that left since `forget_departed` had been idle."""
        return np.concatenate(self._departed) if self._departed else np.zeros(0)

    def forget_departed(self) -> None:
        """Begin anew to remember which nodes leave."""
        self._departed = []

    def leave(self, left: NDArray[np.int64], at_s: float, num_jobs: int) -> NDArray[np.int64]:
        """Take nodes away and return int64 [admitted]: how many every job loses."""
        lost = count_held(np.maximum(self.holder[left], FREE), num_jobs)
        self.holder[left] = BUSY
        self.idle -= int(left.size)
        self._departed.append(at_s - self.idle_since_s[left])
        return lost

    def join(self, joined: NDArray[np.int64], at_s: float) -> None:
        """Add nodes that are idle from now on."""
        self.holder[joined] = FREE
        self.idle_since_s[joined] = at_s
        self.idle += int(joined.size)

    def free_those_of_all_but(self, stay: NDArray[np.bool_]) -> None:
        """Free the nodes of the jobs that go; those that stay, bool [admitted], are counted anew."""
        table = np.full(stay.size + 2, FREE, dtype=np.int64)
        table[0] = BUSY
        table[2:][stay] = np.arange(np.count_nonzero(stay))
        self.holder = table[self.holder - BUSY]

    def state(self) -> dict[str, Any]:
        """Return all that `restore` needs, as arrays and numbers."""
        return {
            "_holder": self.holder,
            "_idle_since": self.idle_since_s,
            "_idle": self.idle,
            "departed": self.departed_after_s(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state."""
        self.holder, self.idle_since_s, self.idle = state["_holder"], state["_idle_since"], state["_idle"]
        self._departed = [state["departed"]] if state["departed"].size else []
