"""The process that watches over a rank: a script that imports nothing of the package, to start at once.

It is started as ``python -I -S watching.py GROUP AGENT PARENT DEADLINE``, the last in seconds of `clock_s`.
Standard input brings later deadlines, each a little-endian double, and closes when the agent is gone or the
rank is over.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import struct
import sys
import time
from pathlib import Path

DEADLINE = struct.Struct("<d")
_LOOK_S = 1.0
"""Deadline and agent are looked at so often at least: a sleep does not count what a machine was suspended."""


def clock_s() -> float:
    """Return the seconds since this machine was booted, those it was suspended for included (Linux)."""
    clock: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock)


def children_of(pid: int) -> list[int]:
    """Return the processes whose parent is this one (Linux), none if it is gone."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in (Path("/proc") / str(pid) / "task").iterdir():
            with contextlib.suppress(OSError):
                found.extend(int(child) for child in (task / "children").read_text().split())
    return found


def parent_of(pid: int) -> int | None:
    """Return the parent of a process (Linux), ``None`` if that cannot be seen."""
    try:
        stat = (Path("/proc") / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    return int(stat.rpartition(b")")[2].split()[1])


def end_of(pid: int) -> list[int]:
    """Return a descriptor that is ready when a process has ended, none before Linux 5.3."""
    with contextlib.suppress(AttributeError, OSError):
        return [os.pidfd_open(pid)]
    return []


def watch(group: int, agent: int, parent: int, deadline_s: float) -> None:
    """Wait for the deadline, or for the agent to be gone; then end what is left of the rank.

    An agent whose parent is gone (Slurm's, that started it) belongs to no pilot any more: it ends its rank
    itself, unless it is stopped.
    """
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the agent decides what these mean for the rank
    gone = end_of(parent)
    while (left_s := deadline_s - clock_s()) > 0 and parent_of(agent) in (parent, None):
        ready = select.select([0, *gone], [], [], min(left_s, _LOOK_S))[0]
        if not ready:
            continue
        if 0 not in ready:
            break
        received = os.read(0, 512 * DEADLINE.size)
        if not received:
            break
        whole = len(received) - len(received) % DEADLINE.size
        deadline_s = max(deadline_s, *(value for (value,) in DEADLINE.iter_unpack(received[:whole])))
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
    for orphan in children_of(agent):  # what left the group came to the agent, which adopts orphans
        if orphan != os.getpid():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(orphan, signal.SIGKILL)


if __name__ == "__main__":
    watch(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
