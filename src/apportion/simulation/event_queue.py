"""The event queue: a heap ordered by time, then priority, then order of entry; every run is the same."""

from __future__ import annotations

import heapq
from typing import Generic, TypeVar

__all__ = ["EventQueue"]

Event = TypeVar("Event")


class EventQueue(Generic[Event]):
    """Events in the order in which they happen.

    Examples
    --------
    >>> queue = EventQueue[str]()
    >>> for at, what in ((5.0, "late"), (1.0, "first"), (1.0, "second")):
    ...     queue.push(at, what)
    >>> queue.push(1.0, "urgent", priority=-1)
    >>> [queue.pop()[1] for _ in range(len(queue))]
    ['urgent', 'first', 'second', 'late']
    """

    __slots__ = ("_count", "_heap")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, int, Event]] = []
        self._count = 0

    def push(self, time_s: float, event: Event, priority: int = 0) -> None:
        """Enter an event; among events of one time the least priority comes first."""
        heapq.heappush(self._heap, (time_s, priority, self._count, event))
        self._count += 1

    def pop(self) -> tuple[float, Event]:
        """Remove and return the next event with its time; an ``IndexError`` if there is none."""
        time_s, _, _, event = heapq.heappop(self._heap)
        return time_s, event

    def next_time(self) -> float | None:
        """Return the time of the next event, ``None`` if there is none."""
        return self._heap[0][0] if self._heap else None

    def __len__(self) -> int:
        return len(self._heap)
