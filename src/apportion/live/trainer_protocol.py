"""What a trainer has to know to be harvested, and a small client of it; the standard library alone.

A trainer is any command. It is started once on every node of its job, and started anew whenever the nodes
change; between the two it saves a checkpoint. The protocol, whatever the language:

1. The environment says who this process is: ``APPORTION_JOB``, ``APPORTION_GENERATION`` (rises with every
   start), ``APPORTION_RANK``, ``APPORTION_WORLD_SIZE``, ``APPORTION_NODES`` (by rank, commas between),
   ``APPORTION_RENDEZVOUS`` (``HOST:PORT``; free on the node of rank 0, who may listen there),
   ``APPORTION_CHECKPOINT`` (a folder that all nodes see, private to the user), and, if the job has an end,
   ``APPORTION_SAMPLES``, the total of samples after which it is done.
2. Progress is one line of JSON on a TCP connection to ``APPORTION_REPORT`` (``127.0.0.1:PORT``), about every
   ``APPORTION_REPORT_EVERY_S`` seconds, from one rank or from several::

       {"token": "...", "samples": 1280, "step": 20, "durable": 1024, "rate": 310.5, "loss": 0.02}

   `token` is ``APPORTION_REPORT_TOKEN``; `samples` is the total since the job's very beginning; `durable` is
   the total in the newest checkpoint on disk. The first line of a start says what was restored
   (``samples == durable``). Not finite numbers are left out. Only `token` and `samples` are required.
3. SIGTERM asks for a checkpoint, a last line (``samples == durable``) and exit code 75. Whoever is not gone
   after the controller's grace is killed; when the main queue takes a node the grace is a twentieth of a
   second, so that a trainer should also save now and then, and the ranks that are left should save what
   they have when they lose a peer. A checkpoint should be named by its generation and never overwrite
   another: a rank that was cut off, and comes back when its successor has begun, must not write into what
   that one reads. The agent writes the newest generation into the folder (``.generation-NUMBER``);
   whoever finds a greater one than its own has nothing to save.
4. When the work is done: a checkpoint, a line with ``"done": true``, exit code 0, on every rank. Any other
   exit code is a failure, after which the job starts again from its checkpoint.

The fence of a checkpoint folder: the newest generation that began there is written down in it.

Every start of a job's ranks is a generation with a number that only grows. An agent claims the folder for
its generation before it starts a rank, and refuses to start one of a generation that is older than the
claim; whoever writes checkpoints asks again before each is published. So a rank that was thought to be
gone, and comes back, neither starts nor publishes anything once its successor has begun.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import select
import signal
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "STOPPED",
    "Assignment",
    "NotHarvested",
    "Reporter",
    "StopSignal",
    "Stopped",
    "claim",
    "newest_generation",
]


_PREFIX = ".generation-"


def claim(folder: Path, generation: int) -> int:
    """Write down that a generation begins; return the newest one that has, its own number if all is well.

    Raises
    ------
    OSError
        If the folder cannot be written to.
    """
    newest = newest_generation(folder)
    if generation > newest:
        (folder / f"{_PREFIX}{generation:010d}").touch(mode=0o600)
        newest = newest_generation(folder)
        for path, older in _claims(folder):
            if older < newest:
                with contextlib.suppress(OSError):
                    path.unlink()
    return newest


def newest_generation(folder: Path) -> int:
    """Return the number of the newest generation that has begun in a folder, 0 for none."""
    return max((generation for _, generation in _claims(folder)), default=0)


def _claims(folder: Path) -> list[tuple[Path, int]]:
    found = [(path, path.name.removeprefix(_PREFIX)) for path in folder.glob(f"{_PREFIX}*")]
    return [(path, int(number)) for path, number in found if number.isdecimal()]


STOPPED = 75
"""Exit code of a trainer that was told to stop and has saved its checkpoint."""


class NotHarvested(RuntimeError):
    """The environment does not hold an assignment; the message names the variable."""


class Stopped(Exception):
    """SIGTERM has come."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """Who this process is.

    Attributes
    ----------
    nodes
        Names of the job's nodes by rank.
    rendezvous
        Host and port where rank 0 may listen.
    checkpoint
        Folder of the job's checkpoints.
    samples
        Total after which the job is done, ``None``: no end.
    report
        Host and port of the agent's ear.
    token
        The job's secret; ranks may use it to recognise one another.
    """

    job: str
    generation: int
    rank: int
    nodes: tuple[str, ...]
    rendezvous: tuple[str, int]
    checkpoint: Path
    samples: int | None
    report: tuple[str, int]
    token: str
    report_every_s: float

    @property
    def world_size(self) -> int:
        """How many ranks there are."""
        return len(self.nodes)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Assignment:
        """Read the assignment that the agent put into the environment.

        Raises
        ------
        NotHarvested
            If a variable is missing or not what it should be.
        """
        name = ""
        try:
            values = {}
            for name in ("JOB", "GENERATION", "RANK", "NODES", "RENDEZVOUS", "CHECKPOINT", "REPORT"):
                values[name] = environment[f"APPORTION_{name}"]
            samples = environment.get("APPORTION_SAMPLES")
            return cls(
                job=values["JOB"],
                generation=int(values["GENERATION"]),
                rank=int(values["RANK"]),
                nodes=tuple(values["NODES"].split(",")),
                rendezvous=_host_and_port(values["RENDEZVOUS"]),
                checkpoint=Path(values["CHECKPOINT"]),
                samples=None if samples is None else int(samples),
                report=_host_and_port(values["REPORT"]),
                token=environment["APPORTION_REPORT_TOKEN"],
                report_every_s=float(environment.get("APPORTION_REPORT_EVERY_S", "1")),
            )
        except KeyError as error:
            raise NotHarvested(f"{error.args[0]} is not set: start this with `apportion submit`") from None
        except ValueError as error:
            raise NotHarvested(f"the APPORTION_ variables are not what they should be: {error}") from None


class StopSignal:
    """SIGTERM as something that can be waited for; made by the main thread, as early as possible."""

    def __init__(self) -> None:
        self.requested = False
        self._reading, self._writing = socket.socketpair()
        self._reading.setblocking(False)
        self._writing.setblocking(False)
        signal.signal(signal.SIGTERM, self._come)

    def check(self) -> None:
        """Raise `Stopped` if SIGTERM has come."""
        if self.requested:
            raise Stopped

    def wait(self, readers: Sequence[socket.socket], timeout_s: float) -> list[socket.socket]:
        """Wait until one of `readers` has something to read, at most so long; return those that have.

        Raises
        ------
        Stopped
            If SIGTERM comes, or has come.
        """
        self.check()
        ready, _, _ = select.select([self._reading, *readers], [], [], max(0.0, timeout_s))
        self.check()
        return [one for one in ready if one is not self._reading]

    def ignore(self) -> None:
        """Be deaf from now on: for a process that ends by itself and wants to keep its exit code."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def _come(self, number: int, frame: object) -> None:
        self.requested = True
        with contextlib.suppress(OSError):
            self._writing.send(b"x")


class Reporter:
    """Lines to the agent; a trainer never fails because nobody listens.

    Parameters
    ----------
    assignment
        Where to report and with which token.
    """

    def __init__(self, assignment: Assignment) -> None:
        self._assignment = assignment
        self._socket: socket.socket | None = None
        self._said_s = -math.inf

    def due(self) -> bool:
        """Whether it is time for another line."""
        return time.monotonic() >= self._said_s + self._assignment.report_every_s

    def say(
        self,
        samples: int,
        step: int = 0,
        durable: int | None = None,
        rate: float | None = None,
        loss: float | None = None,
        done: bool = False,
    ) -> bool:
        """Send a line now; return whether the agent took it."""
        self._said_s = time.monotonic()
        line: dict[str, object] = {"token": self._assignment.token, "samples": samples, "step": step}
        if durable is not None:
            line["durable"] = durable
        if rate is not None and math.isfinite(rate):
            line["rate"] = rate
        if loss is not None and math.isfinite(loss):
            line["loss"] = loss
        if done:
            line["done"] = True
        data = json.dumps(line).encode() + b"\n"
        for _ in range(2):  # a connection the agent has closed shows when it is written to
            try:
                if self._socket is None:
                    self._socket = socket.create_connection(self._assignment.report, timeout=1.0)
                self._socket.sendall(data)
                return True
            except OSError:
                self.close()
        return False

    def close(self) -> None:
        """Close the connection."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _host_and_port(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)
