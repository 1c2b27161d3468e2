"""Better plans between the decisions of a tree: trees over a few machines, as long as the decisions took.

Enough of them in vain, and they have one machine more. What the trees look for, and over which machines, is
the problem's own. As many as there are threads are drawn and searched at once, and the first that finds a
better plan is taken: the others were drawn for the plan before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apportion.solvers.search.assignment_tree import AssignmentTree
from apportion.solvers.search.slices import Slices

__all__ = ["Attempt", "FewMachines", "Trial"]


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """A tree over some machines, and what is to be done with the machines of its jobs, int32 [jobs]."""

    tree: AssignmentTree
    take: Callable[[NDArray[np.int32]], None]


Attempt = Callable[[np.random.Generator, int], Trial | None]
"""Draws so many machines; ``None`` where they cannot hold a better plan."""

_FEWEST, _IN_VAIN = 3, 10
"""Machines of the first trees, and how many trees for each of them are in vain until there is one more."""
_MAKING = 1_500_000
"""What making a tree takes, in cells of tables: half a millisecond."""


class FewMachines:
    """Turns of trees over a few machines.

    Parameters
    ----------
    machines
        How many there are.
    most
        Machines of the largest trees; fewer than all.
    nodes
        Nodes of such a tree at most.
    before
        Work (cells of tables) of the decisions before the first turn.
    seed
        Random seed.
    slices
        Limits of the call.
    """

    def __init__(self, machines: int, most: int, nodes: int, before: int, seed: int, slices: Slices) -> None:
        self._most, self._before, self._slices = min(most, machines - 1), before, slices
        self._nodes, self._random = nodes, np.random.default_rng(seed)
        self._size, self._failed = min(_FEWEST, self._most), 0
        self._until = 0

    def beside(self, attempt: Attempt, over: Callable[[], bool]) -> None:
        """Try for as much work as there was since the last time, anew after every gain."""
        slices = self._slices
        work, began, made = slices.work - self._until, slices.work, 0
        if slices.work < self._before:
            return

        def spent() -> bool:
            return slices.work - began + made * _MAKING >= work or over()

        while self._most > 1 and not spent() and not slices.over():
            made += slices.threads
            if self._turn(attempt):
                began, made = slices.work, 0
        self._until = slices.work

    def descend(self, attempt: Attempt, over: Callable[[], bool]) -> None:
        """Try at the present size until enough were in vain or it is over."""
        while self._most > 1 and not over() and not self._slices.over():
            if not self._turn(attempt) and self._failed == 0:
                return

    def _turn(self, attempt: Attempt) -> bool:
        """Try as many as there are threads, return whether one found a better plan; enough in vain: grow."""
        drawn = [attempt(self._random, self._size) for _ in range(self._slices.threads)]
        trials = [trial for trial in drawn if trial is not None]
        found = self._slices.run_each([trial.tree for trial in trials], self._nodes)
        for trial, plan in zip(trials, found, strict=True):
            if plan is not None:
                trial.take(plan)
                self._failed = 0
                return True
        self._failed += len(drawn)
        if self._failed >= _IN_VAIN * self._size:
            self._failed, self._size = 0, min(self._size + 1, self._most)
        return False
