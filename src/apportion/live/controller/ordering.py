"""What is to be done, by what is on record: take and give back pilots, tell agents to run and to stop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from apportion.live.channel.messages import Leave, Run, Stop
from apportion.live.cluster import AgentSeen
from apportion.live.controller.actions import Release, Take, Tell
from apportion.live.controller.core import Draft
from apportion.live.controller.planned import Planned
from apportion.live.offers import Offer, misfit
from apportion.live.record.jobs import Job, JobState
from apportion.live.record.state import Hold, Pilot, Rank, State

__all__ = ["commands", "give_back", "put_on_record", "releases", "serves"]

_AGAIN_S = 5.0
"""What was asked for and does not happen is asked for again after so long."""


def put_on_record(draft: Draft, planned: Planned) -> list[Take]:
    """Write a decision into the state as who is to run where; return what is to be taken.

    A place that cannot be as it is decided is left out: a node that is not idle or held already, a pilot that
    is given back, a job that has ended, or one that needs more than it would have there.
    """
    state, memory = draft.state, draft.memory
    free = Counter(memory.idle.free(draft.now_s))
    offers = dict(memory.idle.offers)
    held = sum(pilot.live for pilot in state.pilots.values())
    most = draft.limits.max_nodes
    new = []
    for place in planned.places:
        job = None if place.job is None else state.jobs.get(place.job)
        number = None if job is None or job.ended else job.number
        pilot = None if place.pilot is None else state.pilots.get(place.pilot)
        if place.pilot is None:
            offer = offers.get(place.node)
            full = most is not None and held >= most
            if job is None or number is None or full or not free[place.node] or not _fits(offer, job):
                continue
            share = None if offer is None else offer.share(job.spec, free[place.node])
            if offer is not None and not offer.has(share):
                continue
            secret = draft.secret(f"pilot/{state.next_pilot}")
            type = "" if offer is None else offer.size.type
            pilot = state.new_pilot(place.node, secret, draft.now_s, number, share, type)
            if offer is not None:
                offers[place.node] = offer.without(share)
            free[place.node] -= 1
            held += 1
            draft.note("take", node=pilot.node, pilot=pilot.pilot, job=number)
            new.append(Take(pilot.node, pilot.pilot, pilot.token, share))
        elif pilot is not None and pilot.usable:
            _serve(draft, pilot, job, place.back)
    return new


def _serve(draft: Draft, pilot: Pilot, job: Job | None, back: bool) -> None:
    """Let a pilot serve a job, or none; one that is to be given back serves none."""
    offer = draft.memory.idle.offers.get(pilot.node)
    if job is not None and (job.ended or back):
        job = None
    if job is not None and not serves(pilot, job, offer):
        return
    number = None if job is None else job.number
    if pilot.job != number:
        pilot.job = number
        pilot.free_s = draft.now_s if number is None else None
    if back and pilot.pilot not in draft.state.rank_on():
        draft.note(
            "release", node=pilot.node, pilot=pilot.pilot, why="a job needs a larger share of its node"
        )
        pilot.enter(Hold.RELEASING, draft.now_s)


def serves(pilot: Pilot, job: Job, offer: Offer | None) -> bool:
    """Return whether a rank of a job has what it needs where a pilot is."""
    if not job.spec.runs_on(pilot.type):
        return False
    return pilot.share.serves(job.spec) if pilot.share is not None else _fits(offer, job)


def _fits(offer: Offer | None, job: Job) -> bool:
    """Return whether a node whose size may be known could hold a rank of a job."""
    return offer is None or misfit(job.spec, [offer.size]) is None


def give_back(draft: Draft, agents: Mapping[str, AgentSeen]) -> None:
    """Write down which pilots are to be given back."""
    state, limits, now_s = draft.state, draft.limits, draft.now_s
    rank_on = state.rank_on()
    for pilot in state.pilots.values():
        if not pilot.usable:
            draft.memory.unheard.pop(pilot.pilot, None)
            continue
        if pilot.pilot in agents:
            draft.memory.unheard.pop(pilot.pilot, None)
        why = _reason(draft, pilot, rank_on.get(pilot.pilot), agents)
        if why is not None:
            draft.note("release", node=pilot.node, pilot=pilot.pilot, why=why)
            pilot.enter(Hold.RELEASING, now_s)
    for job in state.jobs.values():
        late_s = limits.grace_s + limits.overdue_s
        if job.state is JobState.STOPPING and now_s - job.changed_s > late_s:
            for rank in state.ranks_of(job):
                owner = state.pilots.get(rank.pilot)
                if rank.live and owner is not None and owner.usable:
                    draft.note("release", node=owner.node, pilot=owner.pilot, why="its rank does not end")
                    owner.enter(Hold.RELEASING, now_s)


def _reason(draft: Draft, pilot: Pilot, rank: Rank | None, agents: Mapping[str, AgentSeen]) -> str | None:
    state, limits, now_s = draft.state, draft.limits, draft.now_s
    asked = pilot.hold is Hold.TAKING and pilot.handle is not None
    if asked and now_s - pilot.since_s > limits.pending_s:
        return "it did not start in time"
    if pilot.pilot not in agents and pilot.hold is Hold.HELD:
        since_s = draft.memory.unheard.setdefault(pilot.pilot, now_s)
        if now_s - since_s > (limits.connect_s if rank is None else limits.lease_s):
            return "its agent is not heard of"
    if rank is None and pilot.job is None:
        free_s = pilot.since_s if pilot.free_s is None else pilot.free_s
        if state.draining or now_s - free_s >= limits.linger_s:
            return "drained" if state.draining else "no job needs it"
    return None


def commands(draft: Draft, agents: Mapping[str, AgentSeen]) -> list[Tell]:
    """Return what agents are to be told: once over every connection, to stop until it is done."""
    state, memory, now_s = draft.state, draft.memory, draft.now_s
    told = []
    memory.said = {pilot: said for pilot, said in memory.said.items() if pilot in agents}
    ranks_of = state.by_job()
    for job in state.jobs.values():
        if job.state not in (JobState.RUNNING, JobState.STOPPING):
            continue
        ranks = ranks_of.get(job.number, [])
        verb = "run" if job.state is JobState.RUNNING else "stop"
        for rank in ranks:
            agent = agents.get(rank.pilot)
            if not rank.live or agent is None:
                continue
            said = (agent.connection, job.number, job.generation, verb)
            before = memory.said.get(rank.pilot)
            # a stop that was lost on its way is lost for good: nothing else ends a rank whose pilot the
            # scheduler has forgotten; a run that was lost shows as a job that makes no progress
            again = verb == "stop" and before is not None and now_s - before[4] >= _AGAIN_S
            if before is not None and before[:4] == said and not again:
                continue
            stop = Stop(job.id, job.generation, draft.limits.grace_s)
            told.append(Tell(rank.pilot, _run(state, job, rank, ranks) if verb == "run" else stop))
            memory.said[rank.pilot] = (*said, now_s)
    rank_on = state.rank_on()
    for pilot in state.pilots.values():  # the scheduler has given these up, and ends them no more
        if pilot.live and pilot.lost_s is not None and pilot.pilot not in rank_on and pilot.pilot in agents:
            told.append(Tell(pilot.pilot, Leave(draft.limits.grace_s)))
    return told


def releases(draft: Draft, orphans: Sequence[str]) -> list[Release]:
    """Return which pilots the scheduler is to be asked to end, orphans first."""
    pilots, memory = draft.state.pilots.values(), draft.memory
    handles = [
        pilot.handle
        for pilot in pilots
        if pilot.hold is Hold.RELEASING and pilot.handle is not None and pilot.lost_s is None
    ]
    known = {pilot.handle for pilot in pilots if pilot.live} | set(orphans)
    memory.released = {handle: at_s for handle, at_s in memory.released.items() if handle in known}
    due = [
        handle
        for handle in dict.fromkeys([*orphans, *handles])
        if draft.now_s - memory.released.get(handle, -_AGAIN_S) >= _AGAIN_S
    ]
    return [Release(handle) for handle in due]


def _run(state: State, job: Job, rank: Rank, ranks: Sequence[Rank]) -> Run:
    spec = job.spec
    return Run(
        job=job.id,
        generation=job.generation,
        rank=rank.rank,
        nodes=tuple(state.pilots[other.pilot].node for other in ranks),
        rendezvous=job.rendezvous,
        command=spec.command,
        directory=spec.directory,
        checkpoint=spec.checkpoint,
        token=job.token,
        samples=spec.samples,
        environment=spec.environment,
    )
