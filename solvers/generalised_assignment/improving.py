"""Trees over a few machines of a generalised assignment, those that waste most more often.

Is there a placement of their jobs that costs less? The prices of the capacities only guide which machines.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.solvers.search.assignment_tree import AssignmentTree, Placement

__all__ = ["NODES", "Improving", "Part"]

NODES, _STEPS = 100, 60
"""Nodes of such a tree at most, and steps of the prices at its root."""


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A tree over some machines and the jobs that they have.

    Attributes
    ----------
    tree
        Is there a placement of these jobs that costs less?
    at
        int32 [all jobs]: the placement that is improved.
    machines, jobs
        int64: those of the tree, in its order.
    """

    tree: AssignmentTree
    at: NDArray[np.int32]
    machines: NDArray[np.int64]
    jobs: NDArray[np.int64]

    def whole(self, found: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return int32 [all jobs]: the placement with what the tree found."""
        better = self.at.copy()
        better[self.jobs] = self.machines[found]
        return better


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
    """

    def __init__(self, placement: Placement, step: int, paid: NDArray[np.float64]) -> None:
        self._placement, self._step, self._paid = placement, step, paid
        able = placement.open == 1
        self._reduced = np.where(able, placement.cost + paid[:, None] * placement.use[0], np.inf)
        self._reduced -= self._reduced.min(axis=0)

    def part(
        self, at: NDArray[np.int32], prices: NDArray[np.int64], rng: np.random.Generator, size: int
    ) -> Part:
        """Return a tree over some machines that are drawn, for a placement that costs less.

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
        tree = AssignmentTree(small, now - self._step, self._step, prices[own], NODES, _STEPS)
        return Part(tree, at, machines, own)
