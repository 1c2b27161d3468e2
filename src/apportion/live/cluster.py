"""What the controller asks of a scheduler, and of the channel to its agents.

A *pilot* is a one-node job of the scheduler that holds an idle node, or one idle GPU of a node, and runs an
agent on it. Its id is ``INSTANCE-SEQUENCE``: the id of the controller's state folder and a number that is
never used twice, so that a controller that was killed recognises every pilot it ever asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Protocol

from apportion.live.channel.messages import AgentMessage, ControllerMessage, Running
from apportion.live.offers import Offer, Share

__all__ = ["AgentSeen", "Channel", "Cluster", "ClusterSeen", "PilotSeen", "PilotState", "RankSeen"]

RankSeen = Running


class PilotState(Enum):
    """How far a pilot is, as the scheduler sees it."""

    PENDING = "pending"
    RUNNING = "running"
    ENDING = "ending"
    """The scheduler is ending it; processes may be left."""
    ENDED = "ended"
    LOST = "lost"
    """Its node failed: the scheduler has given it up, processes may go on there until their lease ends."""


@dataclass(frozen=True, slots=True)
class PilotSeen:
    """A pilot as the scheduler lists it.

    Attributes
    ----------
    pilot
        Its id, ``INSTANCE-SEQUENCE``.
    handle
        What the scheduler calls it (Slurm: the job id).
    node
        The node it runs on or was asked for, ``None`` if not known.
    """

    pilot: str
    handle: str
    node: str | None
    state: PilotState


@dataclass(frozen=True, slots=True)
class ClusterSeen:
    """One look at the scheduler.

    Attributes
    ----------
    idle
        Names of the nodes that a pilot would get at once; once for every idle GPU where GPUs are taken.
    pilots
        Pilots of this controller's instance, for a while those that have ended as well. One that is not
        listed was never accepted, ended long ago, or was forgotten.
    sound
        Nodes whose daemon answers the scheduler: a pilot that the scheduler says has ended there has left no
        process. On any other node its word proves nothing of what still runs.
    offers
        What every node of the partition has, whether it is idle or not; empty where that is not known.
    wanted_in_s
        In how many seconds others are expected to want a node, where that is known: by a reservation, or
        because a pending job is planned there.
    """

    idle: tuple[str, ...]
    pilots: tuple[PilotSeen, ...]
    sound: frozenset[str] = frozenset()
    offers: Mapping[str, Offer] = field(default_factory=lambda: MappingProxyType({}))
    wanted_in_s: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))


class Cluster(Protocol):
    """A scheduler with idle nodes.

    Every method raises `apportion.live.errors.ClusterUnreachable` if the scheduler does not answer; whether a
    `take` or `release` took effect is then unknown and shows at the next look.
    """

    def look(self) -> ClusterSeen:
        """Return the idle nodes and the pilots of this instance, pilots first."""
        ...

    def take(self, node: str, pilot: str, token: str, share: Share | None = None) -> str:
        """Ask for a pilot on a node and return its handle; without a share it takes the node whole.

        Raises `apportion.live.errors.SchedulerRefused` if the scheduler says no.
        """
        ...

    def release(self, handle: str) -> None:
        """End a pilot; one that has ended already is no error."""
        ...


@dataclass(frozen=True, slots=True)
class AgentSeen:
    """An agent with an open, authenticated connection.

    Attributes
    ----------
    host, port
        Where a rendezvous on its node would be.
    running
        What it said it runs when it connected; `None` for nothing. Not updated by later messages.
    connection
        A number that rises with every new connection of this agent.
    heard_s
        When it was last heard of, by `time.monotonic`.
    """

    host: str
    port: int
    running: RankSeen | None
    connection: int
    heard_s: float


class Channel(Protocol):
    """The controller's end of the connections to its agents."""

    @property
    def address(self) -> str:
        """``HOST:PORT`` that agents connect to."""
        ...

    def expect(self, tokens: Mapping[str, str]) -> None:
        """Set which pilots may connect, with their tokens; connections of others are closed."""
        ...

    def agents(self) -> Mapping[str, AgentSeen]:
        """Return the agents connected now, by pilot."""
        ...

    def send(self, pilot: str, message: ControllerMessage) -> bool:
        """Queue a message without waiting; return whether the agent is connected."""
        ...

    def receive(self, timeout_s: float) -> Sequence[tuple[str, AgentMessage]]:
        """Return what came in since the last call, with its pilot; wait at most so long for the first."""
        ...

    def close(self) -> None:
        """Close every connection and the listening socket."""
        ...
