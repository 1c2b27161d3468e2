"""The child process that general solvers run in: reads jobs from a pipe, streams incumbents back.

Started as ``python -c`` with the parent's import path, never by fork (a fork after a threaded HiGHS solve
hangs) and never through ``multiprocessing.spawn`` (which would run the caller's script again).
"""

from __future__ import annotations

import contextlib
import os
import resource
import threading
from collections.abc import Callable
from importlib import import_module
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.core.extension_points import loaded
from apportion.core.options import SolveOptions

__all__ = ["OUT_OF_MEMORY", "main"]

OUT_OF_MEMORY = 71
"""Exit code of a child that could not even say that it has no memory left."""


def main(jobs_fd: int, answers_fd: int, lifeline_fd: int, memory_bytes: int) -> None:
    """Serve until the parent closes its end.

    Parameters
    ----------
    jobs_fd, answers_fd
        Pipe ends to read jobs from and to write answers to. A job is ``("load", entry)`` or
        ``("solve", number, entry, extra, model, options, start)``.
    lifeline_fd
        A pipe end that reads end-of-file when the parent is gone, however it went.
    memory_bytes
        Limit of this process's address space; 0 leaves it as it is.
    """
    if memory_bytes:
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    threading.Thread(target=_end_with_the_parent, args=(lifeline_fd,), daemon=True).start()
    jobs, answers = Connection(jobs_fd, writable=False), Connection(answers_fd, readable=False)
    try:
        while True:
            try:
                kind, *job = jobs.recv()
            except (EOFError, OSError):
                return
            if kind == "load":
                answers.send(_loaded(*job))
                continue
            answers.send(("begun", job[0]))
            reply = _answer(answers, *job)
            try:
                answers.send(reply)
            except OSError:
                return  # the parent closed its end
            except Exception as error:  # nothing was written: it cannot be pickled
                answers.send(("failed", job[0], f"unsendable answer: {type(error).__name__}: {error}", None))
    except MemoryError:
        os._exit(OUT_OF_MEMORY)


def _loaded(entry: str) -> tuple[Any, ...]:
    """Import a backend and what it will need; an error comes back when it is used."""
    with contextlib.suppress(Exception):
        getattr(_module(entry), "preload", _nothing)()
    return ("loaded", entry)


def _answer(
    answers: Connection,
    number: int,
    entry: str,
    extra: tuple[Any, ...],
    model: Any,
    options: SolveOptions,
    start: NDArray[np.float64] | None,
) -> tuple[Any, ...]:
    def observe(
        point: NDArray[np.float64] | None, objective: float | None, bound: float | None, seconds: float
    ) -> None:
        answers.send(("incumbent", number, point, bound))

    try:
        solve: Callable[..., Any] = loaded(entry)
        return ("done", number, solve(model, options, start, *extra, observe=observe))
    except MemoryError:
        return ("memory", number, "MemoryError")
    except BaseException as error:
        return ("failed", number, f"{type(error).__name__}: {error}", error)


def _module(entry: str) -> Any:
    return import_module(entry.split(":")[0])


def _nothing() -> None:
    """Stand in for a backend that has nothing to load beforehand."""


def _end_with_the_parent(lifeline_fd: int) -> None:
    with contextlib.suppress(OSError):
        os.read(lifeline_fd, 1)
    os._exit(0)
