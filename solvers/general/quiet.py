"""Keep native output off standard output: solvers print on file descriptor 1 whatever they are told."""

from __future__ import annotations

import ctypes
import fcntl
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache

__all__ = ["native_output_to_stderr"]


@contextmanager
def native_output_to_stderr() -> Iterator[None]:
    """Send what native code writes on fd 1 to fd 2 while the block runs.

    Blocks may nest and may run in several threads at once: the last one to end puts fd 1 back. While any
    runs, what Python prints on fd 1 goes to fd 2 too. Where fd 1 is closed nothing happens; where fd 2 is
    closed the output is thrown away.
    """
    switch = _switch()
    switch.enter()
    try:
        yield
    finally:
        switch.leave()


class _Switch:
    """Counts the blocks that want fd 1 redirected."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._depth = 0
        self._saved: int | None = None

    def enter(self) -> None:
        with self._lock:
            self._depth += 1
            if self._depth == 1:
                _flush()
                self._saved = _redirect()

    def leave(self) -> None:
        with self._lock:
            self._depth -= 1
            if self._depth == 0 and self._saved is not None:
                _flush()  # what native code still buffers belongs to fd 2
                with suppress(OSError):
                    os.dup2(self._saved, 1)
                os.close(self._saved)
                self._saved = None


@cache
def _switch() -> _Switch:
    """Return the one switch of this process: there is one fd 1."""
    return _Switch()


def _redirect() -> int | None:
    """Point fd 1 at fd 2 (or at nothing) and return a copy of what it was; ``None`` if it is closed."""
    try:
        saved = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 3)  # 0, 1, 2 may be free and keep their meaning
    except OSError:
        return None
    try:
        os.dup2(2, 1)
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.close(nowhere)
    return saved


def _flush() -> None:
    """Empty the buffers of Python's and of C's standard output."""
    with suppress(OSError, ValueError, AttributeError):
        sys.stdout.flush()
    with suppress(OSError, AttributeError):
        _c_library().fflush(None)


@cache
def _c_library() -> ctypes.CDLL:
    return ctypes.CDLL(None)
