"""What one step of the controller is told: everything it can know of the world, and nothing it can ask."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from apportion.live.channel.messages import AgentMessage
from apportion.live.cluster import AgentSeen, ClusterSeen
from apportion.live.controller.actions import Release, Take
from apportion.live.record.jobs import Job, Point
from apportion.live.record.requests import Request

__all__ = ["Learnt", "Observations", "Outcome"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of an action that the scheduler has answered.

    Attributes
    ----------
    handle
        What the scheduler calls a pilot that was taken.
    refused
        Why the scheduler did not do it, ``None`` if it did.
    """

    action: Take | Release
    handle: str | None = None
    refused: str | None = None


@dataclass(frozen=True, slots=True)
class Learnt:
    """What was learnt of a job from its reports, to be put on its record; fields as in `Job`.

    Attributes
    ----------
    type
        Of the nodes that it was learnt on.
    contradictions
        By how many `inconsistent` rises.
    message
        What is worth telling, ``None`` for nothing new.
    """

    job: int
    curve: Mapping[int, Point]
    error: Mapping[int, float]
    up_s: float | None
    down_s: float | None
    contradictions: int = 0
    message: str | None = None
    type: str = ""

    def write(self, job: Job) -> None:
        """Put it on a job's record."""
        job.inconsistent += self.contradictions
        job.up_s, job.down_s = self.up_s, self.down_s
        if job.trusted and job.type == self.type:
            job.curve, job.error = dict(self.curve), dict(self.error)
        if self.message is not None:
            job.message = self.message


@dataclass(frozen=True, slots=True)
class Observations:
    """What was seen and heard since the step before.

    Attributes
    ----------
    entropy
        Random bytes that nobody else knows, fresh for every step: secrets are made from them.
    heard
        What agents said, with their pilots, in the order it arrived.
    agents
        The agents connected now, by pilot.
    cluster
        A look at the scheduler that was begun after the step before had acted, ``None`` if there was none.
    requests
        What users ask; what is not on record yet is asked again.
    problems
        Files that were to be requests and are none.
    outcomes
        What came of the actions of the step before, as far as the scheduler answered.
    learnt
        What was learnt from the reports of the step before.
    knowledge
        Rises with everything learnt that a decision may depend on.
    drain
        Whether all nodes are to be given back, as far as the process was told by a signal.
    """

    entropy: bytes
    heard: tuple[tuple[str, AgentMessage], ...] = ()
    agents: Mapping[str, AgentSeen] = field(default_factory=lambda: MappingProxyType({}))
    cluster: ClusterSeen | None = None
    requests: tuple[Request, ...] = ()
    problems: tuple[str, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    learnt: tuple[Learnt, ...] = ()
    knowledge: int = 0
    drain: bool = False
