"""Calls side by side in threads: those that let go of the interpreter run at once, and all are waited for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

__all__ = ["Crew"]

T = TypeVar("T")


class Crew:
    """So many threads, that of the caller among them; the others are started when there is work for two.

    Parameters
    ----------
    threads
        At least 1.
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._pool: ThreadPoolExecutor | None = None

    def __reduce__(self) -> tuple[type[Crew], tuple[int]]:
        return Crew, (self.threads,)

    def run(self, calls: Sequence[Callable[[], T]]) -> list[T]:
        """Return what the calls return, in their order; at most as many as there are threads."""
        if len(calls) == 1:
            return [calls[0]()]
        from concurrent.futures import ThreadPoolExecutor, wait

        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.threads - 1, thread_name_prefix="search")
        waiting = [self._pool.submit(call) for call in calls[1:]]
        try:
            own = calls[0]()
        finally:
            wait(waiting)  # also after Ctrl-C: nobody may change the searches any more
        return [own, *(future.result() for future in waiting)]
