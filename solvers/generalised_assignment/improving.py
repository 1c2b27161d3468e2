"""Trees over a few machines of a generalised assignment, those that waste most more often.

Is there a placement of their jobs that costs less? The prices of the capacities only guide which machines.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from apportion.solvers.search.assignment_tree import AssignmentTree, Placement, Status
from apportion.solvers.search.slices import Slices

__all__ = ["Improving"]

_NODES, _STEPS = 100, 60
"""Nodes of such a tree at most, and steps of the prices at its root."""


class Improving:
    """Improves one placement, tree by tree.

    Parameters
    ----------
    placement
        Jobs and machines; the first resource is what bounds.
    step
        The least difference of two costs.
    paid
        float64 [machines]: prices of the capacities, in units of cost.
    slices
        Limits of the call.
    """

    def __init__(self, placement: Placement, step: int, paid: NDArray[np.float64], slices: Slices) -> None:
        self._placement, self._step, self._paid, self._slices = placement, step, paid, slices
        able = placement.open == 1
        self._reduced = np.where(able, placement.cost + paid[:, None] * placement.use[0], np.inf)
        self._reduced -= self._reduced.min(axis=0)

    def better(
        self, at: NDArray[np.int32], prices: NDArray[np.int64], rng: np.random.Generator, size: int
    ) -> NDArray[np.int32] | None:
        """Return a placement int32 [jobs] that costs less, on some machines that are drawn; else ``None``.

        Parameters
        ----------
        at
            A placement that keeps the capacities.
        prices
            int64 [jobs]: of the tree's last root.
        rng, size
            Draws so many machines.
        """
        placement, jobs = self._placement, np.arange(at.size)
        count = placement.cost.shape[0]
        held = np.bincount(at, weights=placement.use[0][at, jobs], minlength=count)
        lost = np.bincount(at, weights=self._reduced[at, jobs], minlength=count)
        waste: NDArray[np.float64] = lost + self._paid * (placement.capacity[0] - held)
        waste = waste + max(float(waste.mean()), 1e-300) / 4
        machines = np.sort(rng.choice(count, size, replace=False, p=waste / waste.sum()))
        own = np.flatnonzero(np.isin(at, machines))
        part = np.ix_(machines, own)
        now = int(placement.cost[at[own], own].sum())
        small = Placement(
            placement.cost[part],
            placement.use[0][part][None],
            placement.capacity[:1, machines],
            placement.open[part],
        )
        tree = AssignmentTree(small, now - self._step, self._step, prices[own], _NODES, _STEPS)
        if self._slices.run(tree, _NODES) is not Status.FOUND:
            return None
        better = at.copy()
        better[own] = machines[tree.found]
        return better
