"""Menus that are asked instead of listed: prices in, the best option out.

What an option is, is said by `all_keys` and `option` alone. `best` and `within` answer from there by going
through all of them; a menu of millions of options overrides both with something that knows its structure, and
is re-checked by the slow answers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Menu", "MenuOption", "Span", "SpanMenu"]


class MenuOption(NamedTuple):
    """What an option is worth and uses.

    Attributes
    ----------
    value
        What it is worth, finite; a cost is negative.
    uses
        Amounts, whole numbers of at least 0, by number of the capacity; what is not named is not used.
    """

    value: float
    uses: Mapping[int, int]

    def at(self, prices: Sequence[float] | NDArray[np.float64]) -> float:
        """Return what it is worth after its uses are paid for."""
        return self.value - float(sum(prices[capacity] * use for capacity, use in self.uses.items()))


class Menu(ABC):
    """The options of one job, each known by a key.

    Prices come as float64 [capacities], at least 0, whole multiples of a power of two that is so small that
    what an option pays is exact, in whatever order it is added up. Every option fits by itself: what takes
    more of a capacity than there is does not belong to the menu.
    """

    @abstractmethod
    def all_keys(self) -> Iterator[Hashable]:
        """Yield the key of every option."""

    @abstractmethod
    def option(self, key: Hashable) -> MenuOption:
        """Return what an option is worth and uses.

        Raises
        ------
        KeyError
            If no option has this key.
        """

    def best(self, prices: NDArray[np.float64]) -> Hashable | None:
        """Return the key of an option that is worth most at some prices; ``None`` of an empty menu."""
        return max(self.all_keys(), key=lambda key: self.option(key).at(prices), default=None)

    def within(self, prices: NDArray[np.float64], least: float) -> Iterable[Hashable]:
        """Yield the keys of all options that are worth so much or more at some prices."""
        return (key for key in self.all_keys() if self.option(key).at(prices) >= least)


class Span(NamedTuple):
    """One way to run without a break in periods of equal length.

    Attributes
    ----------
    amount
        What is used in every period.
    length
        Periods, at least 1.
    worth
        What it is worth by first period, -inf where it may not begin, nor beyond the last.
    """

    amount: int
    length: int
    worth: Sequence[float] | NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SpanMenu(Menu):
    """When a job runs, and how wide; its keys are pairs of a span's number and its first period.

    The best of all starts of a span is found from running sums of the prices: one pass over the periods, not
    one over the uses of all options.

    Attributes
    ----------
    spans
        The ways to run.
    rooms
        int64 [periods]: how much there is in every period; who begins so that it is not enough does not fit.
    first
        Number of the capacity of period 0; those of the other periods follow.
    """

    spans: Sequence[Span]
    rooms: Sequence[int] | NDArray[np.int64]
    first: int = 0

    def all_keys(self) -> Iterator[tuple[int, int]]:
        """Yield every span with every start that it may have."""
        for number, span in enumerate(self.spans):
            for start in range(len(span.worth)):
                if self._is_option(span, start):
                    yield number, start

    def option(self, key: Hashable) -> MenuOption:
        """Return what a span is worth from some start, and its uses of all its periods."""
        match key:
            case (int(number), int(start)) if 0 <= number < len(self.spans):
                span = self.spans[number]
                if 0 <= start < len(span.worth) and self._is_option(span, start):
                    begin = self.first + start
                    uses = dict.fromkeys(range(begin, begin + span.length), span.amount)
                    return MenuOption(float(span.worth[start]), uses)
        raise KeyError(key)

    def _is_option(self, span: Span, start: int) -> bool:
        rooms = self.rooms[start : start + span.length]
        return len(rooms) == span.length and span.worth[start] > -np.inf and min(rooms) >= span.amount

    def best(self, prices: NDArray[np.float64]) -> tuple[int, int] | None:
        """Return the best start of the best span."""
        found, most = None, -np.inf
        for number, scores in self._scores(prices):
            start = int(scores.argmax())
            if scores[start] > most:
                found, most = (number, start), float(scores[start])
        return found

    def within(self, prices: NDArray[np.float64], least: float) -> Iterator[tuple[int, int]]:
        """Yield all starts of all spans that are worth so much or more."""
        for number, scores in self._scores(prices):
            for start in np.flatnonzero((scores >= least) & (scores > -np.inf)).tolist():
                yield number, start

    def _scores(self, prices: NDArray[np.float64]) -> Iterator[tuple[int, NDArray[np.float64]]]:
        """Yield what the starts of every span are worth at prices, where it has some."""
        paid = np.concatenate(([0.0], np.cumsum(prices[self.first : self.first + len(self.rooms)])))
        for number, worth in enumerate(self._worths):
            if worth.size:
                span = self.spans[number]
                yield number, worth - span.amount * (paid[span.length :][: worth.size] - paid[: worth.size])

    @cached_property
    def _worths(self) -> list[NDArray[np.float64]]:
        """What every span is worth by start, -inf where it does not fit."""
        found = []
        for span in self.spans:
            worth = np.array(span.worth, dtype=np.float64)[: max(0, len(self.rooms) - span.length + 1)]
            short = np.concatenate(([0], np.cumsum(np.asarray(self.rooms) < span.amount)))
            worth[short[span.length :][: worth.size] > short[: worth.size]] = -np.inf
            found.append(worth)
        return found
