"""Everything that is looked at before nodes are harvested, in the order in which it is needed.

Whether Slurm takes nodes back from pilots by itself, read from ``scontrol``'s own words.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from apportion.core.errors import ClusterUnreachable, InvalidOption, SchedulerMissing, SchedulerRefused
from apportion.live.channel.peer import listen
from apportion.live.node_check import Asked, Finding, Verdict, questioned
from apportion.live.slurm.commands import answer_of
from apportion.live.slurm.text import NotUnderstood, expand, idle, nodes_of_text, sound

__all__ = ["examined", "preemption", "settings_of"]


_ENDS = frozenset({"CANCEL", "REQUEUE"})
"""Modes that end a pilot; one that is only suspended keeps its memory and its rank's place."""


def settings_of(line: str) -> dict[str, str]:
    """Return the ``NAME=VALUE`` words of a line of ``scontrol --oneliner``."""
    return dict(word.split("=", 1) for word in line.split() if "=" in word)


def preemption(configuration: str, partitions: str, partition: str) -> Iterator[Finding]:
    """Say whether the main queue gets nodes back from pilots in a partition.

    Parameters
    ----------
    configuration
        What ``scontrol show config`` prints.
    partitions
        What ``scontrol --oneliner show partition`` prints, all partitions.
    partition
        Where pilots would run; it exists.
    """
    overall = {
        name.strip(): value.strip()
        for name, sign, value in (line.partition("=") for line in configuration.splitlines())
        if sign
    }
    found = {fields.get("PartitionName", ""): fields for fields in map(settings_of, partitions.splitlines())}
    kind = overall.get("PreemptType", "(not told)")
    if kind == "preempt/qos":
        advice = "give pilots a QOS that the main queue's may preempt, and name it: --sbatch --qos=NAME"
        yield Finding("preemption", Verdict.UNKNOWN, "PreemptType=preempt/qos: a QOS decides", advice)
        return
    advice = "in slurm.conf: PreemptType=preempt/partition_prio and PreemptMode=CANCEL; scontrol reconfigure"
    yield Finding.of("preemption", kind == "preempt/partition_prio", f"PreemptType={kind}", advice)
    own = found.get(partition, {})
    mode = own.get("PreemptMode", "OFF").upper()
    message = f"partition {partition} has PreemptMode={mode}"
    advice = f"PartitionName={partition} ... PreemptMode=CANCEL: pilots are ended, not left or suspended"
    yield Finding.of("preemption mode", mode in _ENDS, message, advice)
    yield _priority(found, partition)


def _priority(found: dict[str, dict[str, str]], partition: str) -> Finding:
    nodes, tier = _nodes(found.get(partition, {})), _tier(found.get(partition, {}))
    beside = {
        name: _tier(fields) for name, fields in found.items() if name != partition and nodes & _nodes(fields)
    }
    wrong = sorted(name for name, other in beside.items() if other <= tier)
    if not beside:
        message = f"no other partition is over the nodes of {partition}: nobody would take them back"
    elif wrong:
        message = f"PriorityTier={tier}, and not more in {', '.join(wrong)} over the same nodes"
    else:
        message = f"PriorityTier={tier}, below {', '.join(sorted(beside))}"
    advice = f"give {partition} the lowest PriorityTier of all partitions over its nodes"
    return Finding.of("priority", not wrong, message, advice)


def _tier(fields: dict[str, str]) -> int:
    value = fields.get("PriorityTier", "1")
    return int(value) if value.isdecimal() else 1


def _nodes(fields: dict[str, str]) -> set[str]:
    try:
        return set(expand(fields.get("Nodes", "")))
    except NotUnderstood:
        return set()


_COMMANDS = ("sinfo", "squeue", "sbatch", "scancel", "scontrol", "srun")
_TIMEOUT_S = 30.0


def examined(asked: Asked, nodes: int = 1) -> Iterator[Finding]:
    """Look at everything, as far as what came before allows; yield findings as they are made.

    Parameters
    ----------
    asked
        What a controller would be told.
    nodes
        How many idle nodes are asked.
    """
    missing = [name for name in _COMMANDS if shutil.which(name) is None]
    advice = "install Slurm's client commands (Debian: apt install slurm-client) or put them on PATH"
    message = f"no {', '.join(missing)} here" if missing else "Slurm's commands are here"
    yield Finding.of("commands", not missing, message, advice)
    yield _encryption()
    if asked.host is not None:
        yield (found := _address(asked, asked.host))
        asked = asked if found.verdict is Verdict.OK else replace(asked, host=None)
    if asked.shared is not None:
        yield (found := _folder(asked.shared))
        asked = asked if found.verdict is Verdict.OK else replace(asked, shared=None)
    if missing:
        return
    try:
        yield from _partition(asked, nodes)
    except (ClusterUnreachable, SchedulerMissing) as error:
        yield Finding("slurm", Verdict.MEND, str(error), "slurmctld must run and be reached from here")


def _encryption() -> Finding:
    found = shutil.which("openssl")
    advice = "install it (Debian: apt install openssl): the channel to the nodes is always encrypted"
    return Finding.of("encryption", found is not None, "openssl is here" if found else "no openssl", advice)


def _address(asked: Asked, host: str) -> Finding:
    if asked.listening:
        return Finding("address", Verdict.OK, f"a controller listens on {host} port {asked.port}")
    try:
        listen(host, asked.port).close()
    except (OSError, InvalidOption) as error:
        advice = "name an address of this machine, and a port that nobody else has, by --address"
        return Finding("address", Verdict.MEND, f"cannot listen on {host}: {error}", advice)
    return Finding("address", Verdict.OK, f"{host} can be listened on")


def _folder(shared: Path) -> Finding:
    if not shared.is_dir():
        return Finding("shared folder", Verdict.MEND, f"there is no folder {shared}", "make it, or mount it")
    try:
        trial = shared / ".apportion-doctor-trial"
        trial.write_text("")
        trial.unlink()
    except OSError as error:
        advice = f"the user must be able to write {shared}"
        return Finding("shared folder", Verdict.MEND, f"not written here: {error}", advice)
    return Finding("shared folder", Verdict.OK, f"{shared} is written here")


def _partition(asked: Asked, nodes: int) -> Iterator[Finding]:
    name = asked.partition
    seen = answer_of(("sinfo", "--noheader", "--Node", f"--partition={name}", "--format=%N|%T"), _TIMEOUT_S)
    states = nodes_of_text(seen)
    if not states:
        advice = "sinfo lists the partitions, --partition names one; docs/live.md has the one to add"
        yield Finding("partition", Verdict.MEND, f"Slurm has no partition {name!r} with nodes", advice)
        return
    free = idle(states)
    message = f"{name}: {len(states)} nodes, {len(sound(states))} answer, {len(free)} idle"
    yield Finding.of("partition", bool(sound(states)), message, "no node answers: start slurmd on them")
    try:
        configuration = answer_of(("scontrol", "show", "config"), _TIMEOUT_S)
        partitions = answer_of(("scontrol", "--oneliner", "show", "partition"), _TIMEOUT_S)
    except SchedulerRefused as error:
        advice = "ask whoever administers Slurm for: scontrol show config, scontrol show partition"
        yield Finding("preemption", Verdict.UNKNOWN, str(error), advice)
    else:
        yield _open(partitions, name)
        yield from preemption(configuration, partitions, name)
    for node in free[:nodes]:
        yield from questioned(node, asked)
    if len(free) < nodes:
        message = f"{len(free)} of {nodes} nodes to be asked are idle"
        yield Finding("node", Verdict.UNKNOWN, message, "come again when there are idle nodes, or ask fewer")


def _open(partitions: str, name: str) -> Finding:
    lines = [settings_of(line) for line in partitions.splitlines()]
    state = next((line.get("State", "UP") for line in lines if line.get("PartitionName") == name), "hidden")
    advice = f"scontrol update PartitionName={name} State=UP; a hidden one is not the user's to use"
    return Finding.of("partition state", state == "UP", f"State={state}", advice)
