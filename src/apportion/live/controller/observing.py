"""What was seen, written into the state: the scheduler's list of pilots, and what agents said."""

from __future__ import annotations

from collections.abc import Collection
from hmac import compare_digest
from typing import Protocol

from apportion.live.channel.messages import AgentMessage, Exited, Leaving, Progress, RankRefused
from apportion.live.cluster import ClusterSeen, PilotState
from apportion.live.controller.advisor import LiveAdvisor
from apportion.live.record.accounts import book
from apportion.live.record.jobs import Job
from apportion.live.record.state import Hold, Pilot, Rank, State

__all__ = ["Note", "hear", "list_pilots", "ranks_without_pilots"]


class Note(Protocol):
    """Writes one line of the controller's journal."""

    def __call__(self, event: str, **fields: object) -> None:
        """Note an event and what is to be told of it."""
        ...


def list_pilots(
    state: State, seen: ClusterSeen, connected: Collection[str], now_s: float, note: Note
) -> list[str]:
    """Bring the pilots on record up to date; return the handles of those that nobody ordered.

    That a pilot has ended, and with it what it ran, is believed at once only where the scheduler says so
    of a node whose daemon answers it. Where that is not so (the node is down, or the scheduler has
    forgotten the pilot) and a rank may be left, the pilot counts as lost: `ranks_without_pilots` says
    when its rank is over. A pilot that the scheduler lists but that is not on record as live is an
    orphan: a controller was killed between asking and noting down, or the answer was lost.
    """
    listed = {pilot.pilot: pilot for pilot in seen.pilots}
    rank_on = state.rank_on()
    for pilot in state.pilots.values():
        if not pilot.live:
            continue
        found = listed.get(pilot.pilot)
        if found is None:
            if pilot.pilot in connected or pilot.pilot in rank_on:
                _lost(pilot, now_s, note)
            elif pilot.lost_s is None:
                _gone(pilot, now_s, note)
            continue
        if found.state is PilotState.ENDED:
            if pilot.node not in seen.sound and pilot.pilot in rank_on:
                _lost(pilot, now_s, note)
            elif pilot.lost_s is None:
                _gone(pilot, now_s, note)
            continue
        pilot.handle = found.handle
        if found.state is PilotState.LOST:
            _lost(pilot, now_s, note)
        elif found.state is PilotState.ENDING:
            if pilot.usable:
                note("node_leaves", node=pilot.node, pilot=pilot.pilot, job=pilot.job)
                pilot.enter(Hold.RELEASING, now_s)
            if pilot.node not in seen.sound and pilot.pilot not in connected:
                _lost(pilot, now_s, note)
        elif found.state is PilotState.RUNNING and pilot.hold is Hold.TAKING:
            pilot.enter(Hold.HELD, now_s)
    orphans = []
    for found in seen.pilots:
        known = state.pilots.get(found.pilot)
        over = found.state in (PilotState.ENDED, PilotState.ENDING)
        if not over and (known is None or not known.live):
            note("orphan", pilot=found.pilot, handle=found.handle, node=found.node)
            orphans.append(found.handle)
    return orphans


def ranks_without_pilots(
    state: State, reached: Collection[str], fence_s: float, now_s: float, note: Note
) -> None:
    """End the ranks whose pilots are gone.

    What a lost pilot ran may go on: that has ended only if its agent says so, or when nothing can have
    renewed its agent's lease for the whole of the lease, its grace and a margin.

    Parameters
    ----------
    reached
        Pilots whose agents were connected now or at the step before: their leases may have been renewed
        until now.
    fence_s
        The lease, the grace after it and a margin.
    """
    rank_on = state.rank_on()
    for pilot in state.pilots.values():
        if not pilot.live or pilot.lost_s is None:
            continue
        if pilot.pilot in reached:
            pilot.lost_s = now_s
        elif pilot.pilot not in rank_on or now_s - pilot.lost_s > fence_s:
            _gone(pilot, now_s, note)
    for rank in state.ranks.values():
        if not rank.live:
            continue
        owner = state.pilots.get(rank.pilot)
        if owner is None or not owner.live:
            rank.end(now_s, departed=True)


def hear(
    state: State, pilot_id: str, message: AgentMessage, advisor: LiveAdvisor, now_s: float, note: Note
) -> Exited | None:
    """Write what an agent said into the state; return an exit to be acknowledged once that is on disk."""
    pilot = state.pilots.get(pilot_id)
    if pilot is None:
        return None
    if isinstance(message, Leaving):
        if pilot.usable:
            note("node_leaves", node=pilot.node, pilot=pilot_id, job=pilot.job, reason=message.reason)
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
            note("refused", job=job.id, node=pilot.node, reason=message.reason)
            rank.end(now_s, departed=not pilot.usable)
            rank.tail = message.reason
        return None
    if not compare_digest(message.token.encode(), job.token.encode()):
        note("wrong_token", job=job.id, node=pilot.node)
        return None
    if isinstance(message, Progress):
        if rank.live:
            _progress(state, job, message, advisor, now_s)
        return None
    _exited(state, job, rank, pilot, message, advisor, now_s, note)
    return message


def _exited(
    state: State,
    job: Job,
    rank: Rank,
    pilot: Pilot,
    message: Exited,
    advisor: LiveAdvisor,
    now_s: float,
    note: Note,
) -> None:
    last = message.last
    if last is not None and last.generation == message.generation and last.job == message.job:
        if rank.live:
            _progress(state, job, last, advisor, now_s)
        elif rank.departed and last.durable is not None and not job.ended:
            job.durable = max(job.durable, min(last.durable, last.samples))
            job.samples = max(job.samples, job.durable)
    if rank.live:
        rank.end(now_s, departed=not pilot.usable and message.code != 0)
        rank.code, rank.asked, rank.tail = message.code, message.asked, message.tail
        note("exited", job=job.id, rank=rank.rank, node=pilot.node, code=message.code, asked=message.asked)


def _progress(state: State, job: Job, line: Progress, advisor: LiveAdvisor, now_s: float) -> None:
    agrees = book(job, line, now_s)
    advisor.progress(job, len(state.ranks_of(job)), line, agrees, now_s)


def _rank(state: State, job: Job, generation: int, pilot: str) -> Rank | None:
    if generation != job.generation:
        return None
    return next((rank for rank in state.ranks_of(job) if rank.pilot == pilot), None)


def _lost(pilot: Pilot, now_s: float, note: Note) -> None:
    if pilot.lost_s is None:
        pilot.lost_s = now_s
        note("node_lost", node=pilot.node, pilot=pilot.pilot, job=pilot.job)
    if pilot.usable:
        pilot.enter(Hold.RELEASING, now_s)


def _gone(pilot: Pilot, now_s: float, note: Note) -> None:
    if pilot.hold is not Hold.RELEASING or pilot.lost_s is not None:
        note("node_gone", node=pilot.node, pilot=pilot.pilot, job=pilot.job)
    else:
        note("released", node=pilot.node, pilot=pilot.pilot)
    pilot.enter(Hold.ENDED, now_s)
