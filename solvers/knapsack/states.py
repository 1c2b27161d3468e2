"""The states of the core's dynamic program: a dense window or a sorted list of deviations in use.

Both are immutable. A state below the room left by the base choice may stop there and pay `price` for every
unit left over; one above it must come back, and is charged at least `fall` a unit by the groups to come.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

__all__ = ["Dense", "Sparse", "States"]

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
    room: int
    price: float

    @classmethod
    def at_origin(cls, loss: float, room: int, price: float) -> Self:
        """Return the one state of the base choice."""
        return cls(0, np.array([loss]), room, price)

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
        return type(self)(self.low + least, loss, self.room, self.price)

    def finish(self) -> tuple[float, int]:
        """Return the least total loss if every further group stays at its base, and the state that has it."""
        below = min(max(self.room - self.low + 1, 0), self.loss.size)
        if below == 0:
            return np.inf, 0
        total = _distances(self.room - self.low, below)
        total *= self.price
        total += self.loss[:below]
        at = int(total.argmin())
        return float(total[at]), self.low + at

    def bounds(self, rise: float, fall: float) -> NDArray[np.float64]:
        """Return, per state, what every way to the end costs at least."""
        size = self.loss.size
        below = min(max(self.room - self.low + 1, 0), size)
        bound = np.empty(size)
        if below:
            np.multiply(_distances(self.room - self.low, below), rise, out=bound[:below])
        if below < size:
            first = self.low + below - self.room
            np.multiply(np.arange(first, first + size - below, dtype=np.float64), fall, out=bound[below:])
        bound += self.loss
        return bound

    def trimmed(self, limit: float, rise: float, fall: float, cap: int) -> tuple[Self, float]:
        """Return the states that may end below `limit`, and the least bound of those dropped for `cap`."""
        bound = self.bounds(rise, fall)
        alive = bound < limit
        first = int(alive.argmax())
        if not alive[first]:
            return type(self)(self.low, self.loss[:0], self.room, self.price), np.inf
        last = alive.size - int(alive[::-1].argmax())
        dropped = np.inf
        cap *= _WINDOW
        if last - first > cap:
            start = min(max(self.room - self.low - cap // 2, first), last - cap)
            for cut in (bound[first:start], bound[start + cap : last]):
                dropped = min(dropped, float(cut.min(initial=np.inf)))
            first, last = start, start + cap
        if last - first == alive.size:
            return self, dropped
        return type(self)(self.low + first, self.loss[first:last], self.room, self.price), dropped

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
    room: int
    price: float

    @classmethod
    def at_origin(cls, loss: float, room: int, price: float) -> Self:
        """Return the one state of the base choice."""
        return cls(np.zeros(1, dtype=np.int64), np.array([loss]), room, price)

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
        return type(self)(deviation[last], loss[last], self.room, self.price)

    def finish(self) -> tuple[float, int]:
        """Return the least total loss if every further group stays at its base, and the state that has it."""
        below = int(self.deviation.searchsorted(self.room, side="right"))
        if below == 0:
            return np.inf, 0
        total = self.loss[:below] + self.price * (self.room - self.deviation[:below])
        at = int(total.argmin())
        return float(total[at]), int(self.deviation[at])

    def bounds(self, rise: float, fall: float) -> NDArray[np.float64]:
        """Return, per state, what every way to the end costs at least."""
        below = int(self.deviation.searchsorted(self.room, side="right"))
        bound = self.loss.copy()
        bound[:below] += rise * (self.room - self.deviation[:below])
        bound[below:] += fall * (self.deviation[below:] - self.room)
        return bound

    def trimmed(self, limit: float, rise: float, fall: float, cap: int) -> tuple[Self, float]:
        """Return the states that may end below `limit`, and the least bound of those dropped for `cap`."""
        bound = self.bounds(rise, fall)
        alive = np.flatnonzero(bound < limit)
        dropped = np.inf
        if alive.size > cap:
            # Bounds are equal where options tie: then the states nearest the room finish first.
            away = np.abs(self.deviation[alive] - self.room)
            order = np.argpartition(bound[alive] + _NEARNESS * self.price * away, cap)
            dropped = float(bound[alive[order[cap:]]].min())
            alive = np.sort(alive[order[:cap]])
        if alive.size == bound.size:
            return self, dropped
        return type(self)(self.deviation[alive], self.loss[alive], self.room, self.price), dropped

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
        return Dense(low, loss, self.room, self.price)

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
