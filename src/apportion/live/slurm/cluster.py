"""Slurm as a cluster: idle nodes held by one-node pilots in a partition that the main queue preempts.

Slurm is asked and told by its own commands, each an argument list with a time limit; nothing runs as root and
nothing is configured. A pilot's secret travels in its environment only. That a node goes back to the main
queue is Slurm's own doing, by preemption: nothing here is asked.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from apportion.errors import InvalidOption
from apportion.files import write_whole
from apportion.live.cluster import ClusterSeen, PilotSeen
from apportion.live.errors import ClusterUnreachable, SchedulerMissing, SchedulerRefused
from apportion.live.slurm.commands import EXPORTED, TOKEN, answer_of
from apportion.live.slurm.text import (
    NodeStates,
    NotUnderstood,
    idle,
    nodes_of_json,
    nodes_of_text,
    pilots_of_json,
    pilots_of_text,
    sound,
)

__all__ = ["SlurmCluster", "require_commands"]

_Read = TypeVar("_Read")
_COMMANDS = ("sinfo", "squeue", "sbatch", "scancel")
_SCRIPT = '#!/bin/sh\nexec "$@"\n'


def require_commands() -> None:
    """Check that Slurm's commands are here.

    Raises
    ------
    SchedulerMissing
        If one is not; the message says what to install.
    """
    missing = [command for command in _COMMANDS if shutil.which(command) is None]
    if missing:
        answer = "install Slurm's client commands (Debian: apt install slurm-client) or put them on PATH"
        raise SchedulerMissing(f"no {', '.join(missing)} here: {answer}")


class SlurmCluster:
    """Slurm, seen from one partition.

    Parameters
    ----------
    partition
        Where pilots run: over the nodes to be harvested, preemptible, of the lowest priority.
    instance
        Of the state folder.
    folder
        The state folder, where the pilot's script is written.
    controller
        ``HOST:PORT`` of the report channel.
    fingerprint
        SHA-256 of its certificate, by which pilots know it.
    python
        The interpreter on the nodes.
    options
        Further options for ``sbatch``, such as ``--account=ml``.
    output
        ``json``, ``text``, or ``auto``: JSON unless this Slurm does not write it.
    timeout_s
        Longest time a command may take.
    """

    def __init__(
        self,
        partition: str,
        instance: str,
        folder: Path,
        controller: str,
        fingerprint: str,
        python: str = sys.executable,
        options: Sequence[str] = (),
        output: str = "auto",
        timeout_s: float = 30.0,
    ) -> None:
        if not partition or partition.startswith("-") or not partition.isprintable() or "," in partition:
            raise InvalidOption(f"partition must be the name of one partition, not {partition!r}")
        wrong = [option for option in options if not option.startswith("--") or "\0" in option]
        if wrong:
            raise InvalidOption(f"an option for sbatch is written --NAME=VALUE, not {wrong[0]!r}")
        if output not in ("auto", "json", "text"):
            raise InvalidOption(f"output must be auto, json or text, not {output!r}")
        self.partition, self.instance, self.controller = partition, instance, controller
        self.fingerprint = fingerprint
        self.python, self.options, self.timeout_s = python, tuple(options), timeout_s
        self._script = folder / "pilot.sh"
        self._output = output
        require_commands()

    def check(self) -> str | None:
        """Return a warning if pilots in the partition would not make room for the main queue.

        Raises
        ------
        InvalidOption
            If there is no such partition.
        ClusterUnreachable
            If Slurm does not answer.
        """
        nodes = self._run("sinfo", "--noheader", f"--partition={self.partition}", "--format=%D|%p").strip()
        if not nodes:
            raise InvalidOption(f"Slurm has no partition {self.partition!r}")
        if shutil.which("scontrol") is None:
            return None
        try:
            answer = self._run("scontrol", "--oneliner", "show", "partition", self.partition)
        except (ClusterUnreachable, SchedulerRefused):
            return None  # sites may keep users from it; nothing depends on it
        fields = dict(word.split("=", 1) for word in answer.split() if "=" in word)
        if fields.get("PreemptMode", "").upper() in ("", "OFF"):
            return (
                f"partition {self.partition} has PreemptMode=OFF: unless a QOS makes pilots preemptible, "
                "the main queue waits for nodes held here"
            )
        return None

    def look(self) -> ClusterSeen:
        """Return the pilots, the partition's idle nodes, and those whose slurmd answers."""
        pilots = self.pilots()
        states = self._nodes()
        return ClusterSeen(idle(states), pilots, sound(states))

    def take(self, node: str, pilot: str, token: str) -> str:
        """Submit a pilot."""
        try:
            if not self._script.is_file():
                write_whole(self._script, _SCRIPT.encode())
            self._script.chmod(0o700)
        except OSError as error:
            raise SchedulerRefused(str(error)) from None
        exported = [name for name in EXPORTED if name == TOKEN or name in os.environ]
        answer = self._run(
            "sbatch",
            "--parsable",
            f"--partition={self.partition}",
            *("--nodes=1", "--ntasks=1", "--exclusive", "--mem=0", "--no-requeue"),
            f"--nodelist={node}",
            f"--job-name=apportion-{pilot}",
            *("--output=/dev/null", "--chdir=/"),
            f"--export={','.join(exported)}",
            *self.options,
            str(self._script),
            *(self.python, "-m", "apportion.live.agent.agent"),
            *("--controller", self.controller, "--certificate", self.fingerprint, "--pilot", pilot),
            environment={TOKEN: token},
        )
        handle = answer.strip().split(";")[0]
        if not handle.isdigit():
            raise ClusterUnreachable(f"sbatch printed no job id: {answer.strip()[:200]!r}")
        return handle

    def release(self, handle: str) -> None:
        """Cancel a pilot's job."""
        if not handle.isdigit():
            raise SchedulerRefused(f"{handle!r} is no job id")
        try:
            self._run("scancel", handle)
        except SchedulerRefused as error:
            if "invalid job id" not in str(error).lower() and "already" not in str(error).lower():
                raise ClusterUnreachable(str(error)) from None

    def _nodes(self) -> NodeStates:
        if self._output != "text":
            try:
                raw = self._run("sinfo", "--json", f"--partition={self.partition}").encode()
                return nodes_of_json(raw, self.partition)
            except (NotUnderstood, SchedulerRefused) as error:
                self._fall_back(error)
        text = self._run("sinfo", "--noheader", "--Node", f"--partition={self.partition}", "--format=%N|%T")
        return _understood(lambda: nodes_of_text(text))

    def pilots(self) -> tuple[PilotSeen, ...]:
        """Return the pilots of this instance, whatever their partition."""
        own = (f"--user={os.getuid()}", "--states=all")
        if self._output != "text":
            try:
                return pilots_of_json(self._run("squeue", "--json", *own).encode(), self.instance)
            except (NotUnderstood, SchedulerRefused) as error:
                self._fall_back(error)
        text = self._run("squeue", "--noheader", *own, "--format=%i|%T|%N|%n|%j")
        return _understood(lambda: pilots_of_text(text, self.instance))

    def _fall_back(self, error: Exception) -> None:
        if self._output == "json":
            raise ClusterUnreachable(f"Slurm's JSON cannot be read: {error}") from None
        self._output = "text"

    def _run(self, *command: str, environment: Mapping[str, str] | None = None) -> str:
        return answer_of(command, self.timeout_s, environment)


def _understood(read: Callable[[], _Read]) -> _Read:
    try:
        return read()
    except NotUnderstood as error:
        raise ClusterUnreachable(f"Slurm's answer cannot be read: {error}") from None
