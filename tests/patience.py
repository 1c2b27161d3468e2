"""Limits of time on a machine that others keep busy: those of a quiet one, times how slow this one is now."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

__all__ = ["patience", "slowdown", "slowdown_apart", "slower", "wait_until"]

_SPIN_S = 0.05
_QUIET = 1.3
"""Up to this ratio of wall-clock to CPU seconds a machine counts as quiet, and limits hold as they stand."""


def slowdown() -> float:
    """Return the wall-clock seconds that a second of this thread's work takes now, measured by a spin."""
    began, until = time.perf_counter(), time.thread_time() + _SPIN_S
    while time.thread_time() < until:
        pass
    return max(1.0, (time.perf_counter() - began) / _SPIN_S)


def slowdown_apart() -> float:
    """Return the same of a process in a session of its own, as daemons, agents and ranks are."""
    spin = f"from {__name__} import slowdown; print(slowdown())"
    root = Path(__file__).resolve().parents[1]
    command = [sys.executable, "-c", spin]
    done = subprocess.run(
        command, cwd=root, start_new_session=True, capture_output=True, text=True, check=True, timeout=120
    )
    return float(done.stdout)


def _crowded() -> float:
    """Return how many processes there are for every core: those we wait for may have less of it than we."""
    return os.getloadavg()[0] / (os.cpu_count() or 1)


def slower() -> float:
    """Return how many times longer a wait may take now: 1 on a quiet machine, else twice its slowness.

    Where every session has a share of its own (Linux's autogroups) a spin knows this session's alone, and
    what is waited for, daemons and ranks in other sessions, may have less: the load counts too.
    """
    found = max(slowdown(), _crowded())
    return 1.0 if found <= _QUIET else 2.0 * found


def patience(seconds: float) -> float:
    """Return `seconds` on a quiet machine, and longer on a busy one, as `slower` says."""
    return seconds * slower()


def wait_until(holds: Callable[[], object], seconds: float = 10.0, every_s: float = 0.05) -> bool:
    """Look every so often until something holds; false if it does not within `patience(seconds)`.

    Whether the time is over is judged by how slow the machine is by then: it may have become busy meanwhile.
    """
    began = time.monotonic()
    while not holds():
        waited = time.monotonic() - began
        if waited >= seconds and waited >= patience(seconds):
            return bool(holds())
        time.sleep(every_s)
    return True
