"""Slurm as a cluster: idle nodes or GPUs held by pilots in a partition that the main queue preempts.

Slurm is asked and told by its own commands, each an argument list with a time limit; nothing runs as root and
nothing is configured. A pilot's secret travels in its environment only. That a node goes back to the main
queue is Slurm's own doing, by preemption: nothing here is asked.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import shutil
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from apportion.errors import InvalidOption
from apportion.files import write_whole
from apportion.live.cluster import ClusterSeen, PilotSeen
from apportion.live.errors import ClusterUnreachable, SchedulerMissing, SchedulerRefused
from apportion.live.offers import Offer, Share
from apportion.live.slurm.coming import (
    PLANNED,
    RESERVED,
    earliest,
    planned_of_text,
    reservations_of_text,
)
from apportion.live.slurm.commands import EXPORTED, TOKEN, answer_of
from apportion.live.slurm.details import Detail, details_of_text, idle_units, sizes_of_text, states_of
from apportion.live.slurm.node_types import types_of
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
_GRES = re.compile(r"\A[A-Za-z0-9_]+(:[A-Za-z0-9_.-]+)?\Z")
_COMING_S = 30.0
_TIMES = MappingProxyType({"SLURM_TIME_FORMAT": "standard"})
_SCRIPT = '#!/bin/sh\nexec "$@"\n'


def require_commands(more: tuple[str, ...] = ()) -> None:
    """Check that Slurm's commands are here.

    Raises
    ------
    SchedulerMissing
        If one is not; the message says what to install.
    """
    missing = [command for command in (*_COMMANDS, *more) if shutil.which(command) is None]
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
    gres
        The generic resource that pilots take one by one, such as ``gpu`` or ``gpu:a100``; ``None``: they take
        whole nodes.
    types
        Features of nodes that are types: jobs may name them. GPUs have types of their own in Slurm. Several
        of either count as one where they are written ``NAME=ONE+ANOTHER``.
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
        gres: str | None = None,
        types: Sequence[str] = (),
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
        if gres is not None and not _GRES.match(gres):
            raise InvalidOption(f"gres must be a resource's name, such as gpu or gpu:a100, not {gres!r}")
        self.gres, self.types = gres, types_of(types)
        self._sizes: Mapping[str, Offer] = {}
        self._coming: tuple[float, Mapping[str, float]] | None = None
        self._script = folder / "pilot.sh"
        self._output = output
        require_commands(() if gres is None else ("scontrol",))

    def check(self) -> str | None:
        """Return a warning if pilots in the partition would not make room for the main queue.

        Raises
        ------
        InvalidOption
            If there is no such partition, or none of its nodes has what pilots are to take.
        ClusterUnreachable
            If Slurm does not answer.
        """
        nodes = self._run("sinfo", "--noheader", f"--partition={self.partition}", "--format=%D|%p").strip()
        if not nodes:
            raise InvalidOption(
                f"Slurm has no partition {self.partition!r}; sinfo lists them, --partition names one"
            )
        if self.gres is not None and not self._details(self.gres):
            raise InvalidOption(f"gres: no node of partition {self.partition!r} has any {self.gres}")
        if self.gres is None:
            told = self._run(
                "sinfo", "--noheader", "--Node", f"--partition={self.partition}", "--format=%N|%c|%m|%b"
            )
            with contextlib.suppress(NotUnderstood):  # nothing but a clearer refusal depends on it
                self._sizes = sizes_of_text(told, self.types)
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
        if self.gres is not None:
            details = self._details(self.gres)
            offers = {node: detail.offer for node, detail in details.items()}
            return ClusterSeen(
                *(idle_units(details), pilots, sound(states_of(details)), offers, self._wanted())
            )
        states = self._nodes()
        return ClusterSeen(idle(states), pilots, sound(states), self._sizes, self._wanted())

    def _wanted(self) -> Mapping[str, float]:
        """Return in how many seconds others want a node, where Slurm says so; asked now and then only."""
        now_s = time.monotonic()
        if self._coming is None or now_s >= self._coming[0] + _COMING_S:
            told: list[tuple[str, float]] = []
            user = pwd.getpwuid(os.getuid()).pw_name
            with contextlib.suppress(NotUnderstood, SchedulerRefused, SchedulerMissing):
                told += reservations_of_text(self._run(*RESERVED, environment=_TIMES), user)
            with contextlib.suppress(NotUnderstood, SchedulerRefused):
                told += planned_of_text(self._run(*PLANNED, environment=_TIMES))
            self._coming = now_s, earliest(told, time.time())
        since_s, found = self._coming
        return {node: max(in_s - (now_s - since_s), 0.0) for node, in_s in found.items()}

    def take(self, node: str, pilot: str, token: str, share: Share | None = None) -> str:
        """Submit a pilot."""
        try:
            if not self._script.is_file():
                write_whole(self._script, _SCRIPT.encode())
            self._script.chmod(0o700)
        except OSError as error:
            raise SchedulerRefused(str(error)) from None
        answer = self._run(
            "sbatch",
            "--parsable",
            f"--partition={self.partition}",
            *("--nodes=1", "--ntasks=1", *self._asked(share), "--no-requeue"),
            f"--nodelist={node}",
            f"--job-name=apportion-{pilot}",
            *("--output=/dev/null", "--chdir=/"),
            # a list of names in place of ALL would have slurmd run a login shell first, on the node
            "--export=ALL",
            *self.options,
            str(self._script),
            *(self.python, "-m", "apportion.live.agent.agent"),
            *("--controller", self.controller, "--certificate", self.fingerprint, "--pilot", pilot),
            environment={TOKEN: token},
            only=EXPORTED,
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

    def _asked(self, share: Share | None) -> tuple[str, ...]:
        if share is None:
            return "--exclusive", "--mem=0"
        return f"--gres={self.gres}:1", f"--cpus-per-task={share.cpus}", f"--mem={share.memory_mib}M"

    def _details(self, gres: str) -> dict[str, Detail]:
        text = self._run("scontrol", "--details", "--oneliner", "show", "node")
        return _understood(lambda: details_of_text(text, self.partition, gres, self.types))

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

    def _run(
        self,
        *command: str,
        environment: Mapping[str, str] | None = None,
        only: Collection[str] | None = None,
    ) -> str:
        return answer_of(command, self.timeout_s, environment, only)


def _understood(read: Callable[[], _Read]) -> _Read:
    try:
        return read()
    except NotUnderstood as error:
        raise ClusterUnreachable(f"Slurm's answer cannot be read: {error}") from None
