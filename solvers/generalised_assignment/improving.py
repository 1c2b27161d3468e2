"""Better placements between the decisions of the tree: trees over a few machines.

A few machines at a time, those that waste most more often, are searched by a small tree of their own
(`AssignmentTree`): is there a placement of their jobs that costs less? After enough trees in vain one machine
more is taken. The prices of the capacities only guide which machines.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from apportion.solvers.search.assignment_tree import AssignmentTree, Placement, Status
from apportion.solvers.search.slices import Slices

__all__ = ["Improving"]

_FEWEST, _MOST, _FAILURES = 3, 6, 10
"""Machines of the first and of the largest trees, and trees in vain for each until one more is taken."""
_NODES, _STEPS = 100, 60
"""Nodes of such a tree at most, and steps of the prices at its root."""


class Improving:
    """Improves one placement, turn by turn.

    Parameters
    ----------
    placement
        Jobs and machines; the first resource is what bounds.
    step
        The least difference of two costs.
    paid
        float64 [machines]: prices of the capacities, in units of cost.
    seed
        Random seed.
    slices
        Limits of the call.
    """

    def __init__(
        self,
        placement: Placement,
        step: int,
        paid: NDArray[np.float64],
        seed: int,
        slices: Slices,
    ) -> None:
        self._placement, self._step, self._paid, self._slices = placement, step, paid, slices
        self._random = np.random.default_rng(seed)
        able = placement.open == 1
        self._reduced = np.where(able, placement.cost + paid[:, None] * placement.use[0], np.inf)
        self._reduced -= self._reduced.min(axis=0)
        self._size, self._failed = _FEWEST, 0

    def turn(self, at: NDArray[np.int32], prices: NDArray[np.int64], work: int) -> NDArray[np.int32] | None:
        """Return a better placement int32 [jobs] than `at`, ``None`` if so much work finds none.

        Parameters
        ----------
        at
            A placement that keeps the capacities.
        prices
            int64 [jobs]: of the tree's last root.
        work
            Cells of tables.
        """
        while work > 0 and self._size < self._placement.cost.shape[0] and not self._slices.over():
            tree, machines, own = self._part(at, prices)
            status = self._slices.run(tree, _NODES)
            work -= tree.work
            if status is Status.FOUND:
                better = at.copy()
                better[own] = machines[tree.found]
                self._failed = 0
                return better
            self._failed += 1
            if self._failed >= _FAILURES * self._size:
                self._failed, self._size = 0, min(self._size + 1, _MOST)
        return None

    def _part(
        self, at: NDArray[np.int32], prices: NDArray[np.int64]
    ) -> tuple[AssignmentTree, NDArray[np.int64], NDArray[np.int64]]:
        """Return a tree over some machines, which they are, and their jobs."""
        placement, jobs = self._placement, np.arange(at.size)
        count = placement.cost.shape[0]
        held = np.bincount(at, weights=placement.use[0][at, jobs], minlength=count)
        lost = np.bincount(at, weights=self._reduced[at, jobs], minlength=count)
        waste: NDArray[np.float64] = lost + self._paid * (placement.capacity[0] - held)
        waste = waste + max(float(waste.mean()), 1e-300) / 4
        machines = np.sort(self._random.choice(count, self._size, replace=False, p=waste / waste.sum()))
        own = np.flatnonzero(np.isin(at, machines))
        part = np.ix_(machines, own)
        cost = placement.cost[part]
        now = int(placement.cost[at[own], own].sum())
        small = Placement(
            cost, placement.use[0][part][None], placement.capacity[:1, machines], placement.open[part]
        )
        tree = AssignmentTree(small, now - self._step, self._step, prices[own], _NODES, _STEPS)
        return tree, machines, own
