"""Dynamic programming over the core: the least total loss for every deviation in use from the base choice.

A state is a deviation in use with the least loss that reaches it. Groups enter in order of their second loss;
a state is dropped when its loss and the least that the groups to come can charge for the way back to the
capacity reach the loss to beat. States are a dense window of consecutive deviations where these are few,
and a sorted list otherwise. The values of every stage are kept; the way back is found by equality.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from apportion.outcome import Termination
from apportion.solvers.clock import Clock
from apportion.solvers.knapsack.reduction import Core
from apportion.solvers.knapsack.states import Dense, Sparse, States

__all__ = ["Found", "search"]

_HISTORY_BYTES = 384 * 2**20
_DENSE_SPREAD = 4096
"""Spread of one group's deviations up to which the window is dense from the start."""


@dataclass(slots=True, eq=False)
class Found:
    """The least total loss that a search over the core has shown, and the choice that has it.

    Attributes
    ----------
    loss
        Least total loss known: that of `entries`, or the given one if `entries` is ``None``.
    entries
        One core entry per group, or ``None`` if nothing better than given was found.
    floor
        No choice has less total loss than this.
    stopped
        The limit that ended the search, or ``None`` when it ran to its end.
    stages, states
        Groups entered, and the most states held at once.
    """

    loss: float
    entries: NDArray[np.int64] | None
    floor: float
    stopped: Termination | None
    stages: int
    states: int


@dataclass(slots=True, eq=False)
class _Trail:
    """The groups entered so far: the options of each and the states before it, to trace a choice back."""

    groups: list[int] = field(default_factory=list)
    options: list[list[int]] = field(default_factory=list)
    before: list[States] = field(default_factory=list)
    bytes: int = 0


def search(
    core: Core,
    best: float,
    step: float,
    goal: float,
    cap: int,
    clock: Clock,
    improved: Callable[[float], None],
) -> Found:
    """Find the least total loss, if it is below `best`.

    Parameters
    ----------
    core
        The groups.
    best
        Total loss of a known choice.
    step
        Only an improvement by more than this counts (it is below the granularity of values, or rounding).
    goal
        Stop when the loss found exceeds the floor by no more than this.
    cap
        Most states held at once in a list, and an eighth of those in a window; beyond it the least promising
        are dropped.
    clock
        Clock and work.
    improved
        Called with each better total loss.
    """
    stages = _Stages(core, best, step, improved)
    try:
        stopped = _enter_groups(stages, goal, cap, clock)
    except KeyboardInterrupt:  # keep the best choice found; what the states prove is lost
        stopped, stages.floor = Termination.INTERRUPTED, 0.0
    return stages.found(stopped)


def _enter_groups(stages: _Stages, goal: float, cap: int, clock: Clock) -> Termination | None:
    """Enter group after group until none can matter, the goal or a limit is reached; return the limit."""
    group = 0
    previous: tuple[list[int], list[float]] | None = None
    while stages.matters(group):
        options = stages.options(group)
        if stages.settled and options == previous:
            group += 1
            continue
        previous = options
        shifts, losses = options
        count = bisect_left(losses, stages.best - stages.step)
        states = stages.states
        if not clock.affords(count * states.size * states.seconds_each):
            stages.lower_floor(group)
            return Termination.TIME_LIMIT
        stages.enter(group, shifts[:count], losses[:count], cap)
        group += 1
        if stages.states.size == 0:
            return None
        if goal > 0.0 and stages.best - min(stages.floor, stages.least(group)) <= goal:
            stages.lower_floor(group)
            return None
        clock.charge(count * states.size)
        stopped = clock.stopped()
        if stopped is None and stages.trail.bytes > _HISTORY_BYTES:
            stopped = Termination.MEMORY_LIMIT
        if stopped is not None:
            stages.lower_floor(group)
            return stopped
    return None


class _Stages:
    """The states of one search, those before every stage, and what they show so far.

    Attributes
    ----------
    best, floor
        The least total loss known, and what no choice has less of.
    settled
        Whether the last group changed no state: a group like it would not either.
    """

    def __init__(self, core: Core, best: float, step: float, improved: Callable[[float], None]) -> None:
        self.best, self.step = best, step
        self.floor: float = np.inf
        self.settled = False
        self.trail = _Trail()
        self._core, self._improved = core, improved
        self._answer: tuple[int, int] | None = None
        self._widest = 1
        divisor = _divisor(core.deviation)
        room, rest = divmod(core.room, divisor)
        price = core.multiplier * divisor
        rise, fall = core.rise * divisor, core.fall * divisor
        np.minimum(rise, price, out=rise)
        self._rises, self._falls = rise.tolist(), fall.tolist()
        self._second, self._starts = core.second.tolist(), core.start.tolist()
        self._deviations = core.deviation if divisor == 1 else core.deviation // divisor
        spread = int(self._deviations.max() - self._deviations.min()) if self._deviations.size else 0
        self.states: States = (Dense if spread <= _DENSE_SPREAD else Sparse).at_origin(
            core.multiplier * rest, room, price
        )
        self._note_the_best()

    def matters(self, group: int) -> bool:
        """Return whether there is such a group and its second option may be in a better choice."""
        return group < len(self._second) and self._second[group] < self.best - self.step

    def options(self, group: int) -> tuple[list[int], list[float]]:
        """Return a group's deviations in use, and their losses in rising order."""
        a, b = self._starts[group], self._starts[group + 1]
        return self._deviations[a:b].tolist(), self._core.loss[a:b].tolist()

    def least(self, group: int) -> float:
        """Return the least total loss that the states may lead to from a group on."""
        return float(self.states.bounds(self._rises[group], self._falls[group]).min(initial=np.inf))

    def lower_floor(self, group: int) -> None:
        """Account for all that the states may lead to from a group on."""
        self.floor = min(self.floor, self.least(group))

    def enter(self, group: int, shifts: list[int], losses: list[float], cap: int) -> None:
        """Let a group take each of these options in every state."""
        before = self.states
        self.trail.groups.append(group)
        self.trail.options.append(shifts)
        self.trail.before.append(before)
        self.trail.bytes += before.nbytes
        self.states = before.advanced(shifts, losses)
        self._note_the_best()
        to_beat = self.best - self.step
        self.states, dropped = self.states.trimmed(
            to_beat, self._rises[group + 1], self._falls[group + 1], cap
        )
        self._widest = max(self._widest, self.states.size)
        if dropped < to_beat:
            self.floor = min(self.floor, dropped)
        if self.states.size == 0:
            return
        self.settled = self.states.equals(before)
        if isinstance(self.states, Sparse):
            self.states = self.states.densified(cap)

    def found(self, stopped: Termination | None) -> Found:
        """Return what is known."""
        entries = None if self._answer is None else self._entries(*self._answer)
        floor, stages = min(self.floor, self.best), len(self.trail.groups)
        return Found(self.best, entries, floor, stopped, stages, self._widest)

    def _note_the_best(self) -> None:
        loss, state = self.states.finish()
        if loss < self.best:
            self.best, self._answer = loss, (len(self.trail.groups), state)
            self._improved(loss)

    def _entries(self, stages: int, at: int) -> NDArray[np.int64]:
        """Walk back from a state to the entry every group took."""
        core, trail = self._core, self.trail
        chosen = core.start[:-1].copy()
        for stage in range(stages - 1, -1, -1):
            group, shifts, before = trail.groups[stage], trail.options[stage], trail.before[stage]
            start = int(core.start[group])
            losses = core.loss[start : start + len(shifts)].tolist()
            totals = [
                before.loss_at(at - shift) + charge for shift, charge in zip(shifts, losses, strict=True)
            ]
            pick = min(range(len(totals)), key=totals.__getitem__)
            chosen[group] = start + pick
            at -= shifts[pick]
        return chosen


def _divisor(deviation: NDArray[np.int64]) -> int:
    """Return the greatest common divisor of the deviations, 1 if all are 0."""
    if deviation.size == 0 or (np.abs(deviation) == 1).any():
        return 1
    return max(int(np.gcd.reduce(np.unique(deviation))), 1)
