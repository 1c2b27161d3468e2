"""Running trees in slices: the clock, Ctrl-C, a limit on the nodes of a whole call, and its threads.

Threads search so many nodes side by side and then meet, and who is done takes a part from who has the widest
left. So what is found, and in which turn, depends on the number of threads alone and not on the clock; parts
of a tree that is searched to its end have the nodes of the whole.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Generic, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from apportion.solvers.search.assignment_tree import AssignmentTree
from apportion.solvers.search.depth_first import Status

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

__all__ = ["Crew", "SideBySide", "Slices", "Tree", "shares"]


ResultT = TypeVar("ResultT")


class Crew:
    """So many threads, that of the caller among them; the others are started when there is work for two.

    Parameters
    ----------
    threads
        At least 1.
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._pool: ThreadPoolExecutor | None = None

    def __reduce__(self) -> tuple[type[Crew], tuple[int]]:
        return Crew, (self.threads,)

    def run(self, calls: Sequence[Callable[[], ResultT]]) -> list[ResultT]:
        """Return what the calls return, in their order; at most as many as there are threads."""
        if len(calls) == 1:
            return [calls[0]()]
        from concurrent.futures import ThreadPoolExecutor, wait

        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.threads - 1, thread_name_prefix="search")
        waiting = [self._pool.submit(call) for call in calls[1:]]
        try:
            own = calls[0]()
        finally:
            wait(waiting)  # also after Ctrl-C: nobody may change the searches any more
        return [own, *(future.result() for future in waiting)]


class Tree(Protocol):
    """A search that is stopped and taken up again, and of which a part can be given away."""

    @property
    def nodes(self) -> int:
        """How many nodes were looked at so far."""

    @property
    def work(self) -> int:
        """What slices are measured in: nodes, where all take about as long."""

    def run(self, nodes: int) -> Status:
        """Search on for so many more nodes at most, in a slice."""

    def widest(self) -> int | None:
        """Return the least depth at which something is to be tried beside the present path, if any."""

    def divided(self) -> Self | None:
        """Give away what is to be tried at the `widest` depth as a search of its own, if there is any."""


T = TypeVar("T", bound=Tree)


class SideBySide(Generic[T]):
    """A search divided among threads as it goes.

    Parameters
    ----------
    tree
        The search; compiled ones alone run side by side.
    crew
        How many parts there may be at once.
    alone
        Nodes that one thread searches before the tree is divided: some milliseconds.
    most
        How many parts there may be for other reasons; ``None``: any number.

    Attributes
    ----------
    parts
        The first of them is what is left of the tree itself, as long as that is not exhausted.
    finder
        The part that is at what was found last.
    """

    def __init__(self, tree: T, crew: Crew, alone: int, most: int | None = None) -> None:
        self.parts = [tree]
        self.finder = tree
        self._crew, self._alone = crew, alone
        self._most = crew.threads if most is None else min(most, crew.threads)
        self._ended_nodes = self._ended_work = 0
        self._finders: deque[T] = deque()

    @property
    def nodes(self) -> int:
        """How many nodes all parts had so far."""
        return self._ended_nodes + sum(part.nodes for part in self.parts)

    @property
    def work(self) -> int:
        """The work of all parts so far."""
        return self._ended_work + sum(part.work for part in self.parts)

    def run(self, nodes: int) -> Status:
        """Search on in slices until something is found, the tree is exhausted, or so many more nodes.

        What waits its turn was found before the caller learnt of what came first: it may be no better. While
        parts that ended leave nodes to the others it is `Status.OUT_OF_WORK`.
        """
        if self._most == 1:
            return self.parts[0].run(nodes)
        if not self._finders:
            status = self._round(nodes)
            if status is not Status.FOUND:
                return status
        self.finder = self._finders.popleft()
        return Status.FOUND

    def _round(self, nodes: int) -> Status:
        """Let every part search on for its share of the nodes, and leave out those that are exhausted."""
        self._divide()
        before = self.nodes
        most = shares(nodes, len(self.parts))
        states = self._crew.run([partial(part.run, own) for part, own in zip(self.parts, most, strict=True)])
        if set(states) == {Status.EXHAUSTED}:
            return Status.EXHAUSTED
        ended = list[T]()
        for part, status in zip(self.parts, states, strict=True):
            if status is Status.FOUND:
                self._finders.append(part)
            elif status is Status.EXHAUSTED:
                ended.append(part)
        if self._finders:
            status = Status.FOUND
        elif self.nodes - before < nodes or Status.OUT_OF_WORK in states:
            status = Status.OUT_OF_WORK
        else:
            status = Status.OUT_OF_NODES
        self._ended_nodes += sum(part.nodes for part in ended)
        self._ended_work += sum(part.work for part in ended)
        self.parts = [part for part in self.parts if part not in ended]
        return status

    def _divide(self) -> None:
        """Divide the part with the most open near its root, until every thread has one."""
        while len(self.parts) < self._most and self.nodes >= self._alone:
            widths = [(part.widest(), at) for at, part in enumerate(self.parts)]
            able = [(width, at) for width, at in widths if width is not None]
            given = self.parts[min(able)[1]].divided() if able else None
            if given is None:
                return
            self.parts.append(given)


def shares(count: int, parts: int) -> list[int]:
    """Divide a count into whole parts that differ by one at most."""
    least, more = divmod(count, parts)
    return [least + (at < more) for at in range(parts)]


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
