"""``apportion harvest`` on a Slurm of this machine, driven as a user does: by its commands."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from apportion.live.record.requests import listing, state_as_asked
from paper_repro.malletrain.one_machine import OneMachineSlurm, SlurmFailed

__all__ = ["Harvest", "numpy_trainer"]

SRC = Path(__file__).resolve().parents[2] / "src"
QUICK = (
    *("--interval", "0.5", "--grace", "5", "--lease", "30", "--linger", "2"),
    *("--warm-up", "0.5", "--measure", "1.5", "--horizon", "30"),
)
"""Times for jobs of seconds instead of hours."""


def numpy_trainer(rates: str = "1:400,2:760,4:1400,8:2400", *more: str) -> list[str]:
    """Return the demonstration trainer's command, held to a scaling curve."""
    module = "apportion.live.trainers.numpy_mlp"
    return [sys.executable, "-m", module, "--rates", rates, "--save-every-s", "1", *more]


class Harvest:
    """A controller's process and its state folder; a context manager that leaves nothing running.

    Parameters
    ----------
    slurm
        The cluster.
    folder
        For state, checkpoints and the journal.
    options
        Further options of ``apportion harvest``.
    variables
        Further environment variables of the controller's process.
    """

    def __init__(
        self,
        slurm: OneMachineSlurm,
        folder: Path,
        *options: str,
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.slurm, self.folder, self.options, self.variables = slurm, folder, options, variables
        self.state = folder / "state"
        self.process: subprocess.Popen[bytes] | None = None
        self._begun_before = 0

    def __enter__(self) -> Harvest:
        return self

    def __exit__(self, *raised: object) -> None:
        self.kill()

    def environment(self) -> dict[str, str]:
        """Return the environment of the commands."""
        return {**self.slurm.environment(), "PYTHONPATH": str(SRC), "OMP_NUM_THREADS": "1"}

    def start(self, *options: str, program: Sequence[str] | None = None) -> None:
        """Start the controller, or another `program` in its place."""
        command = [*_cli("harvest"), "--partition", "harvest", "--state", str(self.state), "--json", *QUICK]
        command += [*self.options, *options]
        self._begun_before = len(self.events("began"))
        with (self.folder / "journal.jsonl").open("ab") as journal:
            self.process = subprocess.Popen(
                list(program) if program is not None else command,
                env={**self.environment(), **self.variables},
                stdin=subprocess.DEVNULL,
                stdout=journal,
                stderr=journal,
            )

    def kill(self) -> None:
        """SIGKILL the controller, if it runs."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        if self.process is not None:
            self.process.wait()

    def drain(self) -> None:
        """Drain the controller, once it is up: a controller that only starts cannot be drained.

        Raises
        ------
        SlurmFailed
            If it does not come up in 120 s, or cannot be drained.
        """
        listed = "the controller is up"
        self.slurm.wait_until(lambda: len(self.events("began")) > self._begun_before, listed, 120.0)
        self.command("drain")

    def command(self, name: str, *arguments: str) -> str:
        """Run one of the commands on this state folder and return what it printed.

        Raises
        ------
        SlurmFailed
            If it exits with another code than 0.
        """
        return self.slurm.run(
            [*_cli(name), "--state", str(self.state), *arguments], 120.0, {"PYTHONPATH": str(SRC)}
        )

    def submit(
        self,
        samples: int | None,
        command: Sequence[str],
        least: int = 1,
        most: int = 8,
        more: Sequence[str] = (),
    ) -> str:
        """Submit a job and return its id; its checkpoints are in the folder `checkpoints` / its name."""
        goal = [] if samples is None else ["--samples", str(samples)]
        limits = ["--min", str(least), "--max", str(most), "--directory", str(self.folder)]
        return self.command("submit", *limits, *goal, *more, "--", *command).strip()

    def jobs(self) -> dict[str, dict[str, Any]]:
        """Return every job's record by its id."""
        listed = json.loads(self.command("queue", "--json"))
        return {job["id"]: job for job in listed["jobs"]}

    def records(self) -> dict[str, dict[str, Any]]:
        """Return what `jobs` returns, read from the state folder: no command is run for it."""
        return {job["id"]: job for job in listing(state_as_asked(self.state, time.time()))}

    def journal(self) -> list[dict[str, Any]]:
        """Return the events so far."""
        events: list[object] = []
        path = self.folder / "journal.jsonl"
        for line in path.read_text(errors="replace").splitlines() if path.exists() else []:
            with contextlib.suppress(ValueError):
                events.append(json.loads(line))
        return [event for event in events if isinstance(event, dict)]

    def events(self, kind: str) -> list[dict[str, Any]]:
        """Return the events of one kind."""
        return [event for event in self.journal() if event.get("event") == kind]

    def until(
        self, holds: Callable[[dict[str, dict[str, Any]]], bool], what: str, timeout_s: float = 240.0
    ) -> dict[str, dict[str, Any]]:
        """Wait until the queue's records are as wished, and return them.

        Raises
        ------
        SlurmFailed
            If they are not within `timeout_s`; the message holds the end of the journal.
        """
        began = time.monotonic()
        while True:
            jobs = self.records()
            if holds(jobs):
                return jobs
            if self.slurm.late(began, timeout_s):
                brief = {name: (job["state"], job["samples"], job["nodes"]) for name, job in jobs.items()}
                journal = (self.folder / "journal.jsonl").read_text(errors="replace")[-6000:]
                raise SlurmFailed(f"not so after {timeout_s:g} s: {what}\n{brief}\n{journal}")
            time.sleep(0.3)

    def until_over(self, timeout_s: float = 240.0) -> dict[str, dict[str, Any]]:
        """Wait until every job has ended, and return their records."""
        over = ("done", "failed", "cancelled")
        return self.until(
            lambda jobs: all(job["state"] in over for job in jobs.values()), "all jobs are over", timeout_s
        )

    def pilots(self) -> list[str]:
        """Return Slurm's list of pilots that are not over: job id, state, node."""
        listed = self.slurm.run(["squeue", "-h", "-p", "harvest", "-o", "%i %T %N %j"])
        return [line for line in listed.splitlines() if line.strip()]

    def agents(self) -> list[int]:
        """Return the processes of this controller's agents, of all its runs."""
        own = [f"\0--pilot\0{event['instance']}-".encode() for event in self.events("began")]
        lines = {pid: _command_line(pid) for pid in _processes()}
        return [pid for pid, line in lines.items() if any(pilot in line for pilot in own)]


def _cli(name: str) -> list[str]:
    return [sys.executable, "-c", "from apportion.cli.main import main; main()", name]


def _processes() -> list[int]:
    return [int(path.name) for path in Path("/proc").glob("[0-9]*")]


def _command_line(pid: int) -> bytes:
    try:
        if os.getpgid(pid) and Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
            return b""
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
