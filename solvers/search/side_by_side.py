"""A tree searched by several threads: each has a part, and who is done takes from who has the widest left.

All threads search so many nodes and then meet, so that what is found, and in which turn, depends on their
number alone and not on the clock.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .depth_first import DepthFirst, Status

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

__all__ = ["SideBySide"]

_ALONE = 100_000
"""Nodes that one thread searches before the tree is divided: some milliseconds."""


class SideBySide:
    """A search with the methods of `DepthFirst`, divided among threads as it goes.

    Parameters
    ----------
    tree
        The search; compiled ones alone run side by side.
    threads
        How many parts there may be at once.
    """

    def __init__(self, tree: DepthFirst, threads: int) -> None:
        self._threads = threads
        self._parts = [tree]
        self._ended = 0
        self._leaves: deque[NDArray[np.int64]] = deque()
        self._pool: ThreadPoolExecutor | None = None
        self.leaf = np.zeros(0, dtype=np.int64)
        self.offsets = tree.offsets

    @property
    def nodes(self) -> int:
        """How many nodes all parts had so far."""
        return self._ended + sum(part.nodes for part in self._parts)

    @property
    def depth(self) -> int:
        """How many jobs are decided where the first part is."""
        return self._parts[0].depth

    def decided(self, depth: int) -> NDArray[np.int64]:
        """Return int64 [depth]: the options chosen for the first jobs where the first part is."""
        return self._parts[0].decided(depth)

    def raise_floor(self, floor: int, shortened: NDArray[np.int64]) -> None:
        """Demand more of every leaf from now on; see `DepthFirst.raise_floor`."""
        for part in self._parts:
            part.raise_floor(floor, shortened)

    def run(self, nodes: int) -> Status:
        """Search on until a leaf is found, the tree is exhausted, or about `nodes` more nodes were looked at.

        A leaf that waits its turn was found before the floor rose: the caller may find it no better.
        """
        if self._leaves:
            self.leaf = self._leaves.popleft()
            return Status.LEAF
        self._divide()
        states = self._run_parts(max(nodes // len(self._parts), 1))
        self._leaves.extend(
            part.leaf.copy() for part, state in zip(self._parts, states, strict=True) if state is Status.LEAF
        )
        ended = [part for part, state in zip(self._parts, states, strict=True) if state is Status.EXHAUSTED]
        if len(ended) == len(self._parts):
            if not self._leaves:
                return Status.EXHAUSTED
            del ended[0]  # somebody must say that the search is exhausted once the leaves are handed out
        self._ended += sum(part.nodes for part in ended)
        self._parts = [part for part in self._parts if part not in ended]
        return self.run(nodes) if self._leaves else Status.OUT_OF_NODES

    def _divide(self) -> None:
        """Divide the part with the most open near its root, until every thread has one."""
        while len(self._parts) < self._threads and self.nodes >= _ALONE:
            widths = [(part.widest(), at) for at, part in enumerate(self._parts)]
            able = [(width, at) for width, at in widths if width is not None]
            given = self._parts[min(able)[1]].divided() if able else None
            if given is None:
                return
            self._parts.append(given)

    def _run_parts(self, nodes: int) -> list[Status]:
        if len(self._parts) == 1:
            return [self._parts[0].run(nodes)]
        from concurrent.futures import ThreadPoolExecutor, wait

        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads - 1, thread_name_prefix="search")
        waiting = [self._pool.submit(part.run, nodes) for part in self._parts[1:]]
        try:
            own = self._parts[0].run(nodes)
        finally:
            wait(waiting)  # also after Ctrl-C: nobody may change the parts any more
        return [own, *(future.result() for future in waiting)]
