"""How far a study is: a line on standard error when it begins, then every few seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

__all__ = ["Progress", "followed"]

T = TypeVar("T")

_EVERY_S = 5.0
"""Seconds between two lines."""


class Progress:
    """The runs of a study that are done, and how long the rest takes at that rate.

    Parameters
    ----------
    what
        What is run, in the plural.
    total
        How many there are.
    clock
        Seconds that rise; given by tests.
    """

    def __init__(self, what: str, total: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._what, self._total, self._clock = what, total, clock
        self._began = self._told = clock()
        self.done = 0
        self._say(f"{total} {what} to go")

    def step(self) -> None:
        """Count a run as done; tell where the last line is some seconds old, or none is left."""
        self.done += 1
        now = self._clock()
        if now - self._told < _EVERY_S and self.done < self._total:
            return
        self._told = now
        spent = now - self._began
        left = spent * (self._total - self.done) / self.done
        rest = f", about {_in_words(left)} left" if self.done < self._total else ""
        self._say(f"{self.done} of {self._total} {self._what} done in {_in_words(spent)}{rest}")

    @staticmethod
    def _say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)


def followed(items: Iterable[T], what: str, total: int) -> Iterator[T]:
    """Yield the items, each counted as a run that is done once it is there."""
    progress = Progress(what, total)
    for item in items:
        progress.step()
        yield item


def _in_words(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
