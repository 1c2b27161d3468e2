"""Slurm's commands: run with a time limit, and a refusal told apart from no answer."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Collection, Mapping, Sequence

from apportion.live.errors import ClusterUnreachable, SchedulerMissing, SchedulerRefused

__all__ = ["EXPORTED", "TOKEN", "answer_of"]

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
