"""Bounds and plans that close in on the least target at which there is a plan, decision by decision."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Answer", "Rising"]

_NODES = 64
"""Nodes of a decision in the first round; four times as many in every further one."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one decision: a plan within the target, none, or undecided, and the bound.

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
    """A sequence of decisions; values are whole multiples of `step`.

    Far below the optimum a root alone shows that there is no plan; the tree of a target grows with it. So the
    targets first rise, twice as far every time, while roots answer. Then they rise from the bound with few
    nodes each, those that stay open being passed over, until a plan is found; and again with four times as
    many nodes until nothing is left: what is repeated is a third of the work at most.

    Attributes
    ----------
    decide
        Called with a target and the most nodes.
    low
        No plan has a lower value.
    high
        The best plan's value.
    step
        The least difference of two values.
    slack
        What a better plan must gain at least to be looked for.
    over
        Whether to stop.
    improve
        Called when the roots have answered, and before every further decision: may lower `high`.
    nodes
        Nodes so far.
    """

    decide: Callable[[int, int], Answer]
    low: int
    high: int
    step: int
    slack: int
    over: Callable[[], bool]
    improve: Callable[[], None] = lambda: None
    nodes: int = 0

    @property
    def closed(self) -> bool:
        """Whether nothing better is left to look for."""
        return self.low > self.high - self.slack

    def run(self) -> None:
        """Decide until closed or over."""
        jump = self.step
        while not self.closed and not self.over():
            if not self._ask(min(self.low + jump - self.step, self.high - self.slack), 1).none:
                break
            jump *= 2
        nodes = _NODES
        while not self.closed and not self.over():
            self._round(nodes)
            nodes *= 4

    def _round(self, nodes: int) -> None:
        """Look at targets ever farther above what is open, each with so many nodes, until a plan is found."""
        tried, jump = self.low, self.step
        self.improve()
        while tried <= self.high - self.slack and not self.over():
            target = min(tried + jump - self.step, self.high - self.slack)
            answer = self._ask(target, nodes)
            self.improve()
            if answer.value is not None:
                jump = self.step
                continue
            tried, jump = self.low if answer.none else target + self.step, 2 * jump

    def _ask(self, target: int, nodes: int) -> Answer:
        answer = self.decide(target, nodes)
        self.nodes += answer.nodes
        if answer.none:
            self.low = max(self.low, target + self.step)
        if answer.bound is not None:
            self.low = max(self.low, -(-answer.bound // self.step) * self.step)
        if answer.value is not None:
            self.high = min(self.high, answer.value)
        return answer
