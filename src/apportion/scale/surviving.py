"""A process pool that outlives its workers: a death costs the one call that was running there, once more.

`concurrent.futures.ProcessPoolExecutor` is lost as a whole when one worker dies, with all that was waiting.
Here every worker is a pool of its own with one process, so a broken pool names the call that was on it, the
others are not disturbed, and nothing that has answered runs again.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import current_process, get_context, parent_process
from multiprocessing.connection import wait as wait_for
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from apportion.core.errors import ApportionError, InvalidOption

__all__ = ["SurvivingPool", "WorkerDied", "demand_main_guard"]

P = ParamSpec("P")
T = TypeVar("T")


class WorkerDied(ApportionError):
    """Every worker process that a call was given to died before it answered."""


@dataclass(slots=True, eq=False)
class _Call:
    outer: Future[Any]
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    deaths: int = 0


class SurvivingPool(Executor):
    """Run calls on spawned processes; a call whose worker dies is given to a fresh one.

    Parameters
    ----------
    workers
        Processes at a time; each starts with its first call.
    attempts
        Deaths of its worker after which a call's future raises `WorkerDied`.

    Notes
    -----
    Spawned processes import the main module again: a script needs ``if __name__ == "__main__":``. A worker
    ends itself when this process is gone.

    Raises
    ------
    InvalidOption
        If the program has no such line, or this is a spawned process that imports it.
    """

    def __init__(self, workers: int, attempts: int = 3) -> None:
        demand_main_guard()
        self._attempts = attempts
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._waiting: deque[_Call] = deque()
        self._idle: list[ProcessPoolExecutor] = [_worker() for _ in range(workers)]
        self._running = 0
        self._closed = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Hand in a call; function, arguments and result travel by pickle.

        Raises
        ------
        ValueError
            If the function stands in a main module that processes do not import: ``package/__main__.py``, or
            a program read from standard input.
        """
        _demand_importable(fn)
        outer: Future[T] = Future()
        with self._lock:
            if self._closed:
                raise RuntimeError("cannot submit after shutdown")
            self._waiting.append(_Call(outer, fn, args, dict(kwargs)))
        self._dispatch()
        return outer

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls, and end the workers once those handed in are done (or, if asked, cancelled)."""
        with self._lock:
            self._closed = True
            cancelled = list(self._waiting) if cancel_futures else []
            if cancel_futures:
                self._waiting.clear()
        for call in cancelled:
            call.outer.cancel()
        if not wait:
            return
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting and not self._running)
            pools, self._idle = self._idle, []
        for pool in pools:
            pool.shutdown()

    def _dispatch(self) -> None:
        """Give waiting calls to idle workers."""
        while True:
            with self._lock:
                if not (self._waiting and self._idle):
                    return
                call, pool = self._waiting.popleft(), self._idle.pop()
                self._running += 1
            # A call that comes back after a death is already marked as running.
            if call.deaths or call.outer.set_running_or_notify_cancel():
                self._start(call, pool)
            else:
                self._release(pool)

    def _start(self, call: _Call, pool: ProcessPoolExecutor) -> None:
        try:
            inner = pool.submit(call.function, *call.arguments, **call.keywords)
        except BrokenProcessPool:  # it died while idle: no call is to blame
            pool = _worker()
            inner = pool.submit(call.function, *call.arguments, **call.keywords)
        inner.add_done_callback(lambda done: self._ended(call, pool, done))

    def _ended(self, call: _Call, pool: ProcessPoolExecutor, inner: Future[Any]) -> None:
        error = inner.exception()
        if isinstance(error, BrokenProcessPool):
            pool.shutdown(wait=False)
            call.deaths += 1
            if call.deaths < self._attempts:
                with self._lock:
                    self._waiting.appendleft(call)
                self._release(_worker())
                return
            reason = f"the worker process died {call.deaths} times on this call, which is given up"
            call.outer.set_exception(WorkerDied(reason))
            self._release(_worker())
            return
        self._release(pool)
        if error is not None:
            call.outer.set_exception(error)
        else:
            call.outer.set_result(inner.result())

    def _release(self, pool: ProcessPoolExecutor) -> None:
        with self._changed:
            self._running -= 1
            self._idle.append(pool)
            self._changed.notify_all()
        self._dispatch()


def demand_main_guard() -> None:
    """Refuse to spawn processes that would run the whole program again, and spawn in their turn."""
    main = sys.modules.get("__main__")
    file, spec = getattr(main, "__file__", None), getattr(main, "__spec__", None)
    again = getattr(current_process(), "_inheriting", False)  # spawned, and still importing the main module
    if not again and file is not None and not (spec and spec.name.rpartition(".")[2] == "__main__"):
        with suppress(OSError):
            again = b"__name__" not in Path(file).read_bytes()
    if again:
        raise InvalidOption(
            f"worker processes import {file or 'the main module'} again: what it does must stand under "
            'if __name__ == "__main__":'
        )


def _demand_importable(function: Callable[..., Any]) -> None:
    """Refuse what a spawned process cannot find: it would die on every attempt."""
    main = sys.modules.get("__main__")
    if getattr(function, "__module__", None) != "__main__" or main is None:
        return
    spec = getattr(main, "__spec__", None)
    file = getattr(main, "__file__", None)
    if file is None or not Path(file).is_file() or (spec and spec.name.rpartition(".")[2] == "__main__"):
        name = getattr(function, "__qualname__", repr(function))
        raise ValueError(f"worker processes cannot import {name} from __main__: move it to a module")


def _worker() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=_end_with_parent)


def _end_with_parent() -> None:
    """Watch the parent: a worker waits on a queue whose writing end it holds itself, so for ever."""
    parent = parent_process()
    if parent is None:
        return

    def watch() -> None:
        wait_for([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="end with parent").start()
