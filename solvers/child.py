"""The child process that general solvers run in: reads jobs from a pipe, streams incumbents back.

Started as ``python -c`` with the parent's import path, never by fork (a fork after a threaded HiGHS solve
hangs) and never through ``multiprocessing.spawn`` (which would run the caller's script again).
"""

from __future__ import annotations

import contextlib
import os
import resource
import sys
import threading
from importlib import import_module
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.options import SolveOptions

__all__ = ["main"]


def main(jobs_fd: int, answers_fd: int, lifeline_fd: int, memory_bytes: int) -> None:
    """Serve until the parent closes its end.

    Parameters
    ----------
    jobs_fd, answers_fd
        Pipe ends to read jobs from and to write answers to.
    lifeline_fd
        A pipe end that reads end-of-file when the parent is gone, however it went.
    memory_bytes
        Limit of this process's address space; 0 leaves it as it is.
    """
    if memory_bytes:
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    threading.Thread(target=_end_with_the_parent, args=(lifeline_fd,), daemon=True).start()
    jobs, answers = Connection(jobs_fd, writable=False), Connection(answers_fd, readable=False)
    answers.send(("ready", os.getpid()))
    while True:
        try:
            number, entry, extra, model, options, start = jobs.recv()
        except (EOFError, OSError):
            return
        answers.send(_answer(answers, number, entry, extra, model, options, start))


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
        answers.send(("incumbent", number, point, objective, bound, seconds))

    module, function = entry.split(":")
    try:
        solve = getattr(import_module(module), function)
        return ("done", number, solve(model, options, start, *extra, observe=observe))
    except MemoryError:
        return ("memory", number, "MemoryError")
    except BaseException as error:
        with contextlib.suppress(Exception):
            return ("failed", number, f"{type(error).__name__}: {error}", error)
        return ("failed", number, type(error).__name__, None)


def _end_with_the_parent(lifeline_fd: int) -> None:
    with contextlib.suppress(OSError):
        os.read(lifeline_fd, 1)
    os._exit(0)


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:5]))
