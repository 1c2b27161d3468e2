"""Running trees in slices: the clock, Ctrl-C and a limit on the nodes of a whole call."""

from __future__ import annotations

from collections.abc import Callable

from apportion.solvers.search.assignment_tree import AssignmentTree, Status

__all__ = ["Slices"]

_WORK = 3_000_000
"""Work of one slice: a few milliseconds."""


class Slices:
    """Limits of one call, over all the trees it searches.

    Parameters
    ----------
    over
        Whether the time is over.
    nodes
        Limit on the nodes of all trees, ``None`` for none.

    Attributes
    ----------
    nodes, work
        Nodes and work (cells of tables) of all trees so far.
    interrupted
        Whether Ctrl-C was pressed.
    """

    def __init__(self, over: Callable[[], bool], nodes: int | None) -> None:
        self._over, self._limit = over, nodes
        self.nodes = 0
        self.work = 0
        self.interrupted = False

    def over(self) -> bool:
        """Whether a limit is reached, or Ctrl-C was pressed."""
        return self.interrupted or self._over() or (self._limit is not None and self.nodes >= self._limit)

    def run(self, tree: AssignmentTree, most: int) -> Status:
        """Search until the end, a plan, so many nodes of the tree, or a limit of the call."""
        before, worked = self.nodes - tree.nodes, self.work - tree.work
        if self._limit is not None:
            most = min(most, max(self._limit - before, 1))
        try:
            while True:
                status = tree.run(_WORK, most)
                self.nodes, self.work = before + tree.nodes, worked + tree.work
                if status is not Status.OUT_OF_WORK or self._over():
                    return status
        except KeyboardInterrupt:
            self.interrupted = True
            return Status.OUT_OF_WORK
