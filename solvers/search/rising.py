"""A rising sequence of decisions: the least target at which there is a plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Answer", "Rising"]

_NEAR = 64
"""Steps between bound and incumbent up to which the next target is the bound itself."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What one decision came to.

    Attributes
    ----------
    none
        Whether no plan is within the target.
    value
        The value of a plan that was found, at most the target; ``None`` without one.
    bound
        A lower bound on every plan, or ``None``.
    nodes
        Nodes looked at.
    """

    none: bool
    value: int | None
    bound: int | None
    nodes: int


@dataclass(slots=True)
class Rising:
    """Bounds that close in on the least value; values are whole multiples of `step`.

    The tree of a target grows with the target, so the sequence begins at the bound: it rises, twice as far
    every time, while roots alone answer, and then goes on by single steps (by eighths of a wide range).

    Attributes
    ----------
    decide
        Called with a target and whether only the root is to be looked at.
    low
        No plan has a lower value.
    high
        The best plan's value, ``None`` without one.
    step
        The least difference of two values.
    slack
        What a better plan must gain at least to be looked for.
    over
        Whether to stop.
    nodes
        Nodes so far.
    """

    decide: Callable[[int, bool], Answer]
    low: int
    high: int | None
    step: int
    slack: int
    over: Callable[[], bool]
    nodes: int = 0

    @property
    def closed(self) -> bool:
        """Whether nothing better is left to look for."""
        return self.high is not None and self.low > self.high - self.slack

    def improve(self, value: int) -> None:
        """Take a plan found elsewhere."""
        self.high = value if self.high is None else min(self.high, value)

    def run(self) -> None:
        """Decide until closed or over."""
        jump = self.step
        while not self.closed and not self.over():
            answer = self._ask(self._capped(self.low + jump - self.step), True)
            if not answer.none:
                break
            jump *= 2
        jump = self.step
        while not self.closed and not self.over():
            answer = self._ask(self._capped(self._next(jump)), False)
            if answer.none:
                jump *= 2
            elif answer.value is None:
                return

    def _next(self, jump: int) -> int:
        if self.high is None:
            return self.low + jump - self.step
        steps = (self.high - self.slack - self.low) // self.step
        return self.low + (0 if steps <= _NEAR else steps // 8) * self.step

    def _capped(self, target: int) -> int:
        return target if self.high is None else min(target, self.high - self.slack)

    def _ask(self, target: int, root_only: bool) -> Answer:
        answer = self.decide(target, root_only)
        self.nodes += answer.nodes
        if answer.none:
            self.low = max(self.low, target + self.step)
        if answer.bound is not None:
            self.low = max(self.low, -(-answer.bound // self.step) * self.step)
        if answer.value is not None:
            self.improve(answer.value)
        return answer
