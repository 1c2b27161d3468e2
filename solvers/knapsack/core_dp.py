"""Dynamic programming over the core: the least total loss for every deviation in use from the base choice.

A state is a deviation in use with the least loss that reaches it. Groups enter in order of their second loss;
a state is dropped when its loss and the least that the groups to come can charge for the way back to the
capacity reach the loss to beat. States are a dense window of consecutive deviations where these are few,
and a sorted list otherwise. The values of every stage are kept; the way back is found by equality.

The states of the core's dynamic program: a dense window or a sorted list of deviations in use.

Both are immutable. A state below the room left by the base choice may stop there and pay `price` for every
unit left over; one above it must come back, and is charged at least `fall` a unit by the groups to come.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import NDArray

from apportion.core.outcome import Termination
from apportion.solvers.clock import Clock
from apportion.solvers.knapsack.reduction import Core

__all__ = ["CoreResult", "Dense", "Sparse", "States", "search"]


_NEARNESS = 1e-2
"""Share of the capacity's price that a unit of distance from the room weighs when states must be dropped."""
_WINDOW = 8
"""A window may hold this many times the states of a list: it costs that much less to advance."""


@dataclass(slots=True, eq=False)
class Dense:
    """Least losses of consecutive deviations.

    Attributes
    ----------
    low
        The first deviation.
    loss
        float64 [deviations], infinite where nothing leads.
    room, price
        Capacity left by the base choice, and what a unit left over costs.
    """

    low: int
    loss: NDArray[np.float64]
    residual: int
    price: float

    @classmethod
    def at_origin(cls, loss: float, residual: int, price: float) -> Self:
        """Return the one state of the base choice."""
        return cls(0, np.array([loss]), residual, price)

    @property
    def size(self) -> int:
        """How many states are held."""
        return self.loss.size

    @property
    def nbytes(self) -> int:
        """How much memory they take."""
        return self.loss.nbytes

    @property
    def seconds_each(self) -> float:
        """Seconds that one option of one state may take, on the safe side."""
        return 5e-9

    def advanced(self, shifts: list[int], losses: list[float]) -> Self:
        """Return the states after one more group takes one of its options, the first of which is free."""
        least, most = min(shifts), max(shifts)
        size = self.loss.size
        loss = np.full(size + most - least, np.inf)
        loss[-least : size - least] = self.loss
        reached = np.empty(size)
        for shift, charge in zip(shifts[1:], losses[1:], strict=True):
            window = loss[shift - least : shift - least + size]
            np.add(self.loss, charge, out=reached)
            np.minimum(window, reached, out=window)
        return type(self)(self.low + least, loss, self.residual, self.price)

    def finish(self) -> tuple[float, int]:
        """Return the least total loss if every further group stays at its base, and the state that has it."""
        below = min(max(self.residual - self.low + 1, 0), self.loss.size)
        if below == 0:
            return np.inf, 0
        total = _distances(self.residual - self.low, below)
        total *= self.price
        total += self.loss[:below]
        at = int(total.argmin())
        return float(total[at]), self.low + at

    def bounds(self, rise: float, fall: float) -> NDArray[np.float64]:
        """Return, per state, what every way to the end costs at least."""
        size = self.loss.size
        below = min(max(self.residual - self.low + 1, 0), size)
        bound = np.empty(size)
        if below:
            np.multiply(_distances(self.residual - self.low, below), rise, out=bound[:below])
        if below < size:
            first = self.low + below - self.residual
            np.multiply(np.arange(first, first + size - below, dtype=np.float64), fall, out=bound[below:])
        bound += self.loss
        return bound

    def trimmed(self, limit: float, rise: float, fall: float, cap: int) -> tuple[Self, float]:
        """Return the states that may end below `limit`, and the least bound of those dropped for `cap`."""
        bound = self.bounds(rise, fall)
        alive = bound < limit
        first = int(alive.argmax())
        if not alive[first]:
            return type(self)(self.low, self.loss[:0], self.residual, self.price), np.inf
        last = alive.size - int(alive[::-1].argmax())
        dropped = np.inf
        cap *= _WINDOW
        if last - first > cap:
            start = min(max(self.residual - self.low - cap // 2, first), last - cap)
            for cut in (bound[first:start], bound[start + cap : last]):
                dropped = min(dropped, float(cut.min(initial=np.inf)))
            first, last = start, start + cap
        if last - first == alive.size:
            return self, dropped
        return type(self)(self.low + first, self.loss[first:last], self.residual, self.price), dropped

    def equals(self, other: object) -> bool:
        """Return whether the states are the same."""
        return (
            isinstance(other, Dense)
            and self.low == other.low
            and self.loss.size == other.loss.size
            and bool((self.loss == other.loss).all())
        )

    def loss_at(self, deviation: int) -> float:
        """Return the loss of a state, infinity where there is none."""
        at = deviation - self.low
        return float(self.loss[at]) if 0 <= at < self.loss.size else np.inf


@dataclass(slots=True, eq=False)
class Sparse:
    """Least losses of some deviations, none of them dominated by a thriftier one.

    Attributes
    ----------
    deviation
        int64 [states], rising.
    loss
        float64 [states].
    room, price
        As in `Dense`.
    """

    deviation: NDArray[np.int64]
    loss: NDArray[np.float64]
    residual: int
    price: float

    @classmethod
    def at_origin(cls, loss: float, residual: int, price: float) -> Self:
        """Return the one state of the base choice."""
        return cls(np.zeros(1, dtype=np.int64), np.array([loss]), residual, price)

    @property
    def size(self) -> int:
        """How many states are held."""
        return self.loss.size

    @property
    def nbytes(self) -> int:
        """How much memory they take."""
        return 2 * self.loss.nbytes

    @property
    def seconds_each(self) -> float:
        """Seconds that one option of one state may take, on the safe side."""
        return 2e-7

    def advanced(self, shifts: list[int], losses: list[float]) -> Self:
        """Return the states after one more group takes one of its options, the first of which is free."""
        deviation = (np.array(shifts)[:, None] + self.deviation).ravel()
        loss = (np.array(losses)[:, None] + self.loss).ravel()
        order = np.argsort(deviation, kind="stable")
        deviation, loss = deviation[order], loss[order]
        # Worth of a state, up to a constant: what it saves of the capacity's price less its loss.
        debt = loss - self.price * deviation
        keep = np.ones(debt.size, dtype=np.bool_)
        np.less(debt[1:], np.minimum.accumulate(debt)[:-1], out=keep[1:])
        deviation, loss = deviation[keep], loss[keep]
        last = np.ones(loss.size, dtype=np.bool_)
        np.not_equal(deviation[1:], deviation[:-1], out=last[:-1])
        return type(self)(deviation[last], loss[last], self.residual, self.price)

    def finish(self) -> tuple[float, int]:
        """Return the least total loss if every further group stays at its base, and the state that has it."""
        below = int(self.deviation.searchsorted(self.residual, side="right"))
        if below == 0:
            return np.inf, 0
        total = self.loss[:below] + self.price * (self.residual - self.deviation[:below])
        at = int(total.argmin())
        return float(total[at]), int(self.deviation[at])

    def bounds(self, rise: float, fall: float) -> NDArray[np.float64]:
        """Return, per state, what every way to the end costs at least."""
        below = int(self.deviation.searchsorted(self.residual, side="right"))
        bound = self.loss.copy()
        bound[:below] += rise * (self.residual - self.deviation[:below])
        bound[below:] += fall * (self.deviation[below:] - self.residual)
        return bound

    def trimmed(self, limit: float, rise: float, fall: float, cap: int) -> tuple[Self, float]:
        """Return the states that may end below `limit`, and the least bound of those dropped for `cap`."""
        bound = self.bounds(rise, fall)
        alive = np.flatnonzero(bound < limit)
        dropped = np.inf
        if alive.size > cap:
            # Bounds are equal where options tie: then the states nearest the room finish first.
            away = np.abs(self.deviation[alive] - self.residual)
            order = np.argpartition(bound[alive] + _NEARNESS * self.price * away, cap)
            dropped = float(bound[alive[order[cap:]]].min())
            alive = np.sort(alive[order[:cap]])
        if alive.size == bound.size:
            return self, dropped
        return type(self)(self.deviation[alive], self.loss[alive], self.residual, self.price), dropped

    def densified(self, cap: int) -> Sparse | Dense:
        """Return a dense window where that is about as small."""
        size = self.loss.size
        if size < 32:
            return self
        low = int(self.deviation[0])
        span = int(self.deviation[-1]) - low + 1
        if span > min(16 * size, cap * _WINDOW):
            return self
        loss = np.full(span, np.inf)
        loss[self.deviation - low] = self.loss
        return Dense(low, loss, self.residual, self.price)

    def equals(self, other: object) -> bool:
        """Return whether the states are the same."""
        return (
            isinstance(other, Sparse)
            and self.loss.size == other.loss.size
            and bool((self.deviation == other.deviation).all())
            and bool((self.loss == other.loss).all())
        )

    def loss_at(self, deviation: int) -> float:
        """Return the loss of a state, infinity where there is none."""
        at = int(self.deviation.searchsorted(deviation))
        found = at < self.loss.size and int(self.deviation[at]) == deviation
        return float(self.loss[at]) if found else np.inf


States = Dense | Sparse


def _distances(first: int, count: int) -> NDArray[np.float64]:
    """Return ``first, first - 1, ...`` as float64 [count]."""
    return np.arange(first, first - count, -1, dtype=np.float64)


_HISTORY_BYTES = 384 * 2**20
_DENSE_SPREAD = 4096
"""Spread of one group's deviations up to which the window is dense from the start."""


@dataclass(slots=True, eq=False)
class CoreResult:
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
    enough: float = 0.0,
) -> CoreResult:
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
    enough
        Stop at a total loss up to this.
    """
    stages = _Stages(core, best, step, improved)
    try:
        stopped = _enter_groups(stages, goal, cap, clock, enough)
    except KeyboardInterrupt:  # keep the best choice found; what the states prove is lost
        stopped, stages.floor = Termination.INTERRUPTED, 0.0
    return stages.found(stopped)


def _enter_groups(stages: _Stages, goal: float, cap: int, clock: Clock, enough: float) -> Termination | None:
    """Enter group after group until none can matter, the goal or a limit is reached; return the limit."""
    group = 0
    previous: tuple[list[int], list[float]] | None = None
    while stages.matters(group):
        options = stages.options(group)
        if stages.stationary and options == previous:
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
        if stages.best <= enough:
            stages.lower_floor(group)
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
    stationary
        Whether the last group changed no state: a group like it would not either.
    """

    def __init__(self, core: Core, best: float, step: float, improved: Callable[[float], None]) -> None:
        self.best, self.step = best, step
        self.floor: float = np.inf
        self.stationary = False
        self.trail = _Trail()
        self._core, self._improved = core, improved
        self._answer: tuple[int, int] | None = None
        self._widest = 1
        divisor = _divisor(core.deviation)
        residual, rest = divmod(core.residual, divisor)
        price = core.multiplier * divisor
        rise, fall = core.rise * divisor, core.fall * divisor
        np.minimum(rise, price, out=rise)
        self._rises, self._falls = rise.tolist(), fall.tolist()
        self._second, self._starts = core.second.tolist(), core.start.tolist()
        self._deviations = core.deviation if divisor == 1 else core.deviation // divisor
        spread = int(self._deviations.max() - self._deviations.min()) if self._deviations.size else 0
        self.states: States = (Dense if spread <= _DENSE_SPREAD else Sparse).at_origin(
            core.multiplier * rest, residual, price
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
        self.stationary = self.states.equals(before)
        if isinstance(self.states, Sparse):
            self.states = self.states.densified(cap)

    def found(self, stopped: Termination | None) -> CoreResult:
        """Return what is known."""
        entries = None if self._answer is None else self._entries(*self._answer)
        floor, stages = min(self.floor, self.best), len(self.trail.groups)
        return CoreResult(self.best, entries, floor, stopped, stages, self._widest)

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
