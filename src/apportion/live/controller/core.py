"""The controller's core: its state, its limits, and the copy of the state that a step works on.

The state has which nodes are idle, since when, and which of them the scheduler does not give.
"""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType

from apportion.core.errors import InvalidOption
from apportion.live.channel.messages import Progress
from apportion.live.controller.actions import Event, Idle, Observation, Why
from apportion.live.offers import NodeOffer
from apportion.live.record.jobs import Job
from apportion.live.record.state import State

__all__ = ["Core", "Draft", "IdleNodes", "Limits", "Memory", "Said", "recalled"]


_LEAST = MappingProxyType(
    {"trainers": 1, "max_nodes": 1, "failures": 1, "interval_s": 0.05, "measure_s": 0.1, "lease_s": 1}
)
"""Least values of limits that may not be 0."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Times in seconds, and counts.

    Attributes
    ----------
    interval_s
        The scheduler is looked at so often at least.
    gap_s
        Least time between two decisions, so that what happens together is decided together.
    grace_s
        A trainer that was told to stop is killed after this time.
    overdue_s
        A pilot whose ranks have not ended so long after that is ended by the scheduler.
    lease_s
        An agent that hears nothing for so long stops its ranks and ends; so does a controller with an agent.
    connect_s
        A pilot whose agent has not called within this time is given back.
    pending_s
        A pilot that has not started within this time is given up.
    linger_s
        A pilot that serves no job is given back after this time.
    hang_s
        A job whose samples have not risen for so long is restarted; 0: never.
    finish_s
        When one rank has ended well, the others may take so long.
    trainers
        Most jobs that share the idle nodes at a time.
    max_nodes
        Most nodes held at a time, ``None`` for no limit.
    failures
        A job that failed so often in a row, with no newer checkpoint in between, is given up.
    horizon_s
        Forward-looking time: how long nodes are expected to stay as they are.
    stall_s
        Rescale cost assumed of a job before any was measured.
    warm_up_s, measure_s
        Of the profiling advisor.
    """

    interval_s: float = 2.0
    gap_s: float = 1.0
    grace_s: float = 30.0
    overdue_s: float = 15.0
    lease_s: float = 120.0
    connect_s: float = 60.0
    pending_s: float = 15.0
    linger_s: float = 10.0
    hang_s: float = 600.0
    finish_s: float = 60.0
    trainers: int = 10
    max_nodes: int | None = None
    failures: int = 3
    stall_s: float = 15.0
    horizon_s: float = 120.0
    warm_up_s: float = 5.0
    measure_s: float = 20.0

    def __post_init__(self) -> None:
        for setting in fields(self):
            value = getattr(self, setting.name)
            if value is None and setting.name == "max_nodes":
                continue
            low = _LEAST.get(setting.name, 0)
            if not low <= value < 1e9:
                raise InvalidOption(f"{setting.name} must be from {low} to 1e9, not {value}")


_AVOIDED_S = 30.0


class IdleNodes:
    """What is remembered of nodes between two looks at the scheduler.

    Attributes
    ----------
    departed_after_s
        For every node that left since this was last emptied, how long it had been idle.
    offers
        What nodes have, what pilots have been asked for and not yet given left out.
    wanted_s
        When others are expected to want a node.
    """

    def __init__(self) -> None:
        self.departed_after_s: list[float] = []
        self.offers: Mapping[str, NodeOffer] = {}
        self.wanted_s: Mapping[str, float] = {}
        self._since: dict[str, float] = {}
        self._names: tuple[str, ...] = ()
        self._avoided: dict[str, float] = {}
        self._now_s = 0.0

    def copy(self) -> IdleNodes:
        """Return a copy that may be changed."""
        made = IdleNodes()
        made.departed_after_s = list(self.departed_after_s)
        made._since, made._avoided = dict(self._since), dict(self._avoided)
        made._names, made._now_s, made.offers = self._names, self._now_s, self.offers
        made.wanted_s = self.wanted_s
        return made

    def saw(
        self,
        ours: Iterable[str],
        free: Iterable[str],
        now_s: float,
        offers: Mapping[str, NodeOffer],
        wanted_s: Mapping[str, float],
    ) -> None:
        """Take in a look: nodes idle or held, those free, what they have, and when others want them."""
        present, self.offers, self.wanted_s = set(ours), offers, wanted_s
        for node in [node for node in self._since if node not in present]:
            self.departed_after_s.append(max(now_s - self._since.pop(node), 0.0))
        for node in present:
            self._since.setdefault(node, now_s)
        self._names, self._now_s = tuple(free), now_s

    def avoid(self, node: str, now_s: float) -> None:
        """Leave a node alone for a while: the scheduler did not give it."""
        self._avoided[node] = now_s + _AVOIDED_S

    def free(self, now_s: float) -> tuple[str, ...]:
        """Return the idle nodes that may be taken, once for every unit."""
        return tuple(node for node in self._names if self._avoided.get(node, now_s) <= now_s)

    def known(self, now_s: float) -> Idle:
        """Return what a decision is told of all this."""
        departed_after_s = tuple(self.departed_after_s)
        return Idle(self.free(now_s), self.since_s, departed_after_s, self.offers, self.wanted_s)

    def since_s(self, node: str) -> float:
        """Return when a node became idle, as far as it was seen."""
        return self._since.get(node, self._now_s)


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
    lessons: list[Observation] = field(default_factory=list)

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
        self.lessons.append(Observation(why, job.copy(), self.now_s, count, line, agrees))
