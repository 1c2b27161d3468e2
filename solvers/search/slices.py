"""Running trees in slices: the clock, Ctrl-C, a limit on the nodes of a whole call, and its threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from apportion.solvers.search.assignment_tree import AssignmentTree
from apportion.solvers.search.crew import Crew
from apportion.solvers.search.side_by_side import SideBySide, shares
from apportion.solvers.search.status import Status

__all__ = ["Slices"]

_ALONE = 2
"""Nodes before a tree is divided: the root alone takes milliseconds."""
_BYTES = 2**30
"""What the parts of one tree may take together, at most."""


class Slices:
    """Limits of one call, over all the trees it searches.

    Parameters
    ----------
    over
        Whether the time is over.
    nodes
        Limit on the nodes of all trees, ``None`` for none.
    threads
        Among how many a tree is divided.

    Attributes
    ----------
    nodes, work
        Nodes and work (cells of tables) of all trees so far.
    interrupted
        Whether Ctrl-C was pressed.
    threads
        How many small trees are worth searching at once.
    """

    def __init__(self, over: Callable[[], bool], nodes: int | None, threads: int = 1) -> None:
        self._over, self._limit = over, nodes
        self._crew = Crew(threads)
        self.nodes = 0
        self.work = 0
        self.interrupted = False

    @property
    def threads(self) -> int:
        """How many threads there are."""
        return self._crew.threads

    def over(self) -> bool:
        """Whether a limit is reached, or Ctrl-C was pressed."""
        return self.interrupted or self._over() or (self._limit is not None and self.nodes >= self._limit)

    def run(self, tree: AssignmentTree, most: int) -> tuple[Status, NDArray[np.int32] | None]:
        """Search until the end, a plan, so many nodes of the tree, or a limit of the call.

        Parameters
        ----------
        tree
            The decision.
        most
            Nodes at most; several threads may look at so many each, or their dives would end halfway.

        Returns
        -------
        status, found
            Why it ended, and int32 [jobs], the machine of every job, of the plan that was found.
        """
        tree_of_all = SideBySide(tree, self._crew, _ALONE, max(1, _BYTES // tree.num_bytes))
        most = self._granted(most if most == 1 else most * self.threads)
        before, worked = self.nodes, self.work
        status = Status.OUT_OF_WORK
        try:
            while status is Status.OUT_OF_WORK:
                status = tree_of_all.run(most - tree_of_all.nodes)
                self.nodes, self.work = before + tree_of_all.nodes, worked + tree_of_all.work
                if self._over():
                    break
        except KeyboardInterrupt:
            self.interrupted = True
            status = Status.OUT_OF_WORK
        return status, tree_of_all.finder.found if status is Status.FOUND else None

    def run_each(self, trees: Sequence[AssignmentTree], most: int) -> list[NDArray[np.int32] | None]:
        """Search small trees side by side, each until its end, a plan or so many nodes; return the plans.

        Parameters
        ----------
        trees
            At most as many as there are threads.
        most
            Nodes of each; less where the limit of the call is near.
        """
        limits = [min(most, own) for own in shares(self._granted(most * len(trees)), max(len(trees), 1))]
        found: list[NDArray[np.int32] | None] = [None] * len(trees)
        running = [at for at, limit in enumerate(limits[: len(trees)]) if limit]
        try:
            while running:
                before = [(trees[at].nodes, trees[at].work) for at in running]
                calls = [partial(trees[at].run, limits[at] - trees[at].nodes) for at in running]
                states = self._crew.run(calls)
                for at, (nodes, work), status in zip(running, before, states, strict=True):
                    self.nodes += trees[at].nodes - nodes
                    self.work += trees[at].work - work
                    found[at] = trees[at].found if status is Status.FOUND else None
                pairs = zip(running, states, strict=True)
                running = [at for at, status in pairs if status is Status.OUT_OF_WORK and not self._over()]
        except KeyboardInterrupt:
            self.interrupted = True
        return found

    def _granted(self, most: int) -> int:
        """Return how many nodes may be looked at: one at least, or nothing would begin."""
        return most if self._limit is None else min(most, max(self._limit - self.nodes, 1))
