"""The record as the service writes it: one thread, and what waits together is written in one transaction."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from apportion.service.record import History, Record
from apportion.service.record.entries import RecordInUse

__all__ = ["RecordWriter"]

_T = TypeVar("_T")
_Work = tuple[Callable[[Record], Any], Callable[[], None], asyncio.Future[Any], asyncio.AbstractEventLoop]
_TOGETHER = 64


class RecordWriter:
    """A record written by one thread.

    Parameters
    ----------
    path, max_bytes, durable
        As in `apportion.service.record.Record`.
    """

    def __init__(self, path: Path, *, max_bytes: int | None = None, durable: bool = True) -> None:
        self.path = path
        self._record = Record(path, max_bytes=max_bytes, durable=durable)
        self._reader = History(path)  # keeps the shared files open, so that reading works on a full disk
        self._closed = False
        self._work: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write, name="record", daemon=True)
        self._thread.start()

    def write(
        self, step: Callable[[Record], _T], failed: Callable[[], None] = lambda: None
    ) -> asyncio.Future[_T]:
        """Have a step carried out, and return what it will return when it is on disk.

        Parameters
        ----------
        step
            Called in the thread that writes; what waits at the same time is written with it.
        failed
            Called in that thread, before any later step, if the step cannot be written: nothing of it is,
            then, and the future raises what happened, `RecordFull` for instance; `RecordInUse` of a ledger
            that is closed.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[_T] = loop.create_future()
        if self._closed:
            future.set_exception(RecordInUse("the service ends: nothing more is put on record; ask again"))
        else:
            self._work.put((step, failed, future, loop))
        return future

    async def read(self, step: Callable[[History], _T]) -> _T:
        """Return what a step returns, carried out in a thread on a reader of its own."""

        def reading() -> _T:
            with History(self.path) as history:
                return step(history)

        return await asyncio.to_thread(reading)

    def read_now(self, step: Callable[[History], _T]) -> _T:
        """Return what a step that takes next to no time returns."""
        return step(self._reader)

    def close(self) -> None:
        """Write what waits, and close the file."""
        self._closed = True
        self._work.put(None)
        self._thread.join()
        self._reader.close()
        self._record.close()

    def _write(self) -> None:
        while (first := self._work.get()) is not None:
            batch = [first]
            while len(batch) < _TOGETHER and not self._work.empty():
                work = self._work.get()
                if work is None:
                    self._work.put(None)
                    break
                batch.append(work)
            if len(batch) > 1 and self._all(batch):
                continue
            for work in batch:  # one by one, so that what cannot be written stops nothing else
                self._all([work])

    def _all(self, batch: list[_Work]) -> bool:
        results = []
        try:
            with self._record.together():
                results = [step(self._record) for step, *_ in batch]
        except Exception as error:
            if len(batch) == 1:
                _, failed, future, loop = batch[0]
                failed()
                _tell(loop, future, error=error)
            return False
        for (*_, future, loop), result in zip(batch, results, strict=True):
            _tell(loop, future, result)
        return True


def _tell(
    loop: asyncio.AbstractEventLoop,
    future: asyncio.Future[Any],
    result: Any = None,
    error: Exception | None = None,
) -> None:
    def settle() -> None:
        if not future.done():
            future.set_result(result) if error is None else future.set_exception(error)

    if not loop.is_closed():
        loop.call_soon_threadsafe(settle)
