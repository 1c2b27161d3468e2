"""What the controller and the agents on the nodes say to each other: one JSON object a line.

Every message is validated when it is decoded; an unknown field or type is an error. All of it goes through
the tunnel of `apportion.live.channel.peer`, the agent's `Hello` first.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

__all__ = [
    "AGENT_LINE_LIMIT",
    "CONTROLLER_LINE_LIMIT",
    "STOPPED",
    "VERSION",
    "Acknowledge",
    "AgentMessage",
    "ControllerMessage",
    "Exited",
    "Hello",
    "Leave",
    "Leaving",
    "Progress",
    "Pulse",
    "RankRefused",
    "Ready",
    "Run",
    "Running",
    "Stop",
    "TrainerLine",
    "Welcome",
    "grace_after_lease",
]

AGENT_LINE_LIMIT = 16 * 1024
"""Bytes of a line to the controller, and of a line of a trainer to its agent."""
CONTROLLER_LINE_LIMIT = 1024 * 1024
"""Bytes of a line to an agent."""
VERSION = 2
"""Of these messages; a controller turns away an agent that speaks another one."""
STOPPED = 75
"""Exit code of a trainer that was told to stop, saved its checkpoint and is not done (EX_TEMPFAIL)."""

Id = Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]
Seconds = Annotated[float, msgspec.Meta(ge=0.0, le=1e9)]
Word = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
Secret = Annotated[str, msgspec.Meta(min_length=16, max_length=128)]


class _Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", omit_defaults=True):
    pass


class TrainerLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One report of a trainer to the agent beside it.

    Attributes
    ----------
    token
        The job's token, from ``APPORTION_REPORT_TOKEN``.
    samples
        Samples trained in total since the job's very beginning, those before a restart included.
    step
        Optimiser steps in total.
    durable
        Total of samples at the newest checkpoint that is safely on disk.
    rate
        Samples per second as the trainer sees it; compared with the progress of `samples`, never trusted.
    loss
        Training loss, shown only.
    done
        Whether the job's work is complete.
    """

    token: Secret
    samples: Count
    step: Count = 0
    durable: Count | None = None
    rate: Annotated[float, msgspec.Meta(ge=0.0, le=1e15)] | None = None
    loss: float | None = None
    done: bool = False


class Running(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which rank of which job an agent runs."""

    job: Id
    generation: Count
    rank: Count


class Hello(_Line, frozen=True, tag="hello"):
    """Agent to controller, the first line in the tunnel: who it is, its secret, what it runs.

    Attributes
    ----------
    token
        The pilot's secret.
    host, port
        Address at which peers reach this node, and a port it keeps free there for the next rendezvous.
    """

    pilot: Id
    token: Secret
    host: Word
    port: Port
    node: Word
    running: Running | None = None
    version: Count = VERSION


class Welcome(_Line, frozen=True, tag="welcome"):
    """Controller to agent, its answer to the hello: the times to keep.

    Attributes
    ----------
    lease_s
        An agent that has not heard from its controller for so long stops its ranks and leaves.
    pulse_s
        How often either side says at least something.
    """

    lease_s: Seconds
    pulse_s: Seconds


class Ready(_Line, frozen=True, tag="ready"):
    """Agent to controller: the port now kept free for a rendezvous."""

    port: Port


class Progress(_Line, frozen=True, tag="progress"):
    """Agent to controller: the newest report of the trainer it runs.

    Attributes
    ----------
    elapsed_s
        Seconds since the agent started the trainer, by the agent's clock.
    dropped
        Lines of this trainer thrown away since its start because there were too many, or not valid.
    """

    job: Id
    generation: Count
    rank: Count
    token: Secret
    elapsed_s: Seconds
    samples: Count
    step: Count = 0
    durable: Count | None = None
    rate: Annotated[float, msgspec.Meta(ge=0.0, le=1e15)] | None = None
    loss: float | None = None
    done: bool = False
    dropped: Count = 0


class Exited(_Line, frozen=True, tag="exited"):
    """Agent to controller: a rank has ended; said again until it is acknowledged.

    Attributes
    ----------
    code
        Exit code, minus the signal's number where a signal ended it, as `subprocess` has it; ``None`` where
        the command could not be started at all.
    asked
        Whether the agent had told it to stop.
    last
        The trainer's last report, if there was one.
    tail
        The end of what it printed, or why it could not be started.
    """

    job: Id
    generation: Count
    rank: Count
    token: Secret
    code: int | None
    asked: bool
    last: Progress | None = None
    tail: Annotated[str, msgspec.Meta(max_length=4000)] = ""


class RankRefused(_Line, frozen=True, tag="refused"):
    """Agent to controller: a rank was not started, because another one runs or the agent is leaving."""

    job: Id
    generation: Count
    reason: Annotated[str, msgspec.Meta(max_length=1000)]


class Leaving(_Line, frozen=True, tag="leaving"):
    """Agent to controller: the scheduler wants the node back, or the lease ran out."""

    reason: Annotated[str, msgspec.Meta(max_length=1000)]


class Pulse(_Line, frozen=True, tag="pulse"):
    """Either way: still here.

    Attributes
    ----------
    number
        Agent to controller: counts this agent's pulses.
    echo
        Controller to agent: the last number heard from it. The lease runs from when that pulse was *sent*, so
        that a line held up on its way cannot lengthen it.
    """

    number: Count = 0
    echo: Count = 0


class Run(_Line, frozen=True, tag="run"):
    """Controller to agent: run this rank; told again, it changes nothing.

    Attributes
    ----------
    nodes
        Names of the job's nodes by rank; their number is the world size.
    rendezvous
        ``HOST:PORT`` at which rank 0 waits for the others.
    command
        The argument list; no shell sees it.
    directory
        Where it runs.
    checkpoint
        Folder of the job's checkpoints, the same on every node.
    samples
        Total of samples after which the job is done, if it is to stop there by itself.
    token
        What the trainer puts into its reports, and the agent into what it says of this job.
    """

    job: Id
    generation: Count
    rank: Count
    nodes: tuple[Word, ...]
    rendezvous: Word
    command: tuple[str, ...]
    directory: str
    checkpoint: str
    token: Secret
    samples: Count | None = None
    environment: dict[str, str] = {}
    report_every_s: Seconds = 1.0


class Stop(_Line, frozen=True, tag="stop"):
    """Controller to agent: SIGTERM to the job's ranks, SIGKILL after `grace_s`; told again, harmless."""

    job: Id
    generation: Count
    grace_s: Seconds


class Acknowledge(_Line, frozen=True, tag="acknowledge"):
    """Controller to agent: the end of this rank is on record; it need not be said again."""

    job: Id
    generation: Count


class Leave(_Line, frozen=True, tag="leave"):
    """Controller to agent: stop what runs and end, which ends the pilot."""

    grace_s: Seconds


def grace_after_lease(lease_s: float) -> float:
    """Return how long a rank may take to save and end after its agent's lease; then it is killed."""
    return min(10.0, 0.25 * lease_s)


AgentMessage = Hello | Ready | Progress | Exited | RankRefused | Leaving | Pulse
ControllerMessage = Welcome | Run | Stop | Acknowledge | Leave | Pulse
