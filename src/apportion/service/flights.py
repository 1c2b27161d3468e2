"""Requests under way: whoever asks the same again waits for the same answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from apportion.service.errors import Conflict

__all__ = ["Flights"]

_T = TypeVar("_T")


class Flights(Generic[_T]):
    """Tasks by request; one is cancelled when nobody waits for it any more."""

    def __init__(self) -> None:
        self._tasks: dict[tuple[str, str], asyncio.Task[_T]] = {}
        self._bodies: dict[tuple[str, str], str] = {}
        self._callers: dict[tuple[str, str], int] = {}

    async def join(self, key: tuple[str, str], body: str, start: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        """Return the answer of a request, which is started if it is not under way.

        Parameters
        ----------
        key
            Session and request id.
        body
            The digest of what is asked.
        start
            Returns the coroutine that carries it out.

        Raises
        ------
        Conflict
            If something else is under way by this id.
        """
        if key not in self._tasks:
            task = self._tasks[key] = asyncio.create_task(start())
            self._bodies[key], self._callers[key] = body, 0
            task.add_done_callback(lambda _: self._land(key))
        if self._bodies[key] != body:
            raise Conflict(f"request {key[1]!r} is under way with another body; take another id")
        task = self._tasks[key]
        self._callers[key] += 1
        try:
            return await asyncio.shield(task)
        finally:
            if key in self._callers:
                self._callers[key] -= 1
                if not self._callers[key] and not task.done():
                    task.cancel()

    def _land(self, key: tuple[str, str]) -> None:
        for table in (self._tasks, self._bodies, self._callers):
            table.pop(key, None)
