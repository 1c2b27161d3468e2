"""Better plans between the decisions of a tree: trees over a few machines, as long as the decisions took.

Enough of them in vain, and they have one machine more. What the trees look for, and over which machines, is
the problem's own.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from apportion.solvers.search.slices import Slices

__all__ = ["Attempt", "FewMachines"]

Attempt = Callable[[np.random.Generator, int], bool]
"""Draws so many machines, and returns whether a better plan was found on them."""

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
    before
        Work (cells of tables) of the decisions before the first turn.
    seed
        Random seed.
    slices
        Limits of the call.
    """

    def __init__(self, machines: int, most: int, before: int, seed: int, slices: Slices) -> None:
        self._most, self._before, self._slices = min(most, machines - 1), before, slices
        self._random = np.random.default_rng(seed)
        self._size, self._failed = min(_FEWEST, self._most), 0
        self._until = 0

    def beside(self, attempt: Attempt, over: Callable[[], bool]) -> None:
        """Try for as much work as there was since the last time, anew after every gain."""
        slices = self._slices
        work, began, made = slices.work - self._until, slices.work, 0
        if slices.work < self._before:
            return

        def again(rng: np.random.Generator, size: int) -> bool:
            nonlocal began, made
            made += 1
            found = attempt(rng, size)
            began, made = (slices.work, 0) if found else (began, made)
            return found

        def spent() -> bool:
            return slices.work - began + made * _MAKING >= work or over()

        while self._most > 1 and not spent() and not slices.over():
            self.descend(again, spent)
        self._until = slices.work

    def descend(self, attempt: Attempt, over: Callable[[], bool]) -> None:
        """Try at the present size until enough were in vain or it is over."""
        while self._most > 1 and not over() and not self._slices.over():
            if attempt(self._random, self._size):
                self._failed = 0
                continue
            self._failed += 1
            if self._failed >= _IN_VAIN * self._size:
                self._failed, self._size = 0, min(self._size + 1, self._most)
                return
