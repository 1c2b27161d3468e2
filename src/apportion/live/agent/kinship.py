"""What the kernel is asked for about parents and children: to take others along, or to tell (Linux)."""

from __future__ import annotations

import ctypes
import signal
import sys

__all__ = ["adopt_orphans", "die_with_parent", "hear_of_parents_end"]

_SET_PARENT_DEATH_SIGNAL, _SET_CHILD_SUBREAPER = 1, 36
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


def adopt_orphans() -> None:
    """Become the parent of what a trainer's processes leave behind, so that it can be ended."""
    if _LIBC is not None:
        _LIBC.prctl(_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    """Have this process killed when its parent ends."""
    if _LIBC is not None:
        _LIBC.prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)


def hear_of_parents_end() -> None:
    """Have this process told by SIGCHLD when its parent ends, or a thread of it: whoever hears it looks."""
    if _LIBC is not None:
        _LIBC.prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGCHLD)
