"""Limits of time on a machine that others keep busy: those of a quiet one, times how slow this one is now."""

from __future__ import annotations

import time

__all__ = ["patience", "slowdown"]

_SPIN_S = 0.05
_QUIET = 1.3
"""Up to this ratio of wall-clock to CPU seconds a machine counts as quiet, and limits hold as they stand."""


def slowdown() -> float:
    """Return the wall-clock seconds that a second of this thread's work takes now, measured by a spin."""
    began, until = time.perf_counter(), time.thread_time() + _SPIN_S
    while time.thread_time() < until:
        pass
    return max(1.0, (time.perf_counter() - began) / _SPIN_S)


def patience(seconds: float) -> float:
    """Return `seconds` on a quiet machine, and on a busy one twice as many times longer as it is slower."""
    slower = slowdown()
    return seconds if slower <= _QUIET else 2.0 * slower * seconds
