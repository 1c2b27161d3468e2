"""What one step of the controller wants done, once what it decided is on disk.

Every action is harmless when it is repeated: that is how an action is made good whose outcome was never
learnt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from apportion.live.channel.messages import ControllerMessage, Progress
from apportion.live.controller.planned import Planned
from apportion.live.offers import Share
from apportion.live.record.jobs import Job

__all__ = ["Action", "Actions", "Event", "Lesson", "Release", "Take", "Tell", "Why"]

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
class Lesson:
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
    lessons: tuple[Lesson, ...]
    events: tuple[Event, ...]
    planned: Planned | None
    finished: bool
