"""The controller's core: its state, and the copy of it that a step works on."""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64encode
from dataclasses import dataclass, field, replace

from apportion.live.channel.messages import Progress
from apportion.live.controller.actions import Event, Lesson, Why
from apportion.live.controller.idle_nodes import IdleNodes
from apportion.live.controller.settings import Limits
from apportion.live.record.jobs import Job
from apportion.live.record.state import State

__all__ = ["Core", "Draft", "Memory", "Said", "recalled"]

Said = tuple[int, int, int, str, float]
"""What an agent was told last: over which connection, job, generation, what, and when."""


@dataclass(slots=True)
class Memory:
    """What is remembered between two steps and lost with the process.

    Attributes
    ----------
    connections
        The number of every agent's connection at the step before.
    idle
        The idle nodes.
    said
        What every agent was told over its connection.
    released
        When the scheduler was last asked to end a pilot, by handle.
    unheard
        Since when the agent of a pilot is not connected.
    decided_s, wake_s
        When was last decided, and when is to be decided again at the latest.
    basis
        What the last decision was made from: as long as it is the same, there is nothing to decide.
    """

    connections: dict[str, int] = field(default_factory=dict)
    idle: IdleNodes = field(default_factory=IdleNodes)
    said: dict[str, Said] = field(default_factory=dict)
    released: dict[str, float] = field(default_factory=dict)
    unheard: dict[str, float] = field(default_factory=dict)
    decided_s: float | None = None
    wake_s: float | None = None
    basis: object = None

    def copy(self) -> Memory:
        """Return a copy that may be changed."""
        return replace(
            self,
            connections=dict(self.connections),
            idle=self.idle.copy(),
            said=dict(self.said),
            released=dict(self.released),
            unheard=dict(self.unheard),
        )


@dataclass(frozen=True, slots=True)
class Core:
    """Everything a step starts from: what is on record, and what this process remembers."""

    state: State
    memory: Memory


def recalled(state: State, now_s: float) -> Core:
    """Return the core of a process that begins with what is on record.

    Whatever waits for a lease begins to wait anew: the process before may have renewed it until a moment ago.
    """
    state = state.copy()
    for pilot in state.pilots.values():
        if pilot.live and pilot.lost_s is not None:
            pilot.lost_s = now_s
    return Core(state, Memory())


@dataclass(slots=True)
class Draft:
    """A copy of the core that one step changes, with what it notes on the way.

    Attributes
    ----------
    now_s
        The time of the step.
    entropy
        As in `Observations`.
    """

    state: State
    memory: Memory
    limits: Limits
    now_s: float
    entropy: bytes = b""
    events: list[Event] = field(default_factory=list)
    lessons: list[Lesson] = field(default_factory=list)

    def note(self, event: str, **heard: object) -> None:
        """Note an event of the journal and what is to be told of it."""
        job = heard.get("job")
        if isinstance(job, int):
            heard["job"] = self.state.jobs[job].id if job in self.state.jobs else None
        self.events.append({"time_s": round(self.now_s, 3), "event": event, **heard})

    def secret(self, of: str) -> str:
        """Return a secret that belongs to something that gets one only once."""
        return urlsafe_b64encode(hmac.digest(self.entropy, of.encode(), "sha256")[:24]).decode()

    def learn(
        self, why: Why, job: Job, count: int = 0, line: Progress | None = None, agrees: bool = True
    ) -> None:
        """Note something to be learnt from."""
        self.lessons.append(Lesson(why, job.copy(), self.now_s, count, line, agrees))
