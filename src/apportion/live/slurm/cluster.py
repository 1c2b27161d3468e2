"""Slurm as a cluster: idle nodes or GPUs held by pilots in a partition that the main queue preempts.

Slurm is asked and told by its own commands, each an argument list with a time limit; nothing runs as root and
nothing is configured. A pilot's secret travels in its environment only. That a node goes back to the main
queue is Slurm's own doing, by preemption: nothing here is asked.

When nodes are wanted is known beforehand from reservations and from Slurm's backfill, which plans pending
jobs on nodes (``squeue --start``, SCHEDNODES). Neither is a promise: a job may start earlier or elsewhere. So
it is a horizon of decisions only, never a reason to give a node back.

What every node has and what is idle of it is read from ``scontrol --details --oneliner show node``: a line a
node of ``Key=value``, the same from Slurm 20 to 25; its JSON exists in later releases only.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import shutil
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from apportion.core.errors import ClusterUnreachable, InvalidOption, SchedulerMissing, SchedulerRefused
from apportion.core.files import write_whole
from apportion.core.node_lists import state_words
from apportion.live.cluster import ClusterSeen, PilotSeen
from apportion.live.offers import NodeOffer, Share, Size
from apportion.live.slurm.commands import EXPORTED, TOKEN, answer_of
from apportion.live.slurm.text import (
    PREFIX,
    NodeStates,
    NodeTypes,
    NotUnderstood,
    expand,
    idle,
    nodes_of_json,
    nodes_of_text,
    pilots_of_json,
    pilots_of_text,
    sound,
    type_of,
    types_of,
)

__all__ = [
    "PLANNED",
    "RESERVED",
    "Detail",
    "SlurmCluster",
    "details_of_text",
    "earliest",
    "idle_units",
    "planned_of_text",
    "require_commands",
    "reservations_of_text",
    "sizes_of_text",
    "states_of",
]


_OPEN = frozenset({"IDLE", "MIXED", "ALLOCATED", "DYNAMIC_NORM", "CLOUD"})
"""Words of nodes of which idle parts may be taken; whatever else is said of one keeps pilots away."""
_NO_TYPES: NodeTypes = MappingProxyType({})
_PARENTHESES = re.compile(r"\([^)]*\)")


@dataclass(frozen=True, slots=True)
class Detail:
    """One node.

    Attributes
    ----------
    words
        Its state, base state and flags, in capitals.
    idle_gpus
        GPUs that no job has.
    """

    words: frozenset[str]
    offer: NodeOffer
    idle_gpus: int

    @property
    def open(self) -> int:
        """How many pilots it would take at once: each has a GPU, a CPU and a MiB at least."""
        offer = self.offer
        return min(self.idle_gpus, offer.idle_cpus, offer.idle_memory_mib) if self.words <= _OPEN else 0


def details_of_text(text: str, partition: str, gres: str, types: NodeTypes = _NO_TYPES) -> dict[str, Detail]:
    """Return the nodes of a partition that have any of a resource, such as ``gpu`` or ``gpu:a100``.

    A node's type is as `type_of` says.
    """
    found = {}
    for line in text.splitlines():
        fields: dict[str, str] = {}
        for key, _, value in (word.partition("=") for word in line.split() if "=" in word):
            fields.setdefault(key, value)  # a comment at the end may hold anything
        if not fields or "NodeName" not in fields:
            continue
        if partition in fields.get("Partitions", "").split(","):
            detail = _detail(fields, gres, types)
            if detail.offer.units:
                found[fields["NodeName"]] = detail
    return found


def idle_units(details: Mapping[str, Detail]) -> tuple[str, ...]:
    """Return the nodes with idle GPUs, every one as often as it has any."""
    return tuple(node for node, detail in details.items() for _ in range(detail.open))


def states_of(details: Mapping[str, Detail]) -> NodeStates:
    """Return the words of every node."""
    return {node: detail.words for node, detail in details.items()}


def sizes_of_text(text: str, types: NodeTypes = _NO_TYPES) -> dict[str, NodeOffer]:
    """Return what nodes taken whole have, from lines ``NODE|CPUS|MIB|FEATURES`` of ``sinfo``."""
    found = {}
    for line in filter(str.strip, text.splitlines()):
        columns = [column.strip().rstrip("+") for column in line.split("|")]
        if len(columns) != 4 or not (columns[1].isdecimal() and columns[2].isdecimal()):
            raise NotUnderstood("sinfo printed lines that are not NODE|CPUS|MIB|FEATURES")
        node, cpus, memory, features = columns
        found[node] = NodeOffer(Size(int(cpus), int(memory), type_of(types, features.split(","))))
    return found


def _detail(fields: Mapping[str, str], gres: str, types: NodeTypes) -> Detail:
    cpus = _number(fields, "CPUEfctv" if "CPUEfctv" in fields else "CPUTot")
    memory = _number(fields, "RealMemory") - int(fields.get("MemSpecLimit", "0"))
    gpus = _counted(fields.get("Gres", ""), gres)
    if gpus and "GresUsed" not in fields:
        raise NotUnderstood("scontrol show node --details prints no GresUsed")
    used = _counted(fields.get("GresUsed", ""), gres)
    idle_cpus = max(cpus - _number(fields, "CPUAlloc"), 0)
    idle_memory = max(memory - _number(fields, "AllocMem"), 0)
    sorts = {more[0] if more else "" for more, _ in _items(fields.get("Gres", ""), gres)}
    type = type_of(types, fields.get("ActiveFeatures", "").split(","), sorts)
    offer = NodeOffer(Size(cpus, memory, type), gpus, idle_cpus, idle_memory)
    return Detail(state_words(fields.get("State", "UNKNOWN")), offer, max(gpus - used, 0))


def _number(fields: Mapping[str, str], key: str) -> int:
    value = fields.get(key, "")
    if not value.isdecimal():
        raise NotUnderstood(f"scontrol show node prints no {key}")
    return int(value)


def _counted(text: str, gres: str) -> int:
    """Return how many of a resource ``Gres=`` or ``GresUsed=`` names, of one type or of all."""
    return sum(count for _, count in _items(text, gres))


def _items(text: str, gres: str) -> list[tuple[list[str], int]]:
    """Return the type, if any, and the count of every item that is of a resource."""
    wanted_name, _, wanted_type = gres.partition(":")
    found = []
    for item in _PARENTHESES.sub("", text).split(","):
        name, *more = item.split(":")
        count = int(more.pop()) if more and more[-1].isdecimal() else 1
        if name == wanted_name and (not wanted_type or more == [wanted_type]):
            found.append((more, count))
    return found


RESERVED = ("scontrol", "--oneliner", "show", "reservation")
PLANNED = ("squeue", "--start", "--noheader", "--states=PENDING", "--format=%S|%Y|%j")
_LAYOUT = "%Y-%m-%dT%H:%M:%S"
_NOTHING = frozenset({"", "(null)", "N/A", "None", "Unknown", "n/a"})


def reservations_of_text(text: str, user: str) -> Iterator[tuple[str, float]]:
    """Yield every reserved node with the start of its reservation, in seconds since 1970.

    A reservation of this user is none of the main queue's, as far as can be seen.
    """
    for line in text.splitlines():
        fields = dict(word.split("=", 1) for word in line.split() if "=" in word)
        nodes, start = fields.get("Nodes", ""), fields.get("StartTime", "")
        if "ReservationName" not in fields or nodes in _NOTHING or start in _NOTHING:
            continue
        if user not in fields.get("Users", "").split(","):
            at_s = _moment(start)
            yield from ((node, at_s) for node in expand(nodes))


def planned_of_text(text: str) -> Iterator[tuple[str, float]]:
    """Yield every node on which a pending job that is no pilot is planned, with its expected start."""
    for line in text.splitlines():
        if not line.strip():
            continue
        start, bar, rest = line.strip().partition("|")
        nodes, second, name = rest.partition("|")
        if not bar or not second:
            raise NotUnderstood("squeue --start printed lines that are not START|NODES|NAME")
        if start in _NOTHING or nodes in _NOTHING or name.startswith(PREFIX):
            continue
        at_s = _moment(start)
        yield from ((node, at_s) for node in expand(nodes))


def earliest(text: Iterable[tuple[str, float]], now_s: float) -> Mapping[str, float]:
    """Return in how many seconds every node that is named is wanted first."""
    found: dict[str, float] = {}
    for node, at_s in text:
        found[node] = min(found.get(node, at_s), at_s)
    return {node: max(at_s - now_s, 0.0) for node, at_s in found.items()}


def _moment(text: str) -> float:
    """Return a moment that Slurm writes in the time zone of this machine."""
    try:
        return time.mktime(time.strptime(text, _LAYOUT))
    except (ValueError, OverflowError):
        raise NotUnderstood(f"{text!r} is no moment") from None


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
        self._sizes: Mapping[str, NodeOffer] = {}
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
            text = self._run(
                "sinfo", "--noheader", "--Node", f"--partition={self.partition}", "--format=%N|%c|%m|%b"
            )
            with contextlib.suppress(NotUnderstood):  # nothing but a clearer refusal depends on it
                self._sizes = sizes_of_text(text, self.types)
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
            text: list[tuple[str, float]] = []
            user = pwd.getpwuid(os.getuid()).pw_name
            with contextlib.suppress(NotUnderstood, SchedulerRefused, SchedulerMissing):
                text += reservations_of_text(self._run(*RESERVED, environment=_TIMES), user)
            with contextlib.suppress(NotUnderstood, SchedulerRefused):
                text += planned_of_text(self._run(*PLANNED, environment=_TIMES))
            self._coming = now_s, earliest(text, time.time())
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
