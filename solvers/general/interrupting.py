"""Ctrl-C during a native solve: stop it and keep what it has."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

__all__ = ["interruptibly"]

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
