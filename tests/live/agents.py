"""Agents without a scheduler: processes of this machine, and a server to order them about."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from apportion.live.channel.messages import Acknowledge, AgentMessage, Exited, Progress, Run, Stop
from apportion.live.channel.reports import ReportServer, controllers_certificate
from tests.patience import patience, wait_until

JOB_TOKEN = "x" * 32
SRC = Path(__file__).resolve().parents[2] / "src"


class Site:
    """A server, agents that it expects, and everything they said."""

    def __init__(self, folder: Path, lease_s: float = 60.0, pulse_s: float = 0.5) -> None:
        self.folder = folder
        self.certificate = controllers_certificate(folder, keep=False)
        self.server = ReportServer(self.certificate, "127.0.0.1", lease_s=lease_s, pulse_s=pulse_s)
        self.tokens: dict[str, str] = {}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.heard: list[tuple[str, AgentMessage]] = []
        self.acknowledges = True

    def start(self, *pilots: str) -> None:
        self.tokens |= {pilot: f"token-of-{pilot}-{'t' * 16}" for pilot in pilots}
        self.server.expect(self.tokens)
        for pilot in pilots:
            self.processes[pilot] = start_agent(
                self.server.address, pilot, self.tokens[pilot], self.certificate.fingerprint
            )
        self.until(lambda: set(pilots) <= set(self.server.agents()), 10.0)

    def run(
        self,
        pilots: Sequence[str],
        command: Sequence[str],
        generation: int = 1,
        job: str = "j1",
        samples: int | None = None,
        report_every_s: float = 0.2,
        environment: dict[str, str] | None = None,
    ) -> None:
        first = self.server.agents()[pilots[0]]
        for rank, pilot in enumerate(pilots):
            self.server.send(
                pilot,
                Run(
                    job=job,
                    generation=generation,
                    rank=rank,
                    nodes=tuple(f"node-{name}" for name in pilots),
                    rendezvous=f"{first.host}:{first.port}",
                    command=tuple(command),
                    directory=str(self.folder),
                    checkpoint=str(self.folder / job),
                    token=JOB_TOKEN,
                    samples=samples,
                    environment={"PYTHONPATH": str(SRC), **(environment or {})},
                    report_every_s=report_every_s,
                ),
            )

    def stop(
        self, pilots: Sequence[str], generation: int = 1, grace_s: float = 10.0, job: str = "j1"
    ) -> None:
        for pilot in pilots:
            self.server.send(pilot, Stop(job, generation, grace_s))

    def pump(self, timeout_s: float = 0.1) -> None:
        for pilot, message in self.server.receive(timeout_s):
            self.heard.append((pilot, message))
            if isinstance(message, Exited) and self.acknowledges:
                self.server.send(pilot, Acknowledge(message.job, message.generation))

    def until(self, holds: Callable[[], bool], timeout_s: float = 20.0) -> None:
        def pumped() -> bool:
            if not holds():
                self.pump()
            return holds()

        assert wait_until(pumped, timeout_s, every_s=0.0), f"waited in vain; heard: {self.heard[-20:]}"

    def of(self, kind: type, pilot: str | None = None, generation: int | None = None) -> list[AgentMessage]:
        return [
            message
            for name, message in self.heard
            if isinstance(message, kind)
            and pilot in (None, name)
            and (generation is None or getattr(message, "generation", None) == generation)
        ]

    def exits(self, pilots: Sequence[str], generation: int = 1, timeout_s: float = 30.0) -> list[Exited]:
        def found() -> list[Exited]:
            return [m for pilot in pilots for m in self.of(Exited, pilot, generation)[-1:]]  # type: ignore[misc]

        self.until(lambda: len(found()) == len(pilots), timeout_s)
        return found()

    def progress(self, at_least: int, generation: int = 1, timeout_s: float = 20.0) -> Progress:
        def best() -> list[Progress]:
            said: list[Progress] = self.of(Progress, None, generation)  # type: ignore[assignment]
            return [message for message in said if message.samples >= at_least]

        self.until(lambda: bool(best()), timeout_s)
        return best()[-1]

    def close(self) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self.processes.values():
            try:
                process.wait(patience(10.0))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.server.close()


def start_agent(address: str, pilot: str, token: str, fingerprint: str) -> subprocess.Popen[bytes]:
    environment = {
        **os.environ,
        "PYTHONPATH": str(SRC),
        "APPORTION_PILOT_TOKEN": token,
        "SLURMD_NODENAME": f"node-{pilot}",
        "SLURM_JOB_ID": "1",
    }
    command = [sys.executable, "-m", "apportion.live.agent.agent", "--controller", address]
    return subprocess.Popen([*command, "--certificate", fingerprint, "--pilot", pilot], env=environment)


def python(program: str) -> tuple[str, ...]:
    return (sys.executable, "-c", program)
