"""A watchdog beside a rank: ends the rank's processes at a deadline even if the agent is frozen or gone.

It is a process of its own that shares nothing with the agent but a pipe. The agent moves the deadline on
for as long as its controller renews the lease; an agent that is stopped, hangs or dies moves it on no
more.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import struct
from pathlib import Path

from apportion.live.steady_clock import steady_s

__all__ = ["Watchdog", "children_of"]

_LOOK_S = 1.0
"""The deadline is looked at so often at least: a sleep does not count the time a machine was suspended."""
_LEAST_STEP_S = 0.2
_DEADLINE = struct.Struct("<d")


class Watchdog:
    """The watchdog of one rank.

    Parameters
    ----------
    group
        The process group of the rank, led by the process it began with.
    deadline_s
        When to end it, by `apportion.live.steady_clock.steady_s`.
    """

    def __init__(self, group: int, deadline_s: float) -> None:
        self._deadline_s = deadline_s
        agent, reading = os.getpid(), 0
        reading, self._writing = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            with contextlib.suppress(BaseException):
                _watch(reading, agent, group, deadline_s)
            os._exit(0)
        os.close(reading)
        os.set_blocking(self._writing, False)

    def move(self, deadline_s: float) -> None:
        """Set a later deadline; an earlier one, or one that differs by next to nothing, is passed over."""
        if deadline_s < self._deadline_s + _LEAST_STEP_S:
            return
        with contextlib.suppress(OSError):  # a watchdog that is gone, or does not read, keeps its deadline
            os.write(self._writing, _DEADLINE.pack(deadline_s))
            self._deadline_s = deadline_s

    def close(self) -> None:
        """Let the watchdog end: nothing is left to watch."""
        with contextlib.suppress(OSError):
            os.close(self._writing)


def children_of(pid: int) -> list[int]:
    """Return the processes whose parent is this one (Linux), none if it is gone."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in (Path("/proc") / str(pid) / "task").iterdir():
            with contextlib.suppress(OSError):
                found.extend(int(child) for child in (task / "children").read_text().split())
    return found


def _watch(reading: int, agent: int, group: int, deadline_s: float) -> None:
    """Wait for the deadline, or for the agent to be gone; then end what is left of the rank."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the agent decides what these mean for the rank
    os.setsid()
    os.dup2(reading, 3)
    os.closerange(4, os.sysconf("SC_OPEN_MAX"))
    while (left_s := deadline_s - steady_s()) > 0:
        if not select.select([3], [], [], min(left_s, _LOOK_S))[0]:
            continue
        told = os.read(3, 4096)
        if not told:
            break
        whole = len(told) - len(told) % _DEADLINE.size
        if whole:
            deadline_s = max(deadline_s, *(value for (value,) in _DEADLINE.iter_unpack(told[:whole])))
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
    for orphan in children_of(agent):  # what left the group came to the agent, which adopts orphans
        if orphan != os.getpid():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(orphan, signal.SIGKILL)
