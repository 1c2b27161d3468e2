"""A real Slurm on this machine, in a folder of its own: munged, slurmctld and several slurmd.

It uses the system's `slurmctld`, `slurmd` and `munged` programs (Debian: packages `slurm-wlm` and `munge`),
but none of the system's configuration, keys, ports or state, and leaves nothing behind.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType

from paper_repro.malletrain.processes import end_with_parent, processes_with, program_of
from paper_repro.malletrain.slurm_files import Hardware, files_of, make_gpus

__all__ = ["OneMachineSlurm", "SlurmFailed", "missing_programs"]

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "sinfo", "scancel", "scontrol", "srun")


class SlurmFailed(RuntimeError):
    """A daemon did not come up, or a Slurm command failed; the message holds the end of its log."""


def missing_programs() -> list[str]:
    """Return the programs of Slurm and munge that are not on the search path."""
    return [name for name in PROGRAMS if program_of(name) is None]


class OneMachineSlurm:
    """A cluster of one-core nodes ``n1 .. nN`` on this machine; a context manager.

    Two partitions span all nodes: `main` (priority tier 10, never preempted) and `harvest` (tier 1, its jobs
    are cancelled without grace as soon as `main` needs the node).

    Parameters
    ----------
    folder
        An empty folder for configuration, state and logs; its path must be short enough for a socket.
    nodes
        How many nodes.
    kill_wait_s
        Seconds from SIGTERM to SIGKILL of a job that is cancelled.
    hardware
        What every node has, in place of `nodes` of one core each; memory is handed out like cores then.
    slowness
        How much slower than a quiet machine this one is now: every wait is so much longer.
    beside
        Further files of configuration by name, such as ``oci.conf``, put beside ``slurm.conf``.
    """

    def __init__(
        self,
        folder: Path,
        nodes: int = 8,
        kill_wait_s: int = 5,
        hardware: Sequence[Hardware] = (),
        slowness: Callable[[], float] = lambda: 1.0,
        beside: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.folder, self.slowness, self.beside = folder, slowness, dict(beside)
        self.hardware = tuple(hardware) or (Hardware(),) * nodes
        self.shares_memory = bool(hardware)
        self.names = [f"n{i}" for i in range(1, len(self.hardware) + 1)]
        self.kill_wait_s = kill_wait_s
        self.daemons: dict[str, subprocess.Popen[bytes]] = {}

    # -- life ----------------------------------------------------------------------------------------------

    def __enter__(self) -> OneMachineSlurm:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start every daemon and wait until all nodes are idle.

        Raises
        ------
        SlurmFailed
            If a program is missing or the nodes are not idle after half a minute.
        """
        if missing := missing_programs():
            raise SlurmFailed(f"missing programs: {', '.join(missing)}")
        for name in ("state", "spool", "log", "run"):
            (self.folder / name).mkdir(mode=0o755, parents=True)
        self._write_configuration()
        self._start_munged()
        self.start_slurmctld()
        for name in self.names:
            self.start_slurmd(name)
        self.wait_until_idle()

    def stop(self) -> None:
        """Cancel every job, end every daemon and whatever they left running."""
        if "slurmctld" in self.daemons:
            with contextlib.suppress(SlurmFailed, subprocess.TimeoutExpired):
                if jobs := self.run(["squeue", "-h", "-o", "%i"], timeout_s=10.0).split():
                    self.run(["scancel", *jobs], timeout_s=10.0)
                    self.wait_until(lambda: not self.run(["squeue", "-h"]).strip(), "no jobs", 10.0)
        for name in reversed(list(self.daemons)):
            self.end(name)
        end = time.monotonic() + 5.0
        while (left := processes_with(f"SLURM_CONF={self.folder}/")) and time.monotonic() < end:
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)

    def reset(self) -> None:
        """Cancel every job, start what is not running, and wait until all nodes are idle.

        Raises
        ------
        SlurmFailed
            If the nodes are not idle after half a minute.
        """
        for name in list(self.daemons):
            if self.daemons[name].poll() is not None:
                self.daemons.pop(name)
        if "slurmctld" not in self.daemons:
            self.start_slurmctld()
        for name in self.names:
            if name not in self.daemons:
                self.start_slurmd(name)
        if jobs := self.run(["squeue", "-h", "-o", "%i"]).split():
            self.run(["scancel", *jobs])
        self.wait_until_idle()

    def start_slurmctld(self) -> None:
        """Start slurmctld and wait until it answers."""
        self._daemon("slurmctld", ["slurmctld", "-D"])
        self.wait_until(self.answers, "slurmctld answers", 20.0)

    def start_slurmd(self, node: str) -> None:
        """Start the slurmd of one node; it registers by itself a moment later."""
        self._daemon(node, ["slurmd", "-D", "-N", node])

    def kill(self, name: str) -> None:
        """SIGKILL one daemon: `slurmctld` or a node's name; what runs on a node lives on.

        Its file of its number goes with it: the next slurmd would end whoever has that number by then.
        """
        self.daemons[name].kill()
        self.daemons.pop(name).wait()
        (self.folder / "run" / f"slurmd.{name}.pid").unlink(missing_ok=True)

    def end(self, name: str) -> None:
        """End one daemon as an administrator would: slurmctld saves its state first."""
        daemon = self.daemons.pop(name)
        daemon.terminate()
        try:
            daemon.wait(timeout=10.0)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()

    # -- commands ------------------------------------------------------------------------------------------

    def environment(self) -> dict[str, str]:
        """Return the environment in which the commands of Slurm find this cluster."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "SBATCH"))}
        return {**kept, "SLURM_CONF": str(self.folder / "slurm.conf")}

    def run(
        self, command: Sequence[str], timeout_s: float = 120.0, more: Mapping[str, str] | None = None
    ) -> str:
        """Run one command and return its standard output.

        Raises
        ------
        SlurmFailed
            If it exits with another code than 0.
        """
        done = subprocess.run(
            list(command),
            env={**self.environment(), **(more or {})},
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        if done.returncode:
            raise SlurmFailed(f"{' '.join(command)}: exit code {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def answers(self) -> bool:
        """Return whether slurmctld answers."""
        try:
            self.run(["squeue", "-h"], timeout_s=5.0)
        except (SlurmFailed, subprocess.TimeoutExpired):
            return False
        return True

    def node_states(self) -> dict[str, str]:
        """Return the state of every node, as ``sinfo`` words it (``idle``, ``allocated``, ``down*``, ...)."""
        lines = self.run(["sinfo", "-N", "-h", "-p", "main", "-o", "%N %T"]).splitlines()
        return {line.split()[0]: line.split()[1] for line in lines}

    def late(self, began_s: float, timeout_s: float) -> bool:
        """Return whether a wait since `began_s` (`time.monotonic`) is over, on a machine as slow as this."""
        waited_s = time.monotonic() - began_s
        return waited_s > timeout_s and waited_s > timeout_s * self.slowness()

    def wait_until(self, holds: Callable[[], bool], what: str, timeout_s: float, step_s: float = 0.1) -> None:
        """Wait until a condition holds.

        Raises
        ------
        SlurmFailed
            If it does not within `timeout_s`, longer where the machine is slow.
        """
        began = time.monotonic()
        while not holds():
            for name, daemon in self.daemons.items():
                if daemon.poll() is not None:
                    raise SlurmFailed(f"{name} ended with {daemon.returncode}: {self.log(name)}")
            if self.late(began, timeout_s):
                raise SlurmFailed(f"not so after {timeout_s:g} s: {what}\n{self.log('slurmctld')}")
            time.sleep(step_s)

    def wait_until_idle(self, timeout_s: float = 30.0) -> None:
        """Wait until every node is idle, also those that slurmctld has drained itself.

        Raises
        ------
        SlurmFailed
            If they are not within `timeout_s`.
        """

        def idle() -> bool:
            states = set(self.node_states().values())
            if any("drain" in state for state in states):
                self.resume_drained()
            return states == {"idle"}

        self.wait_until(idle, "all nodes are idle", timeout_s)

    def resume_drained(self) -> None:
        """Do what an administrator does after a slurmctld was killed: resume nodes that it drained itself.

        Numbers of jobs that it had not saved are given out once more; a node that still knows the first
        job of such a number refuses the second, and Slurm drains the node.
        """
        told = self.run(["sinfo", "-h", "-N", "-p", "main", "-t", "drain", "-o", "%N|%E"]).splitlines()
        nodes = {
            line.partition("|")[0] for line in told if line.partition("|")[2].startswith("Duplicate jobid")
        }
        for node in sorted(nodes):
            self.run(["scontrol", "update", f"nodename={node}", "state=resume"])

    def log(self, name: str) -> str:
        """Return the end of a daemon's log."""
        path = self.folder / "log" / f"{name}.log"
        return path.read_text(errors="replace")[-2000:] if path.exists() else "(no log)"

    # -- inside --------------------------------------------------------------------------------------------

    def _start_munged(self) -> None:
        key = self.folder / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o400)
        run = self.folder / "run"
        self._daemon(
            "munged",
            [
                *("munged", "--foreground", "--force", "--num-threads=2", f"--key-file={key}"),
                *(f"--socket={run}/munge.socket", f"--pid-file={run}/munged.pid"),
                *(f"--log-file={self.folder}/log/munged.log", f"--seed-file={run}/munged.seed"),
            ],
        )
        self.wait_until((run / "munge.socket").exists, "munged listens", 10.0)

    def _write_configuration(self) -> None:
        files = files_of(self.folder, self.names, self.hardware, self.shares_memory, self.kill_wait_s)
        make_gpus(self.folder, self.names, self.hardware)
        for name, text in {**files, **self.beside}.items():
            (self.folder / name).write_text(text)

    def _daemon(self, name: str, command: list[str]) -> None:
        program = program_of(command[0])
        if program is None:
            raise SlurmFailed(f"missing program: {command[0]}")
        with (self.folder / "log" / f"{name}.out").open("ab") as out:
            self.daemons[name] = subprocess.Popen(
                [program, *command[1:]],
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                preexec_fn=end_with_parent,
            )
