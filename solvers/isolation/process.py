"""A spawned process that runs `apportion.solvers.isolation.child`: its pipes, its start and its end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from apportion.core.outcome import Termination
from apportion.solvers.isolation.child import OUT_OF_MEMORY

__all__ = ["Process", "UnreadableAnswer"]

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
        ours = f"import sys; sys.path[:] = {sys.path!r}; from apportion.solvers.isolation.child import main"
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
