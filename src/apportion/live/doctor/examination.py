"""Everything that is looked at before nodes are harvested, in the order in which it is needed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from apportion.errors import InvalidOption
from apportion.live.channel.peer import listen
from apportion.live.doctor.finding import Finding, Verdict
from apportion.live.doctor.node import Asked, questioned
from apportion.live.doctor.preemption import preemption, settings_of
from apportion.live.errors import ClusterUnreachable, SchedulerMissing, SchedulerRefused
from apportion.live.slurm.commands import answer_of
from apportion.live.slurm.text import idle, nodes_of_text, sound

__all__ = ["examined"]

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
    told = f"no {', '.join(missing)} here" if missing else "Slurm's commands are here"
    yield Finding.of("commands", not missing, told, advice)
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
    told = f"{name}: {len(states)} nodes, {len(sound(states))} answer, {len(free)} idle"
    yield Finding.of("partition", bool(sound(states)), told, "no node answers: start slurmd on them")
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
        told = f"{len(free)} of {nodes} nodes to be asked are idle"
        yield Finding("node", Verdict.UNKNOWN, told, "come again when there are idle nodes, or ask fewer")


def _open(partitions: str, name: str) -> Finding:
    lines = [settings_of(line) for line in partitions.splitlines()]
    state = next((line.get("State", "UP") for line in lines if line.get("PartitionName") == name), "hidden")
    advice = f"scontrol update PartitionName={name} State=UP; a hidden one is not the user's to use"
    return Finding.of("partition state", state == "UP", f"State={state}", advice)
