"""A tree searched by several threads: each has a part, and who is done takes from who has the widest left.

All threads search so many nodes and then meet, so that what is found, and in which turn, depends on their
number alone and not on the clock. Parts of a tree that is searched to its end have the nodes of the whole.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import Generic, Protocol, Self, TypeVar

from .crew import Crew
from .status import Status

__all__ = ["SideBySide", "Tree", "shares"]


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
