"""One step of the controller, as a function: the core, observations and the time in; a core and actions out.

It reads no clock, asks nobody and changes nothing it is given: what it returns follows from its arguments. So
it can be played on a model of the world, in any order of faults (`tests/live/model`). Everything that is
to be done follows from what is on record and what is seen: a step whose actions were cut off leaves nothing
that the next one, of whatever process, does not find. Nothing but the scheduler's answer says that a pilot is
gone, and nothing but its agent's word, the pilot's end or the end of its lease says that a rank is.

A job's life on its nodes: start a generation of ranks, stop it, conclude it; never two at once.

A generation runs on a fixed list of nodes. When the nodes a job is to have differ from those it runs on, its
ranks are told to stop, save a checkpoint, and the next generation starts from that; if nodes are added, only
when all of them are ready.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from apportion.cluster.policies.gap_filling_view import InvalidPlan
from apportion.live.channel.messages import STOPPED, Acknowledge, Exited
from apportion.live.cluster import AgentSeen
from apportion.live.controller.actions import Action, Actions, Idle, Planned, Tell, Why
from apportion.live.controller.core import Core, Draft, Limits
from apportion.live.controller.observing import (
    Observations,
    fence_s,
    hear,
    list_pilots,
    outcome,
    ranks_without_pilots,
    see_offers,
)
from apportion.live.controller.placing import commands, give_back, put_on_record, releases
from apportion.live.record import requests
from apportion.live.record.jobs import Job, JobState
from apportion.live.record.state import Hold, Pilot, Rank, State, close_books, open_books

__all__ = ["Planner", "conclude", "resize", "step"]


_FAILED, _UNFINISHED = "a rank failed", "a rank has ended, others have not"
_UNPLANNED = frozenset({"", _FAILED, _UNFINISHED})
"""Why ranks end when nobody wanted them to; planned stops and nodes taken back are no failures."""


def conclude(draft: Draft) -> None:
    """Conclude generations that have ended; tell those to stop that must."""
    state, now_s = draft.state, draft.now_s
    ranks_of = state.by_job()
    for job in state.jobs.values():
        if job.ended:
            continue
        ranks = ranks_of.get(job.number, [])
        live = [rank for rank in ranks if rank.live]
        if job.state is JobState.RUNNING:
            why = _reason_to_stop(draft, job, ranks, live)
            if not live:
                _close(draft, job, ranks)
            elif why is not None:
                _stop(draft, job, why, len(ranks))
        elif job.state is JobState.STOPPING and not live:
            _close(draft, job, ranks)
        if job.cancel and job.state is JobState.QUEUED:
            _free(state, job, now_s)
            job.enter(JobState.CANCELLED, now_s, "cancelled")
            draft.note("cancelled", job=job.id, samples=job.samples)


def resize(draft: Draft, agents: Mapping[str, AgentSeen]) -> None:
    """Stop jobs that are to run elsewhere, and start those whose nodes all have an agent that waits.

    The ranks of a generation are on nodes of one type.

    Beside a pilot that the scheduler has given up or forgotten nothing is started: its rank may go on, and
    the GPU that it uses may have been handed out again.
    """
    state, now_s = draft.state, draft.now_s
    ranks_of, rank_on = state.by_job(), state.rank_on()
    doubtful = _doubtful(state)
    for job in state.jobs.values():
        if job.ended or job.cancel or state.draining:
            continue
        wanted = state.wanted(job)
        able = len({pilot.type for pilot in wanted}) <= 1 and all(
            pilot.hold is Hold.HELD and pilot.pilot in agents and pilot.node not in doubtful
            for pilot in wanted
        )
        if job.state is JobState.RUNNING:
            running = {rank.pilot for rank in ranks_of.get(job.number, [])}
            if able and running != {pilot.pilot for pilot in wanted}:
                draft.learn(Why.STOPPING, job, len(running))
                reason = f"resized from {len(running)} to {len(wanted)} nodes" if wanted else "suspended"
                _stop(draft, job, reason, len(running))
        elif job.state is JobState.QUEUED and able and job.not_before_s <= now_s:
            free = not any(pilot.pilot in rank_on for pilot in wanted)
            if free and job.spec.runs_on_count(len(wanted)):
                _start(draft, job, wanted, agents)


def _doubtful(state: State) -> set[str]:
    """Return the nodes on which a rank may run that the scheduler does not know of."""
    return {pilot.node for pilot in state.pilots.values() if pilot.live and pilot.lost_s is not None}


def _reason_to_stop(draft: Draft, job: Job, ranks: list[Rank], live: list[Rank]) -> str | None:
    state, limits, now_s = draft.state, draft.limits, draft.now_s
    if job.cancel or state.draining:
        return "cancelled" if job.cancel else "drained"
    over = [rank for rank in ranks if not rank.live]
    if any(rank.departed for rank in over):
        return "a node was taken back"
    if any(rank.code != 0 for rank in over):
        return _FAILED
    first_s = min((rank.ended_s for rank in over if rank.ended_s is not None), default=now_s)
    if over and now_s - first_s > limits.finish_s:
        return _UNFINISHED
    hang_s = limits.hang_s
    if live and hang_s and now_s - max(job.heard_s, job.changed_s) > hang_s:
        job.hung = True
        return f"no progress for {hang_s:g} s"
    return None


def _start(draft: Draft, job: Job, wanted: list[Pilot], agents: Mapping[str, AgentSeen]) -> None:
    state, now_s = draft.state, draft.now_s
    for key in [key for key in state.ranks if key[0] == job.number]:
        del state.ranks[key]
    job.generation += 1
    job.go_to(wanted[0].type)
    job.token = draft.secret(f"job/{job.number}/{job.generation}")
    wanted = sorted(wanted, key=lambda pilot: (pilot.since_s, pilot.node))
    first = agents[wanted[0].pilot]
    host = f"[{first.host}]" if ":" in first.host else first.host
    job.rendezvous = f"{host}:{first.port}"
    for number, pilot in enumerate(wanted):
        state.ranks[job.number, job.generation, number] = Rank(
            job.number, job.generation, number, pilot.pilot
        )
    open_books(job, now_s)
    if job.started_s is None:
        job.started_s = now_s
    job.enter(JobState.RUNNING, now_s)
    nodes = [pilot.node for pilot in wanted]
    draft.note("started", job=job.id, generation=job.generation, nodes=nodes, samples=job.durable)


def _stop(draft: Draft, job: Job, why: str, count: int) -> None:
    hung = job.hung
    if not why.startswith("resized"):
        draft.learn(Why.INTERRUPTED, job)
    job.enter(JobState.STOPPING, draft.now_s)
    job.why, job.hung = why, hung
    draft.note("stopping", job=job.id, generation=job.generation, nodes=count, why=why)


def _close(draft: Draft, job: Job, ranks: list[Rank]) -> None:
    """Conclude a generation all of whose ranks have ended."""
    state, now_s = draft.state, draft.now_s
    job.restarts += 1
    codes = [rank.code for rank in ranks]
    reporter = next((rank for rank in ranks if rank.rank == job.done_rank), None)
    done = all(code == 0 for code in codes) and not any(rank.asked for rank in ranks)
    done = done or (reporter is not None and reporter.code == 0)
    departed = any(rank.departed for rank in ranks)
    stopped = all(code in (0, STOPPED) for code in codes)
    why, hung, tail = job.why, job.hung, next((rank.tail for rank in ranks if rank.tail), "")
    failed = hung or (not departed and why in _UNPLANNED)
    if done:
        samples = job.samples
        close_books(job, stopped=True)
        job.samples = job.durable = samples
        _free(state, job, now_s)
        job.enter(JobState.DONE, now_s, _early_end(job))
        draft.note("done", job=job.id, samples=job.samples)
        return
    close_books(job, stopped and not departed)
    job.enter(JobState.QUEUED, now_s)
    if job.cancel or not failed:
        draft.note("stopped", job=job.id, samples=job.samples, why=why or "its nodes were taken back")
        return
    job.failures += 1
    job.message = (why if hung else f"exit codes {codes}: {tail}")[:2000]
    _free(state, job, now_s)
    if job.failures >= draft.limits.failures:
        job.enter(JobState.FAILED, now_s)
        draft.note("failed", job=job.id, samples=job.samples, message=job.message)
    else:
        job.not_before_s = now_s + min(2.0 ** min(job.failures, 6), 60.0)
        draft.note("failure", job=job.id, failures=job.failures, message=job.message)


def _early_end(job: Job) -> str | None:
    goal = job.spec.samples
    if goal is None or goal == job.samples:
        return None
    return f"its command ended well after {job.samples} of {goal} samples"


def _free(state: State, job: Job, now_s: float) -> None:
    for pilot in state.wanted(job):
        pilot.job, pilot.free_s = None, now_s


_NEWS_S = 30.0
"""That a node is wanted so much earlier or later is a reason to decide again."""

Planner = Callable[[State, Idle, float, Collection[str]], Planned]
"""Says who is to hold which node, from the state, the idle nodes, the time and the pilots connected.

It may raise `InvalidPlan`. The step relies on nothing it answers: what cannot be is not put on record.
"""


def step(
    core: Core, seen: Observations, now_s: float, limits: Limits, planner: Planner
) -> tuple[Core, Actions]:
    """Take one step.

    Parameters
    ----------
    core
        Where the step before ended, or `apportion.live.controller.core.recalled`; it is not changed.
    seen
        What was seen and heard since.
    now_s
        Seconds of a clock that only goes forward, also from one process to the next.
    limits
        Times and limits.
    planner
        What decides, a function of its arguments; called at most once.

    Returns
    -------
    core, actions
        The new core, to be put on disk before any of the actions is carried out.
    """
    draft = Draft(core.state.copy(), core.memory.copy(), limits, now_s, seen.entropy)
    todo: list[Action] = [
        Tell(pilot, Acknowledge(exit.job, exit.generation)) for pilot, exit in _listen(draft, seen)
    ]
    orphans = _look(draft, seen)
    conclude(draft)
    planned = None if seen.cluster is None else _decide(draft, seen, planner)
    taken = [] if planned is None else put_on_record(draft, planned)
    resize(draft, seen.agents)
    give_back(draft, seen.agents)
    todo += [*commands(draft, seen.agents), *releases(draft, orphans), *taken]
    draft.memory.connections = {pilot: agent.connection for pilot, agent in seen.agents.items()}
    live = [pilot for pilot in draft.state.pilots.values() if pilot.live]
    actions = Actions(
        expect={pilot.pilot: pilot.token for pilot in live},
        todo=tuple(todo),
        lessons=tuple(draft.lessons),
        events=tuple(draft.events),
        planned=planned,
        finished=draft.state.draining and not live,
    )
    return Core(draft.state, draft.memory), actions


def _listen(draft: Draft, seen: Observations) -> list[tuple[str, Exited]]:
    """Write down outcomes, what was learnt, what users and agents say; return exits to be confirmed."""
    state = draft.state
    for came in seen.outcomes:
        outcome(draft, came)
    for updates in seen.updates:
        job = state.jobs.get(updates.job)
        if job is not None and not job.ended:
            updates.write(job)
    for request in seen.requests:
        draft.note("request", told=requests.apply(state, request, draft.now_s))
    for problem in seen.problems:
        draft.note("rejected", problem=problem)
    state.draining = state.draining or seen.drain
    heard = [(pilot, hear(draft, pilot, message)) for pilot, message in seen.heard]
    return [(pilot, exit) for pilot, exit in heard if exit is not None]


def _look(draft: Draft, seen: Observations) -> list[str]:
    """Write down what the scheduler shows, and which ranks are over by that; return orphans' handles."""
    state, orphans = draft.state, []
    if seen.cluster is not None:
        orphans = list_pilots(draft, seen.cluster, seen.agents.keys())
        see_offers(draft, seen.cluster)
    if state.draining:
        for pilot in state.pilots.values():
            if pilot.job is not None:
                pilot.job, pilot.free_s = None, draft.now_s
    # whoever said anything was connected for a moment at least, in which its lease was renewed
    spoke = {pilot for pilot, _ in seen.heard}
    reached = seen.agents.keys() | draft.memory.connections.keys() | spoke
    ranks_without_pilots(draft, reached, fence_s(draft.limits))
    return orphans


def _decide(draft: Draft, seen: Observations, planner: Planner) -> Planned | None:
    """Decide if anything has changed that is decided by."""
    memory, now_s = draft.memory, draft.now_s
    if draft.state.draining:
        return None
    idle = memory.idle.known(now_s)
    basis = _basis(draft.state, idle, seen.knowledge, now_s)
    woken = memory.wake_s is not None and now_s >= memory.wake_s
    if basis == memory.basis and not woken:
        return None
    if memory.decided_s is not None and 0 <= now_s - memory.decided_s < draft.limits.gap_s:
        return None
    try:
        planned = planner(draft.state, idle, now_s, seen.agents.keys())
    except InvalidPlan as error:
        draft.note("invalid_plan", message=str(error))
        memory.basis = basis
        return None
    memory.idle.departed_after_s = []
    memory.decided_s, memory.wake_s = now_s, planned.wake_s
    if planned.changes:
        draft.note("decided", jobs=list(planned.decisions), wake_s=planned.wake_s)
    memory.basis = None if planned.changes else basis
    return planned


def _basis(state: State, idle: Idle, knowledge: int, now_s: float) -> object:
    jobs = tuple(
        (job.number, job.state, job.trusted, job.not_before_s <= now_s)
        for job in state.jobs.values()
        if not job.ended and not job.cancel
    )
    pilots = tuple((pilot.pilot, pilot.job) for pilot in state.pilots.values() if pilot.usable)
    offers = tuple((node, idle.offers.get(node)) for node in sorted(set(idle.names)))
    wanted = tuple(sorted((node, round(at_s / _NEWS_S)) for node, at_s in idle.wanted_s.items()))
    return (tuple(sorted(idle.names)), offers, wanted, jobs, pilots, knowledge)
