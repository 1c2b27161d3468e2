"""What a Slurm on one machine is told: ``slurm.conf``, and ``gres.conf`` where nodes have GPUs."""

from __future__ import annotations

import os
import pwd
import socket
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from paper_repro.malletrain.processes import free_ports

__all__ = ["Hardware", "files_of", "make_gpus"]


@dataclass(frozen=True, slots=True)
class Hardware:
    """What Slurm is told that a node has; a GPU is a twin of /dev/null (only root can make one).

    Attributes
    ----------
    gpu_type
        Of the node's GPUs, as in ``Gres=gpu:TYPE:COUNT``; empty for none.
    features
        Of the node.
    """

    cpus: int = 1
    memory_mib: int = 500
    gpus: int = 0
    gpu_type: str = ""
    features: tuple[str, ...] = ()

    def words(self) -> str:
        """Return the end of the node's line in ``slurm.conf``."""
        told = f"CPUs={self.cpus} RealMemory={self.memory_mib}"
        if self.gpus:
            told += f" Gres={':'.join(filter(None, ('gpu', self.gpu_type, str(self.gpus))))}"
        return told + (f" Feature={','.join(self.features)}" if self.features else "")


def files_of(
    at: Path, names: Sequence[str], hardware: Sequence[Hardware], shares_memory: bool, kill_wait_s: int
) -> dict[str, str]:
    """Return the text of every file of configuration by its name.

    Parameters
    ----------
    at
        The cluster's folder.
    names, hardware
        Of the nodes.
    shares_memory
        Whether memory is handed out to jobs like cores.
    kill_wait_s
        Seconds from SIGTERM to SIGKILL of a job that is cancelled.
    """
    host, user = socket.gethostname().split(".")[0], pwd.getpwuid(os.getuid()).pw_name
    ports = free_ports(len(names) + 1)
    lines = [
        "ClusterName=onemachine",
        f"SlurmctldHost={host}(127.0.0.1)",
        f"SlurmctldPort={ports[0]}",
        f"SlurmUser={user}",
        f"SlurmdUser={user}",
        "AuthType=auth/munge",
        f"AuthInfo=socket={at}/run/munge.socket",
        "CredType=cred/munge",
        f"StateSaveLocation={at}/state",
        f"SlurmdSpoolDir={at}/spool/%n",
        f"SlurmctldPidFile={at}/run/slurmctld.pid",
        f"SlurmdPidFile={at}/run/slurmd.%n.pid",
        f"SlurmctldLogFile={at}/log/slurmctld.log",
        f"SlurmdLogFile={at}/log/%n.log",
        "ProctrackType=proctrack/pgid",
        "TaskPlugin=task/none",
        "JobAcctGatherType=jobacct_gather/none",
        "AccountingStorageType=accounting_storage/none",
        "MpiDefault=none",
        "SwitchType=switch/none",
        "SelectType=select/cons_tres",
        f"SelectTypeParameters={'CR_Core_Memory' if shares_memory else 'CR_Core'}",
        "SchedulerType=sched/backfill",
        "SchedulerParameters=bf_interval=1,sched_interval=1,batch_sched_delay=0,sched_min_interval=1000",
        "PreemptType=preempt/partition_prio",
        "PreemptMode=CANCEL",
        f"KillWait={kill_wait_s}",
        "SlurmdTimeout=10",
        "ReturnToService=2",
        "MinJobAge=10",
        "SlurmdParameters=config_overrides",  # a node has what is written here, whatever this machine has
    ]
    files = {}
    if any(has.gpus for has in hardware):
        lines.append("GresTypes=gpu")
        files["gres.conf"] = "\n".join(["AutoDetect=off", *_gpu_lines(at, names, hardware)]) + "\n"
    for name, port, has in zip(names, ports[1:], hardware, strict=True):
        lines.append(
            f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} {has.words()}",
        )
    nodes = ",".join(names)
    lines.append(f"PartitionName=main Nodes={nodes} Default=YES PriorityTier=10 PreemptMode=OFF")
    lines.append(f"PartitionName=harvest Nodes={nodes} PriorityTier=1 PreemptMode=CANCEL GraceTime=0")
    return {"slurm.conf": "\n".join(lines) + "\n", **files}


def make_gpus(at: Path, names: Sequence[str], hardware: Sequence[Hardware]) -> None:
    """Make the files that stand for the nodes' GPUs, which ``gres.conf`` names; only root can."""
    for name, has in zip(names, hardware, strict=True):
        for number in range(has.gpus):
            file = _gpu(at, name, number)
            file.parent.mkdir(exist_ok=True)
            os.mknod(file, 0o666 | stat.S_IFCHR, os.makedev(1, 3))


def _gpu_lines(at: Path, names: Sequence[str], hardware: Sequence[Hardware]) -> list[str]:
    lines = []
    for name, has in zip(names, hardware, strict=True):
        kind = f" Type={has.gpu_type}" if has.gpu_type else ""
        lines += [f"NodeName={name} Name=gpu{kind} File={_gpu(at, name, i)}" for i in range(has.gpus)]
    return lines


def _gpu(at: Path, node: str, number: int) -> Path:
    return at / "gpus" / f"{node}-gpu{number}"
