"""A watchdog beside a rank: ends the rank's processes at a deadline even if the agent is frozen or gone.

It is a process of its own (`apportion.live.agent.watching`) that shares nothing with the agent but a pipe.
The agent moves the deadline on for as long as its controller renews the lease; an agent that is stopped,
hangs or dies moves it on no more.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys

from apportion.live.agent import watching

__all__ = ["Watchdog"]

_LEAST_STEP_S = 0.2


class Watchdog:
    """The watchdog of one rank.

    Parameters
    ----------
    group
        The process group of the rank, led by the process it began with.
    deadline_s
        When to end it, by `apportion.live.steady_clock.steady_s`.

    Attributes
    ----------
    deadline_s
        When it ends the rank now.

    Raises
    ------
    OSError
        If it cannot be started.
    """

    def __init__(self, group: int, deadline_s: float) -> None:
        self.deadline_s = deadline_s
        command = [sys.executable, "-I", "-S", watching.__file__]
        self._process = subprocess.Popen(
            [*command, str(group), str(os.getpid()), str(os.getppid()), repr(deadline_s)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert self._process.stdin is not None
        self._pipe = self._process.stdin.fileno()
        os.set_blocking(self._pipe, False)

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def move(self, deadline_s: float) -> None:
        """Set a later deadline; an earlier one, or one that differs by next to nothing, is passed over."""
        assert self._process.stdin is not None
        if self._process.stdin.closed or deadline_s < self.deadline_s + _LEAST_STEP_S:
            return
        with contextlib.suppress(OSError):  # a watchdog that is gone, or does not read, keeps its deadline
            os.write(self._pipe, watching.DEADLINE.pack(deadline_s))
            self.deadline_s = deadline_s

    def close(self) -> None:
        """End the watchdog, then its pipe: to a watchdog a closed pipe means that the agent is gone."""
        self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
