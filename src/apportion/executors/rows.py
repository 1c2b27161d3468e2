"""Many calls of one function: each item's answer or its error, with few items in memory at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

__all__ = ["Row", "as_done", "in_order"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Row(Generic[T]):
    """The result of one item, or the error that it raised.

    Attributes
    ----------
    index
        Its position among the items, from 0.
    value
        What the function returned; ``None`` if it raised.
    error
        What it raised, or ``None``.
    """

    index: int
    value: T | None
    error: Exception | None

    def require(self) -> T:
        """Return the value, or raise the error."""
        if self.error is not None:
            raise self.error
        return cast(T, self.value)


def in_order(
    executor: Executor | None, function: Callable[..., T], items: Iterable[tuple[Any, ...]], ahead: int = 64
) -> Iterator[Row[T]]:
    """Yield ``function(*item)`` for every item, in the order given.

    Parameters
    ----------
    executor
        Where to call; ``None`` calls here, one after the other.
    function
        Must be picklable for processes, as must items and results.
    items
        The arguments; an iterator is read at most `ahead` items before the results taken.
    ahead
        How many items may be handed in, running or done but not yet taken, at least 1.

    Yields
    ------
    Row
        One per item. If the iteration is left, what has not started is cancelled.
    """
    if executor is None:
        yield from _here(function, items)
        return
    waiting: deque[tuple[int, Future[T]]] = deque()
    try:
        for index, item in enumerate(items):
            waiting.append((index, executor.submit(function, *item)))
            if len(waiting) >= ahead:
                yield _row(*waiting.popleft())
        while waiting:
            yield _row(*waiting.popleft())
    finally:
        for _, future in waiting:
            future.cancel()


def as_done(
    executor: Executor | None, function: Callable[..., T], items: Iterable[tuple[Any, ...]], ahead: int = 64
) -> Iterator[Row[T]]:
    """Yield ``function(*item)`` for every item as they finish; parameters as in `in_order`."""
    if executor is None:
        yield from _here(function, items)
        return
    waiting: dict[Future[T], int] = {}
    try:
        for index, item in enumerate(items):
            waiting[executor.submit(function, *item)] = index
            while len(waiting) >= ahead:
                yield from _finished(waiting)
        while waiting:
            yield from _finished(waiting)
    finally:
        for future in waiting:
            future.cancel()


def _finished(waiting: dict[Future[T], int]) -> Iterator[Row[T]]:
    done, _ = wait(waiting, return_when=FIRST_COMPLETED)
    for future in sorted(done, key=waiting.__getitem__):
        yield _row(waiting.pop(future), future)


def _row(index: int, future: Future[T]) -> Row[T]:
    try:
        return Row(index, future.result(), None)
    except Exception as error:
        return Row(index, None, error)


def _here(function: Callable[..., T], items: Iterable[tuple[Any, ...]]) -> Iterator[Row[T]]:
    for index, item in enumerate(items):
        try:
            row: Row[T] = Row(index, function(*item), None)
        except Exception as error:
            row = Row(index, None, error)
        yield row
