"""What was seen, written into the state: the scheduler's list of pilots, and what agents said.

What one step of the controller is told: everything it can know of the world, and nothing it can ask.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from hmac import compare_digest
from types import MappingProxyType

from apportion.live.channel.messages import (
    AgentMessage,
    Exited,
    Leaving,
    Progress,
    RankRefused,
    grace_after_lease,
)
from apportion.live.cluster import AgentSeen, ClusterSeen, PilotState
from apportion.live.controller.actions import Release, Take, Why
from apportion.live.controller.core import Draft, Limits
from apportion.live.offers import free_units, misfit, sizes_of
from apportion.live.record.jobs import Job, JobState, Point
from apportion.live.record.requests import Request
from apportion.live.record.state import Hold, Pilot, Rank, State, book

__all__ = [
    "Observations",
    "Outcome",
    "ProfileUpdate",
    "fence_s",
    "hear",
    "list_pilots",
    "outcome",
    "ranks_without_pilots",
    "see_offers",
]


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
class ProfileUpdate:
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
    updates: tuple[ProfileUpdate, ...] = ()
    knowledge: int = 0
    drain: bool = False


def fence_s(limits: Limits) -> float:
    """Return how long after its agent was last reached a rank may go on: lease, grace and a margin."""
    return limits.lease_s + grace_after_lease(limits.lease_s) + limits.overdue_s


def outcome(draft: Draft, came: Outcome) -> None:
    """Write down what the scheduler answered to an action."""
    action = came.action
    if isinstance(action, Release):
        draft.memory.released[action.handle] = draft.now_s
        return
    pilot = draft.state.pilots.get(action.pilot)
    if pilot is None or not pilot.live:
        return
    if came.refused is None:
        pilot.handle = came.handle
    else:
        draft.note("not_taken", node=pilot.node, pilot=pilot.pilot, message=came.refused)
        pilot.enter(Hold.ENDED, draft.now_s)
        draft.memory.idle.avoid(pilot.node, draft.now_s)


def list_pilots(draft: Draft, seen: ClusterSeen, connected: Collection[str]) -> list[str]:
    """Bring the pilots on record up to date; return the handles of those that nobody ordered.

    That a pilot has ended, and with it what it ran, is believed at once only where the scheduler says so
    of a node whose daemon answers it. Where that is not so (the node is down, or the scheduler has
    forgotten the pilot) and a rank may be left, the pilot counts as lost: `ranks_without_pilots` says
    when its rank is over. A pilot that the scheduler lists but that is not on record as live is an
    orphan: a controller was killed between asking and noting down, or the answer was lost.
    """
    state, now_s = draft.state, draft.now_s
    listed = {pilot.pilot: pilot for pilot in seen.pilots}
    rank_on = state.rank_on()
    for pilot in state.pilots.values():
        if not pilot.live:
            continue
        found = listed.get(pilot.pilot)
        if found is None:
            if pilot.pilot in connected or pilot.pilot in rank_on:
                _lost(draft, pilot)
            elif pilot.lost_s is None:
                _gone(draft, pilot)
            continue
        if found.state is PilotState.ENDED:
            if pilot.node not in seen.sound and pilot.pilot in rank_on:
                _lost(draft, pilot)
            elif pilot.lost_s is None:
                _gone(draft, pilot)
            continue
        pilot.handle = found.handle
        if found.state is PilotState.LOST:
            _lost(draft, pilot)
        elif found.state is PilotState.ENDING:
            if pilot.usable:
                draft.note("node_leaves", node=pilot.node, pilot=pilot.pilot, job=pilot.job)
                pilot.enter(Hold.RELEASING, now_s)
            if pilot.node not in seen.sound and pilot.pilot not in connected:
                _lost(draft, pilot)
        elif found.state is PilotState.RUNNING and pilot.hold is Hold.TAKING:
            pilot.enter(Hold.HELD, now_s)
    orphans = []
    for found in seen.pilots:
        known = state.pilots.get(found.pilot)
        over = found.state in (PilotState.ENDED, PilotState.ENDING)
        if not over and (known is None or not known.live):
            draft.note("orphan", pilot=found.pilot, handle=found.handle, node=found.node)
            orphans.append(found.handle)
    return orphans


def see_offers(draft: Draft, seen: ClusterSeen) -> None:
    """Note what nodes have and what is free of it; jobs that have never run and fit no node are failed."""
    state = draft.state
    live = [pilot for pilot in state.pilots.values() if pilot.live]
    listed = {found.pilot for found in seen.pilots if found.state in (PilotState.RUNNING, PilotState.ENDING)}
    unlisted = [pilot for pilot in live if pilot.pilot not in listed]
    offers = dict(seen.offers)
    for pilot in unlisted:
        if pilot.node in offers:
            offers[pilot.node] = offers[pilot.node].without(pilot.share)
    free = free_units(
        Counter(seen.idle),
        seen.offers,
        Counter(pilot.node for pilot in live),
        Counter(pilot.node for pilot in unlisted),
        frozenset(pilot.node for pilot in live if pilot.lost_s is not None),
    )
    wanted_s = {node: draft.now_s + in_s for node, in_s in seen.wanted_in_s.items()}
    ours = [*seen.idle, *(pilot.node for pilot in live)]
    draft.memory.idle.saw(ours, free, draft.now_s, offers, wanted_s)
    if seen.offers:
        state.sizes = sizes_of(seen.offers.values())
    for job in state.jobs.values():
        problem = misfit(job.spec, state.sizes) if job.state is JobState.QUEUED else None
        if problem is not None and job.generation == 0:
            job.enter(JobState.FAILED, draft.now_s, str(problem))
            draft.note("failed", job=job.id, samples=job.samples, message=str(problem))


def ranks_without_pilots(draft: Draft, reached: Collection[str], fence_s: float) -> None:
    """End the ranks whose pilots are gone.

    What a lost pilot ran may go on: that has ended only if its agent says so, or when nothing can have
    renewed its agent's lease for the whole of the lease, its grace and a margin.

    Parameters
    ----------
    reached
        Pilots whose agents were connected at any moment since the step before: their leases may have been
        renewed until now.
    fence_s
        The lease, the grace after it and a margin.
    """
    state, now_s = draft.state, draft.now_s
    rank_on = state.rank_on()
    for pilot in state.pilots.values():
        if not pilot.live or pilot.lost_s is None:
            continue
        if pilot.pilot in reached:
            pilot.lost_s = now_s
        elif pilot.pilot not in rank_on or now_s - pilot.lost_s > fence_s:
            _gone(draft, pilot)
    for rank in state.ranks.values():
        if not rank.live:
            continue
        owner = state.pilots.get(rank.pilot)
        if owner is None or not owner.live:
            rank.end(now_s, departed=True)


def hear(draft: Draft, pilot_id: str, message: AgentMessage) -> Exited | None:
    """Write what an agent said into the state; return an exit to be acknowledged once that is on disk."""
    state, now_s = draft.state, draft.now_s
    pilot = state.pilots.get(pilot_id)
    if pilot is None:
        return None
    if isinstance(message, Leaving):
        if pilot.usable:
            draft.note("node_leaves", node=pilot.node, pilot=pilot_id, job=pilot.job, reason=message.reason)
            pilot.enter(Hold.RELEASING, now_s)
        return None
    if not isinstance(message, Progress | Exited | RankRefused):
        return None
    job = state.job(message.job)
    rank = None if job is None else _rank(state, job, message.generation, pilot_id)
    if job is None or rank is None:
        return message if isinstance(message, Exited) else None  # long concluded: nothing waits for it
    if isinstance(message, RankRefused):
        if rank.live:
            draft.note("refused", job=job.id, node=pilot.node, reason=message.reason)
            rank.end(now_s, departed=not pilot.usable)
            rank.tail = message.reason
        return None
    if not compare_digest(message.token.encode(), job.token.encode()):
        draft.note("wrong_token", job=job.id, node=pilot.node)
        return None
    if isinstance(message, Progress):
        if rank.live:
            _progress(draft, job, message)
        return None
    _exited(draft, job, rank, pilot, message)
    return message


def _exited(draft: Draft, job: Job, rank: Rank, pilot: Pilot, message: Exited) -> None:
    last = message.last
    if last is not None and last.generation == message.generation and last.job == message.job:
        if rank.live:
            _progress(draft, job, last)
        elif rank.departed and last.durable is not None and not job.ended:
            job.durable = max(job.durable, min(last.durable, last.samples))
            job.samples = max(job.samples, job.durable)
    if rank.live:
        rank.end(draft.now_s, departed=not pilot.usable and message.code != 0)
        rank.code, rank.asked, rank.tail = message.code, message.asked, message.tail
        code, asked = message.code, message.asked
        draft.note("exited", job=job.id, rank=rank.rank, node=pilot.node, code=code, asked=asked)


def _progress(draft: Draft, job: Job, line: Progress) -> None:
    agrees = book(job, line, draft.now_s)
    if line.rank == job.reporter:
        draft.learn(Why.PROGRESS, job, len(draft.state.ranks_of(job)), line, agrees)


def _rank(state: State, job: Job, generation: int, pilot: str) -> Rank | None:
    if generation != job.generation:
        return None
    return next((rank for rank in state.ranks_of(job) if rank.pilot == pilot), None)


def _lost(draft: Draft, pilot: Pilot) -> None:
    if pilot.lost_s is None:
        pilot.lost_s = draft.now_s
        draft.note("node_lost", node=pilot.node, pilot=pilot.pilot, job=pilot.job)
    if pilot.usable:
        pilot.enter(Hold.RELEASING, draft.now_s)


def _gone(draft: Draft, pilot: Pilot) -> None:
    if pilot.hold is not Hold.RELEASING or pilot.lost_s is not None:
        draft.note("node_gone", node=pilot.node, pilot=pilot.pilot, job=pilot.job)
    else:
        draft.note("released", node=pilot.node, pilot=pilot.pilot)
    pilot.enter(Hold.ENDED, draft.now_s)
