"""Slurm's commands: run with a time limit, and a refusal told apart from no answer."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

from apportion.core.errors import ClusterUnreachable, SchedulerMissing, SchedulerRefused
from apportion.live.cluster import Cluster, ClusterSeen
from apportion.live.offers import Share

__all__ = ["EXPORTED", "TOKEN", "TimedCluster", "answer_of"]


class TimedCluster:
    """Passes everything on to a cluster.

    Parameters
    ----------
    cluster
        The scheduler.
    report
        Called with what was asked (``look``, ``take`` or ``release``), the seconds until the answer, and
        whether there was one.

    Attributes
    ----------
    idle
        Idle nodes at the last look.
    """

    def __init__(self, cluster: Cluster, report: Callable[[str, float, bool], None]) -> None:
        self._cluster, self._report = cluster, report
        self.idle: tuple[str, ...] = ()

    def look(self) -> ClusterSeen:
        """Look, timed."""
        with self._timed("look"):
            seen = self._cluster.look()
        self.idle = seen.idle
        return seen

    def take(self, node: str, pilot: str, token: str, share: Share | None = None) -> str:
        """Take a node or a part of it, timed."""
        with self._timed("take"):
            return self._cluster.take(node, pilot, token, share)

    def release(self, handle: str) -> None:
        """End a pilot, timed."""
        with self._timed("release"):
            self._cluster.release(handle)

    @contextmanager
    def _timed(self, what: str) -> Iterator[None]:
        began_s, answered = time.perf_counter(), True
        try:
            yield
        except ClusterUnreachable:
            answered = False
            raise
        finally:
            self._report(what, time.perf_counter() - began_s, answered)


TOKEN = "APPORTION_PILOT_TOKEN"
EXPORTED = (
    *("PATH", "HOME", "USER", "LOGNAME", "LANG", "PYTHONPATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV"),
    TOKEN,
)
"""The variables that pilots are given."""
_AWAY = (
    "unable to contact",
    "connection refused",
    "connection timed out",
    "socket timed out",
    "zero bytes",
    "communication connection failure",
    "backup controller",
    "slurm_load",
    "could not establish a configuration source",
)
"""Parts of what Slurm's commands print when slurmctld is away; anything else is a refusal."""


def answer_of(
    command: Sequence[str],
    timeout_s: float,
    environment: Mapping[str, str] | None = None,
    only: Collection[str] | None = None,
) -> str:
    """Run one of Slurm's commands and return what it printed.

    Parameters
    ----------
    command
        An argument list.
    timeout_s
        Longest time it may take.
    environment
        Further variables.
    only
        Of this process's own variables these and Slurm's are handed on, nearly all by default.

    Raises
    ------
    SchedulerMissing
        If there is no such command here.
    ClusterUnreachable
        If Slurm does not answer.
    SchedulerRefused
        If it says no.
    """
    variables = {name: value for name, value in os.environ.items() if not name.startswith("SBATCH_")}
    if only is not None:
        variables = {
            name: value for name, value in variables.items() if name in only or name.startswith("SLURM_")
        }
    # what is handed on comes to a pilot's trainers: messages are to be English, the rest is as it was
    variables |= {"LC_ALL" if only is None else "LC_MESSAGES": "C", **(environment or {})}
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=variables,
            timeout=timeout_s,
            check=False,
        )
    except FileNotFoundError:
        raise SchedulerMissing(f"no {command[0]} here") from None
    except subprocess.TimeoutExpired:
        raise ClusterUnreachable(f"{command[0]} did not answer in {timeout_s:g} s") from None
    except OSError as error:
        raise ClusterUnreachable(f"{command[0]} cannot be run: {error}") from None
    if done.returncode == 0:
        return done.stdout.decode(errors="replace")
    said = " ".join(done.stderr.decode(errors="replace").split())[-500:]
    answer = f"{command[0]}: {said or f'exit code {done.returncode}'}"
    if any(part in answer.lower() for part in _AWAY):
        raise ClusterUnreachable(answer)
    raise SchedulerRefused(answer)
