"""The child process that general solvers run in: its start and its end, and what runs in it.

Started as ``python -c`` with the parent's import path, never by fork (a fork after a threaded HiGHS solve
hangs) and never through ``multiprocessing.spawn`` (which would run the caller's script again).
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.core.extension_points import loaded
from apportion.core.options import SolveOptions
from apportion.core.outcome import Termination

__all__ = ["Process", "UnreadableAnswer", "main"]

OUT_OF_MEMORY = 71
"""Exit code of a child that could not even say that it has no memory left."""

_DYING = 2.0
"""Seconds a process whose pipe is closed may take to be gone: it needs the processor once more for that."""


class UnreadableAnswer(Exception):
    """What the process sent cannot be unpickled; the message names the error."""


class Process:
    """A child process; it starts when first asked for and starts again when it has died.

    Parameters
    ----------
    memory_bytes
        Limit of its address space, 0 for none.
    """

    def __init__(self, memory_bytes: int) -> None:
        self._memory_bytes = memory_bytes
        self._process: subprocess.Popen[bytes] | None = None
        self._jobs: Connection | None = None
        self._answers: Connection | None = None
        self._lifeline: int | None = None
        self._asked: set[str] = set()
        self._loaded: set[str] = set()
        self._oom_kills: int | None = None

    @property
    def pid(self) -> int | None:
        """The process id while it lives, else ``None``."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    def close(self) -> None:
        """End the process; the next call starts a new one."""
        if self._process is not None:
            self._process.kill()
            _reap(self._process)
        for connection in (self._jobs, self._answers):
            if connection is not None:
                connection.close()
        if self._lifeline is not None:
            os.close(self._lifeline)
        self._process = self._jobs = self._answers = self._lifeline = None
        self._asked, self._loaded = set(), set()

    @contextmanager
    def ended_at(self, deadline: float | None) -> Iterator[threading.Event]:
        """Kill it if the block is not over at a time; the event says whether that happened.

        A process that is stopped, or busy swapping, neither reads its pipe nor finishes a message it began:
        nothing but its end releases who waits for that.
        """
        struck = threading.Event()
        if deadline is None:
            yield struck
            return

        def strike() -> None:
            if (process := self._process) is not None:
                struck.set()
                process.kill()

        timer = threading.Timer(max(deadline - time.perf_counter(), 0.0), strike)
        timer.daemon = True
        timer.start()
        try:
            yield struck
        finally:
            timer.cancel()

    def loaded(self, entry: str, deadline: float | None) -> bool:
        """Start it if need be and wait until it has imported a backend; False if that takes too long.

        It goes on importing meanwhile, so that a later call finds it ready.
        """
        if self.pid is None:
            self.close()
            self._spawn()
        if entry not in self._asked:
            self.send(("load", entry))
            self._asked.add(entry)
        while entry not in self._loaded:
            if self._next(deadline) is None:
                return False
        return True

    def send(self, message: tuple[Any, ...]) -> None:
        """Send a job; ``OSError`` if the process is gone."""
        assert self._jobs is not None
        self._jobs.send(message)

    def receive(self, deadline: float | None) -> Any:
        """Return the next message about a job, ``None`` at the deadline.

        An import that an earlier call did not wait for may end meanwhile: it is noted and passed over.

        Raises
        ------
        EOFError, OSError
            If the process is gone.
        UnreadableAnswer
            If the message cannot be unpickled.
        """
        while (message := self._next(deadline)) is not None and message[0] == "loaded":
            pass
        return message

    def _next(self, deadline: float | None) -> Any:
        """Return the next message of any sort, with what was loaded noted."""
        assert self._answers is not None
        left = None if deadline is None else max(deadline - time.perf_counter(), 0.0)
        try:
            message = self._answers.recv() if self._answers.poll(left) else None
            if message is not None and message[0] == "loaded":
                self._loaded.add(message[1])
            return message
        except (EOFError, OSError):
            raise
        except Exception as error:
            raise UnreadableAnswer(f"{type(error).__name__}: {error}") from error

    def epitaph(self) -> tuple[Termination, str]:
        """Return how the process ended, and clean up behind it."""
        code = None
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                code = self._process.wait(timeout=_DYING)
        self.close()
        limited = f" (its memory is limited to {self._memory_bytes} bytes)" if self._memory_bytes else ""
        if code == OUT_OF_MEMORY:
            return Termination.MEMORY_LIMIT, f"the child process ran out of memory{limited}"
        if code is None or code >= 0:
            return Termination.ERROR, f"the child process ended with code {code}{limited}"
        name = signal.Signals(-code).name
        if -code == signal.SIGABRT and self._memory_bytes:
            # how native code ends when an allocation fails
            return Termination.MEMORY_LIMIT, f"the child process ended by {name}{limited}"
        oom_kills = _oom_kills()
        if (
            -code == signal.SIGKILL
            and None not in (oom_kills, self._oom_kills)
            and oom_kills != self._oom_kills
        ):
            return Termination.MEMORY_LIMIT, f"the kernel ended the child process for its memory{limited}"
        killed = " (killed, or out of memory)" if -code == signal.SIGKILL else ""
        return Termination.ERROR, f"the child process ended by {name}{killed}{limited}"

    def _spawn(self) -> None:
        self._oom_kills = _oom_kills()
        jobs_read, jobs_write = os.pipe()
        answers_read, answers_write = os.pipe()
        life_read, life_write = os.pipe()
        self._jobs = Connection(jobs_write, readable=False)
        self._answers = Connection(answers_read, writable=False)
        self._lifeline = life_write
        ours = f"import sys; sys.path[:] = {sys.path!r}; from apportion.solvers.isolation.process import main"
        call = f"main({jobs_read}, {answers_write}, {life_read}, {self._memory_bytes})"
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", f"{ours}; {call}"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(jobs_read, answers_write, life_read),
                start_new_session=True,  # Ctrl-C is the parent's to handle
            )
        finally:
            for theirs in (jobs_read, answers_write, life_read):
                os.close(theirs)


def _reap(process: subprocess.Popen[bytes]) -> None:
    """Wait for a killed process; one with much memory to give back is left to a thread."""
    try:
        process.wait(timeout=0.02)
    except subprocess.TimeoutExpired:
        threading.Thread(target=process.wait, daemon=True).start()


def _oom_kills() -> int | None:
    """Return how many processes this kernel ended for want of memory; ``None`` where it does not say."""
    with suppress(OSError, ValueError):
        for line in Path("/proc/vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return None


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
    with suppress(Exception):
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
    with suppress(OSError):
        os.read(lifeline_fd, 1)
    os._exit(0)
