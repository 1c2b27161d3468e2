"""Native solvers kept in order: bad versions are refused, Ctrl-C stops a solve, their output stays apart.

Versions that answer wrongly or crash each other are refused before their import. An interrupted solve keeps
what it has. Solvers print on file descriptor 1 whatever they are asked, so it is standard error meanwhile.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import TypeVar

from apportion.core.errors import BackendUnavailable

__all__ = [
    "DEFECTS",
    "Defect",
    "check_engines",
    "engines_noted",
    "interruptibly",
    "known_defects",
    "native_output_to_stderr",
    "usable",
]


@dataclass(frozen=True, slots=True)
class Defect:
    """A defect that makes a solver claim what is not so.

    Attributes
    ----------
    backend, package
        The backend that has it, and the distribution whose version decides.
    first, before
        It is in the versions from `first` on and, where it is mended, below `before`.
    what
        What goes wrong, and where it is reported.
    here
        What this package does about it.
    """

    backend: str
    package: str
    first: tuple[int, ...]
    before: tuple[int, ...] | None
    what: str
    here: str


DEFECTS = (
    Defect(
        "cp-sat",
        "ortools",
        (9, 15),
        None,
        "CP-SAT may claim wrong optima where at-most-one and linear rows meet (google/or-tools issue 5293)",
        "presolve_inclusion_work_limit is set to 0, the work-around named there",
    ),
    Defect(
        "highs",
        "highspy",
        (1, 13),
        (1, 15),
        "HiGHS has called a wrong optimum of a pure integer model optimal (ERGO-Code/HiGHS issue 2980)",
        "its optimum is not believed: our own search is run behind it for a share of the time",
    ),
    Defect(
        "highs",
        "highspy",
        (1, 14),
        (1, 15),
        "presolve of integer programs returns wrong optima in 1.14.0",
        "the version is refused",
    ),
)


def known_defects(backend: str, package: str, version: str | None) -> list[str]:
    """Return what is known of a backend in an installed version, one sentence a defect."""
    if version is None:
        return []
    numbers = tuple(int(part) for part in version.split(".") if part.isdigit())
    return [
        f"{defect.what}; {defect.here}"
        for defect in DEFECTS
        if (defect.backend, defect.package) == (backend, package)
        and numbers >= defect.first
        and (defect.before is None or numbers < defect.before)
    ]


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


_LOOK = 0.1
"""Seconds between two looks for a signal."""

Result = TypeVar("Result")


def interruptibly(call: Callable[[], Result], stop: Callable[[], None]) -> tuple[Result, bool]:
    """Run a native call so that Ctrl-C stops it; return its result and whether that happened.

    Python hears a signal only between two bytecodes of its main thread, so the main thread must not be in
    native code: it waits here while another thread runs the call. The solvers' own handlers are no help:
    SCIP's went unheard until the time limit, and CP-SAT's leaves SIGINT at its default action, so that the
    next Ctrl-C ends the process.

    Parameters
    ----------
    call
        What to run; what it raises is raised here.
    stop
        Asks the call to return soon; called from the main thread, at the first Ctrl-C only. A second one
        is raised as ``KeyboardInterrupt`` and leaves the call to itself.

    Notes
    -----
    Called from any other thread, which no signal reaches, it just runs the call.
    """
    if threading.current_thread() is not threading.main_thread():
        return call(), False
    results: list[Result] = []
    raised: list[BaseException] = []
    ended = threading.Event()

    def run() -> None:
        try:
            results.append(call())
        except BaseException as error:
            raised.append(error)
        finally:
            ended.set()

    threading.Thread(target=run, daemon=True).start()
    interrupted = False
    try:
        while not ended.wait(_LOOK):  # a signal that another thread received does not wake this one
            pass
    except KeyboardInterrupt:
        interrupted = True
        stop()
        ended.wait()
    if raised:
        raise raised[0]
    return results[0], interrupted


_ENGINES = ("highspy", "ortools")
_NOTED: ContextVar[set[str] | None] = ContextVar("engines noted", default=None)


@contextmanager
def engines_noted() -> Iterator[set[str]]:
    """Yield a set to which every engine that is opened in the block is added, by its distribution's name."""
    noted: set[str] = set()
    token = _NOTED.set(noted)
    try:
        yield noted
    finally:
        _NOTED.reset(token)


def check_engines(package: str) -> None:
    """Raise unless the installed versions can be used together; every door to an engine calls it.

    highspy 1.14.0 returns wrong optima (a MIP presolve regression, fixed in 1.15.0). highspy 1.15 and
    OR-Tools up to 9.15 ship shared libraries of the same name, so whichever is imported second fails.

    Parameters
    ----------
    package
        The distribution about to be imported: ``highspy`` or ``ortools``; any other is let through.

    Raises
    ------
    BackendUnavailable
        With what to install instead.
    """
    if (reason := _refusal(package)) is not None:
        raise BackendUnavailable(reason)
    if package in _ENGINES and (noted := _NOTED.get()) is not None:
        noted.add(package)


def usable(package: str) -> bool:
    """Return whether a distribution is installed and may be used; nothing is imported."""
    return _release(package) is not None and _refusal(package) is None


def _refusal(package: str) -> str | None:
    if package not in _ENGINES:
        return None
    highspy, ortools = _release("highspy"), _release("ortools")
    if package == "highspy" and highspy is not None and highspy[:2] == (1, 14):
        return f"highspy {version('highspy')} returns wrong optima; pip install 'highspy>=1.13.1,<1.14'"
    if highspy is not None and ortools is not None and highspy >= (1, 15) and ortools < (9, 16):
        return (
            f"highspy {version('highspy')} and ortools {version('ortools')} cannot be loaded in one process "
            "(both ship libhighs.so.1); pip install 'highspy>=1.13.1,<1.14'"
        )
    return None


def _release(package: str) -> tuple[int, ...] | None:
    return _looked_up(package, version)


@cache
def _looked_up(package: str, find: Callable[[str], str]) -> tuple[int, ...] | None:
    """Return the release that `find` tells; kept, because it is asked for in every solve."""
    try:
        text = find(package)
    except PackageNotFoundError:
        return None
    numbers = []
    for part in text.split(".")[:3]:
        digits = "".join(character for character in part if character.isdigit())
        if not digits:
            break
        numbers.append(int(digits))
    return tuple(numbers)
