"""Better plans between the decisions of a tree: trees over a few machines, as long as the decisions took.

Enough of them in vain, and they have one machine more. What the trees look for, and over which machines, is
the problem's own. As many as there are threads are drawn and searched at once, and the first that finds a
better plan is taken: the others were drawn for the plan before.

Bounds and plans close in on the least target at which there is a plan, decision by decision (`Rising`), over
values as whole multiples of one unit (`Lattice`), whose error is written down.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from apportion.solvers.search.assignment_tree import LARGEST_SUM, AssignmentTree, Placement
from apportion.solvers.search.depth_first import Status
from apportion.solvers.search.slices import Slices

__all__ = ["Answer", "Attempt", "FewMachines", "Lattice", "Rising", "Trial", "any_placement", "on_lattice"]


_PLACEMENT_NODES = 2**40
"""Searched to the end, as far as the limits of the call let it."""


def any_placement(
    use: NDArray[np.int64], capacity: NDArray[np.int64], allowed: NDArray[np.bool_], slices: Slices
) -> tuple[Status, NDArray[np.int32] | None]:
    """Return how the search ended, and int32 [jobs], the machine of every job, where there is a placement.

    Parameters
    ----------
    use
        int64 [machines, jobs], at least 0.
    capacity
        int64 [machines], at least 0.
    allowed
        bool [machines, jobs]: whether the job may go there.
    slices
        Limits of the call.
    """
    jobs = use.shape[1]
    unit = LARGEST_SUM // (64 * jobs * jobs)
    size = use / np.maximum(capacity, 1)[:, None]
    least = np.where(allowed, size, np.inf).min(axis=0)
    most = float(least[np.isfinite(least)].max(initial=0.0))
    prices = np.full(jobs, float(unit)) if most <= 0 else np.rint(unit * least / most)
    whole = np.where(np.isfinite(prices), prices, unit).astype(np.int64)
    nothing = Placement(np.zeros_like(use), use[None], capacity[None], allowed.astype(np.uint8))
    return slices.run(AssignmentTree(nothing, 0, unit, whole, _PLACEMENT_NODES), _PLACEMENT_NODES)


_DENOMINATORS = (1, 2, 4, 8, 10, 16, 20, 100, 1_000, 10_000)
_NEAR = 2.0**-45
"""Values this near to multiples (relative to the largest) are taken for them: decimal fractions are."""


@dataclass(frozen=True, slots=True, eq=False)
class Lattice:
    """Values ``v`` with ``|v - whole x unit| <= error`` for every one.

    Attributes
    ----------
    whole
        int64, of the shape of the values.
    unit
        The unit, exactly.
    error
        The largest difference, rounded up.
    natural
        Whether the values are multiples, but for the rounding of decimal fractions: none lies between.
    """

    whole: NDArray[np.int64]
    unit: Fraction
    error: Fraction
    natural: bool


def on_lattice(values: NDArray[np.float64], largest: int) -> Lattice | None:
    """Return values as multiples of the coarsest unit they lie on, else of the finest that fits.

    Parameters
    ----------
    values
        float64, finite.
    largest
        Bound on the whole numbers.
    """
    top = float(np.abs(values).max(initial=0.0))
    if top == 0.0:
        return Lattice(np.zeros(values.shape, dtype=np.int64), Fraction(1), Fraction(0), True)
    for denominator in _DENOMINATORS:
        if top * denominator > min(largest, 2.0**44):
            break
        scaled = values * denominator
        whole = np.rint(scaled)
        if not (np.abs(scaled - whole) <= _NEAR * top * denominator).all():
            continue
        # the quotient is rounded once, by half a spacing at most; the difference of such near values is exact
        nearest = whole / denominator
        left = np.abs(values - nearest)
        exact = denominator & (denominator - 1) == 0 and bool((left == 0).all())
        error = 0.0 if exact else float((left + np.spacing(np.abs(nearest))).max())
        return Lattice(whole.astype(np.int64), Fraction(1, denominator), Fraction(error), True)
    exponent = int(np.floor(np.log2(largest / top))) - 1
    if abs(exponent) > 900:
        return None
    scaled = np.ldexp(values, exponent)
    if not (np.abs(scaled) <= largest).all():
        return None
    whole = np.rint(scaled)
    unit = Fraction(2) ** -exponent
    return Lattice(whole.astype(np.int64), unit, unit, False)


_NODES = 64
"""Nodes of a decision in the first round; four times as many in every further one."""
_FAILED = 4
"""Dives that find no plan before targets rise again."""


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
    targets first rise, twice as far every time, while roots answer. Then what is open is halved by dives to
    one plan each. Then they rise from the bound with few nodes each, those that stay open being passed over,
    until a plan is found; and again with four times as many nodes until nothing is left: what is repeated is
    a third of the work at most.

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
        Called when the roots have answered, and before every further decision, of a dive with its nodes: may
        lower `high`.
    dive
        As `decide`, to reach one plan; ``None`` where plans come from elsewhere.
    deep
        Nodes of a dive.
    nodes
        Nodes so far.
    """

    decide: Callable[[int, int], Answer]
    low: int
    high: int
    step: int
    slack: int
    over: Callable[[], bool]
    improve: Callable[[int], None] = lambda nodes: None
    dive: Callable[[int, int], Answer] | None = None
    deep: int = 0
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
        if self.dive is not None:
            self._dives(self.dive)
        nodes = _NODES
        while not self.closed and not self.over():
            self._round(nodes)
            nodes *= 4

    def _dives(self, dive: Callable[[int, int], Answer]) -> None:
        """Halve what is open by dives to one plan each, passing over where a few find none."""
        tried, failed = self.low, 0
        self.improve(self.deep)
        while tried <= self.high - self.slack and failed < _FAILED and not self.over():
            target = (tried + self.high - self.slack) // 2
            answer = self._noted(target, dive(target, self.deep))
            if not answer.none and answer.value is None:
                tried, failed = target + self.step, failed + 1
            tried = max(tried, self.low)
            self.improve(self.deep)

    def _round(self, nodes: int) -> None:
        """Look at targets ever farther above what is open, each with so many nodes, until a plan is found."""
        tried, jump = self.low, self.step
        self.improve(0)
        while tried <= self.high - self.slack and not self.over():
            target = min(tried + jump - self.step, self.high - self.slack)
            answer = self._ask(target, nodes)
            self.improve(0)
            if answer.value is not None:
                jump = self.step
                continue
            tried, jump = self.low if answer.none else target + self.step, 2 * jump

    def _ask(self, target: int, nodes: int) -> Answer:
        return self._noted(target, self.decide(target, nodes))

    def _noted(self, target: int, answer: Answer) -> Answer:
        """Take from an answer what it says of the bound and of the best plan."""
        self.nodes += answer.nodes
        if answer.none:
            self.low = max(self.low, target + self.step)
        if answer.bound is not None:
            self.low = max(self.low, -(-answer.bound // self.step) * self.step)
        if answer.value is not None:
            self.high = min(self.high, answer.value)
        return answer


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

    def beside(self, attempt: Attempt, over: Callable[[], bool], to_come: int = 0) -> None:
        """Try for as much work as there was since the last time, or is to come, anew after every gain."""
        slices = self._slices
        work, began, made = max(slices.work - self._until, to_come), slices.work, 0
        if slices.work + to_come < self._before:
            return

        def spent() -> bool:
            return slices.work - began + made * _MAKING >= work or over()

        while self._most > 1 and not spent() and not slices.over():
            made += slices.threads
            if self._turn(attempt):
                began, made = slices.work, 0
        self._until = slices.work

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
