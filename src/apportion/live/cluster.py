"""What the controller asks of a scheduler, and of the channel to its agents.

A *pilot* is a one-node job of the scheduler that holds an idle node, or one idle GPU of a node, and runs an
agent on it. Its id is ``INSTANCE-SEQUENCE``: the id of the controller's state folder and a number that is
never used twice, so that a controller that was killed recognises every pilot it ever asked for.

A clock that only goes forward: leases are kept by it, because the wall's may be set at any moment.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from apportion.live.agent.watching import clock_s as steady_s
from apportion.live.channel.messages import AgentMessage, ControllerMessage, Running
from apportion.live.offers import NodeOffer, Share

__all__ = [
    "AgentSeen",
    "Channel",
    "Cluster",
    "ClusterSeen",
    "PilotSeen",
    "PilotState",
    "RankSeen",
    "boot_id",
    "continued",
    "steady_s",
]


_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str | None:
    """Return what tells this start of the machine from any other, ``None`` where that is not known."""
    try:
        return _BOOT_ID.read_text().strip() or None
    except OSError:
        return None


def continued(
    boot: str | None,
    ahead_s: float,
    newest_s: float,
    wall: Callable[[], float] = time.time,
    steady: Callable[[], float] = steady_s,
    now_boot: Callable[[], str | None] = boot_id,
) -> tuple[Callable[[], float], str | None, float]:
    """Return a clock that goes on where the one on record stood, with what to put on record of it.

    Within one boot the clock is the record's. After another boot it begins at the wall's time, or at the
    newest time on record if the wall's clock was set back.

    Parameters
    ----------
    boot, ahead_s
        As on record: the boot the clock was made in, and how far it is ahead of `steady`.
    newest_s
        The latest time on record, in seconds of the clock.
    wall, steady, now_boot
        Where the time and the boot come from; tests set them.

    Returns
    -------
    clock, boot, ahead_s
        Seconds that look like the wall's at the first start and then only go forward.
    """
    current = now_boot()
    if boot is None or current is None or boot != current:
        ahead_s = max(wall(), newest_s) - steady()
    return (lambda: ahead_s + steady()), current, ahead_s


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
    offers: Mapping[str, NodeOffer] = field(default_factory=lambda: MappingProxyType({}))
    wanted_in_s: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))


class Cluster(Protocol):
    """A scheduler with idle nodes.

    Every method raises `apportion.core.errors.ClusterUnreachable` if the scheduler does not answer; whether a
    `take` or `release` took effect is then unknown and shows at the next look.
    """

    def look(self) -> ClusterSeen:
        """Return the idle nodes and the pilots of this instance, pilots first."""
        ...

    def take(self, node: str, pilot: str, token: str, share: Share | None = None) -> str:
        """Ask for a pilot on a node and return its handle; without a share it takes the node whole.

        Raises `apportion.core.errors.SchedulerRefused` if the scheduler says no.
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
