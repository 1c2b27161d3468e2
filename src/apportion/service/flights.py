"""Requests under way: whoever asks the same again waits for the same answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from apportion.service.errors import Conflict

__all__ = ["Flights"]

_T = TypeVar("_T")


@dataclass(slots=True, eq=False)
class _Flight(Generic[_T]):
    task: asyncio.Task[_T]
    body: str
    callers: int = 0


class Flights(Generic[_T]):
    """Tasks by request; one is cancelled when nobody waits for it any more."""

    def __init__(self) -> None:
        self._flights: dict[tuple[str, str], _Flight[_T]] = {}

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
        while True:
            flight = self._flights.get(key)
            if flight is None or flight.task.done():
                flight = self._flights[key] = _Flight(asyncio.create_task(start()), body)
                flight.task.add_done_callback(self._landing(key, flight))
            if flight.body != body:
                raise Conflict(f"request {key[1]!r} is under way with another body; take another id")
            flight.callers += 1
            try:
                return await asyncio.shield(flight.task)
            except asyncio.CancelledError:
                if not flight.task.cancelled() or _is_cancelled():
                    raise
                # whoever asked before went away and it was given up just now: it is begun anew
            finally:
                flight.callers -= 1
                if not flight.callers and not flight.task.done():
                    flight.task.cancel()

    def _landing(self, key: tuple[str, str], flight: _Flight[_T]) -> Callable[[object], None]:
        def landed(_: object) -> None:
            if self._flights.get(key) is flight:
                del self._flights[key]

        return landed


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
