"""What one step of the controller wants done, once what it decided is on disk.

Every action is harmless when it is repeated: that is how an action is made good whose outcome was never
learnt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from apportion.live.channel.messages import ControllerMessage, Progress
from apportion.live.offers import NodeOffer, Share
from apportion.live.record.jobs import Job

__all__ = [
    "Action",
    "Actions",
    "Event",
    "Idle",
    "Observation",
    "Place",
    "Planned",
    "Release",
    "Take",
    "Tell",
    "Why",
]


@dataclass(frozen=True, slots=True)
class Idle:
    """The nodes that a decision is about, as the scheduler and the agents show them.

    Attributes
    ----------
    names
        Nodes on which a pilot would get a whole node or a GPU at once, as often as there is one to be had.
    since_s
        When a node of the decision became idle, as far as it was seen.
    departed_after_s
        For every node that left since the last decision, how long it had been idle.
    offers
        What nodes have, as far as that is known; what was asked for and not given yet is left out.
    wanted_s
        When others are expected to want a node, where that is known.
    """

    names: Sequence[str]
    since_s: Callable[[str], float]
    departed_after_s: Sequence[float]
    offers: Mapping[str, NodeOffer] = field(default_factory=lambda: MappingProxyType({}))
    wanted_s: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class Place:
    """What one node, or one GPU of it, is to serve.

    Attributes
    ----------
    pilot
        The pilot that holds it, ``None`` where one is to be taken.
    job
        Number of the job, ``None`` for none.
    back
        Whether the pilot is to be given back at once, so that one with a larger share can take its place.
    """

    node: str
    pilot: str | None
    job: int | None
    back: bool = False


@dataclass(frozen=True, slots=True)
class Planned:
    """A decision about all nodes that can be used.

    Attributes
    ----------
    wake_s
        When is to be decided again at the latest.
    changes
        Whether any node changes hands.
    decisions
        What the journal says of it, a line for every job.
    """

    places: tuple[Place, ...]
    wake_s: float | None = None
    changes: bool = True
    decisions: tuple[dict[str, object], ...] = ()


Event = dict[str, object]
"""A line of the journal."""


@dataclass(frozen=True, slots=True)
class Tell:
    """Send a message to the agent of a pilot."""

    pilot: str
    message: ControllerMessage


@dataclass(frozen=True, slots=True)
class Release:
    """Let the scheduler end the pilot that it knows by this handle."""

    handle: str


@dataclass(frozen=True, slots=True)
class Take:
    """Ask the scheduler for a pilot on a node; never asked twice for the same pilot.

    Attributes
    ----------
    share
        What it asks for beside a GPU, ``None`` for the whole node.
    """

    node: str
    pilot: str
    token: str
    share: Share | None = None


Action = Tell | Release | Take


class Why(StrEnum):
    """What there is to be learnt from."""

    PROGRESS = "progress"
    STOPPING = "stopping"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class Observation:
    """Something that happened to a job from which its scaling may be learnt.

    Attributes
    ----------
    job
        The job's record at that moment.
    count
        On how many nodes it ran.
    line, agrees
        A report, and whether it agreed with those before.
    """

    why: Why
    job: Job
    at_s: float
    count: int = 0
    line: Progress | None = None
    agrees: bool = True


@dataclass(frozen=True, slots=True)
class Actions:
    """What a step came to, besides the new state.

    Attributes
    ----------
    expect
        The pilots whose agents may connect, with their secrets.
    todo
        What is to be done, in this order.
    lessons
        What is to be learnt from; what comes of it is an observation of the next step.
    events
        The journal of the step.
    planned
        The decision, if one was made.
    finished
        Whether all nodes were given back after a drain.
    """

    expect: Mapping[str, str]
    todo: tuple[Action, ...]
    lessons: tuple[Observation, ...]
    events: tuple[Event, ...]
    planned: Planned | None
    finished: bool
