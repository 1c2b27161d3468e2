"""Depth-first search over menus under rows of integer costs: the state, and one slice of the search.

A *row* is a budget that a whole choice must keep: every option has a cost of at least 0 in it, and the
costs of the chosen options may not exceed the budget. Capacities are rows (uses less the menu's smallest),
and so is every Lagrangian bound: with multipliers lambda an option loses
``max_i (v_i - lambda . u_i) - (v - lambda . u) >= 0`` of its menu's best, and a choice beats the incumbent
only if its losses stay within the distance of the bound from the incumbent. A node then costs one
subtraction a row, and is cut as soon as one row falls below 0.

The compiled twin `depth_first_c` changes the same arrays in the same way, node by node; where it is not built
or is switched off (`apportion.solvers.compiled`), the Python below runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from apportion.solvers.compiled import load

__all__ = ["LARGEST", "DepthFirst", "Status"]


class Status(IntEnum):
    """Why a slice of a search returned.

    Attributes
    ----------
    EXHAUSTED
        Nothing is left to try.
    OUT_OF_NODES
        The nodes that were asked for are looked at.
    FOUND
        The tree is at what it looks for; run again, it searches on.
    OUT_OF_WORK
        The work that was asked for is done, in trees whose nodes take long.
    """

    EXHAUSTED = 0
    OUT_OF_NODES = 1
    FOUND = 2
    OUT_OF_WORK = 3


LARGEST = 2**30
"""Largest budget of a row. A larger cost is stored as the budget plus one: sums stay within 32 bits."""

_DEPTH, _NODES, _LIMIT, _FLOOR, _ROOT = range(5)
_LANES = 4
"""Rows of zeros are added up to a multiple of this many: the compiled search subtracts so many at once."""


@dataclass(slots=True, eq=False)
class DepthFirst:
    """A search that can be stopped and taken up again; build one with `begin`.

    Attributes
    ----------
    offsets
        int64 [jobs + 1]: the options of each job, jobs in the order in which they are decided.
    costs
        int32 [options, rows], from 0 to 2**30 + 1; within a menu in rising order of row 0.
    worth
        int64 [options]: what an option adds to the worth of a leaf, which must exceed `floor`.
    left
        int32 [jobs + 1, rows]: what is left of each budget above each job.
    earned
        int64 [jobs + 1]: the worth of the options chosen above each job.
    cursor
        int64 [jobs + 1]: the option to be tried next at each job.
    control
        int64 [5]: the depth, the nodes so far, the nodes at which to return, the floor, and the depth above
        which everything is decided: 0 but for a part of a tree.
    """

    offsets: NDArray[np.int64]
    costs: NDArray[np.int32]
    worth: NDArray[np.int64]
    left: NDArray[np.int32]
    earned: NDArray[np.int64]
    cursor: NDArray[np.int64]
    control: NDArray[np.int64]

    @classmethod
    def begin(
        cls,
        offsets: NDArray[np.int64],
        costs: NDArray[np.int64],
        budgets: NDArray[np.int64],
        worth: NDArray[np.int64],
        floor: int,
    ) -> DepthFirst:
        """Return a search at its root.

        Parameters
        ----------
        offsets
            int64 [jobs + 1], at least one job, no empty menu.
        costs
            int64 [options, rows], at least 0; within a menu in rising order of row 0.
        budgets
            int64 [rows], from 0 to 2**30.
        worth
            int64 [options], such that no sum over jobs overflows.
        floor
            Leaves of no more worth are passed over.
        """
        jobs, rows = offsets.size - 1, budgets.size
        padded = -(-rows // _LANES) * _LANES
        cost = np.zeros((worth.size, padded), dtype=np.int32)
        cost[:, :rows] = np.minimum(costs, budgets + 1)
        left = np.zeros((jobs + 1, padded), dtype=np.int32)
        left[0, :rows] = budgets
        cursor = np.zeros(jobs + 1, dtype=np.int64)
        cursor[0] = offsets[0]
        return cls(
            offsets=np.ascontiguousarray(offsets, dtype=np.int64),
            costs=cost,
            worth=np.ascontiguousarray(worth, dtype=np.int64),
            left=left,
            earned=np.zeros(jobs + 1, dtype=np.int64),
            cursor=cursor,
            control=np.array([0, 0, 0, floor, 0], dtype=np.int64),
        )

    @property
    def nodes(self) -> int:
        """How many nodes were looked at so far."""
        return int(self.control[_NODES])

    @property
    def work(self) -> int:
        """As many as the nodes: each takes about as long."""
        return self.nodes

    @property
    def leaf(self) -> NDArray[np.int64]:
        """int64 [jobs]: the option chosen for each job at the leaf just found."""
        return self.cursor[:-1] - 1

    @property
    def depth(self) -> int:
        """How many jobs are decided where the search is."""
        return int(self.control[_DEPTH])

    def decided(self, depth: int) -> NDArray[np.int64]:
        """Return int64 [depth]: the options chosen for the first jobs where the search is."""
        return self.cursor[:depth] - 1

    def widest(self) -> int | None:
        """Return the least depth above the present one at which options are still to be tried, if any."""
        depths = slice(int(self.control[_ROOT]), self.depth)
        open_at = np.flatnonzero(self.cursor[depths] < self.offsets[1:][depths])
        return int(open_at[0]) + depths.start if open_at.size else None

    def divided(self) -> DepthFirst | None:
        """Give away what is to be tried at the `widest` depth as a search of its own; ``None``: nothing is.

        Nothing is open above that depth, so it becomes the root of the one given away, and the depth
        below it that of the one that stays.
        """
        root = self.widest()
        if root is None:
            return None
        left, earned, cursor = self.left.copy(), self.earned.copy(), self.cursor.copy()
        control = self.control.copy()
        control[[_DEPTH, _NODES, _ROOT]] = root, 0, root
        self.control[_ROOT] = root + 1
        return DepthFirst(self.offsets, self.costs, self.worth, left, earned, cursor, control)

    def raise_floor(self, floor: int, shortened: NDArray[np.int64]) -> None:
        """Demand more of every leaf from now on.

        Parameters
        ----------
        floor
            The worth that leaves must exceed.
        shortened
            int64 [rows]: by how much each row's budget shrinks (0 for capacities).
        """
        self.control[_FLOOR] = floor
        rows = slice(shortened.size)
        self.left[:, rows] = np.maximum(self.left[:, rows].astype(np.int64) - shortened, -1)

    def run(self, nodes: int) -> Status:
        """Search on until a leaf is found, the tree is exhausted, or `nodes` more nodes were looked at."""
        self.control[_LIMIT] = self.control[_NODES] + nodes
        compiled = load("search.depth_first_c")
        if compiled is None:
            return self._run_uncompiled()
        return Status(
            compiled.run(
                self.offsets, self.costs, self.worth, self.left, self.earned, self.cursor, self.control
            )
        )

    def _run_uncompiled(self) -> Status:
        offsets, worth = self.offsets.tolist(), self.worth.tolist()
        left, earned, cursor = self.left.tolist(), self.earned.tolist(), self.cursor.tolist()
        depth, nodes, limit, floor, root = self.control.tolist()
        costs = self.costs.tolist()
        jobs = len(offsets) - 1
        status = Status.OUT_OF_NODES
        while nodes < limit:
            option = cursor[depth]
            if option >= offsets[depth + 1]:
                if depth == root:
                    status = Status.EXHAUSTED
                    break
                depth -= 1
                continue
            cursor[depth] = option + 1
            nodes += 1
            below = [room - cost for room, cost in zip(left[depth], costs[option], strict=True)]
            if min(below) < 0:
                if below[0] < 0:
                    cursor[depth] = offsets[depth + 1]
                continue
            left[depth + 1] = below
            earned[depth + 1] = earned[depth] + worth[option]
            if depth + 1 == jobs:
                if earned[jobs] <= floor:
                    continue
                status = Status.FOUND
                break
            depth += 1
            cursor[depth] = offsets[depth]
        self.left[:] = left
        self.earned[:] = earned
        self.cursor[:] = cursor
        self.control[:] = depth, nodes, limit, floor, root
        return status
