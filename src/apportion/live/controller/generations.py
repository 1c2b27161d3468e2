"""A job's life on its nodes: start a generation of ranks, stop it, conclude it; never two at once.

A generation runs on a fixed list of nodes. When the nodes a job is to have differ from those it runs on, its
ranks are told to stop, save a checkpoint, and the next generation starts from that; if nodes are added, only
when all of them are ready.
"""

from __future__ import annotations

from collections.abc import Mapping

from apportion.live.channel.messages import STOPPED
from apportion.live.cluster import AgentSeen
from apportion.live.controller.actions import Why
from apportion.live.controller.core import Draft
from apportion.live.record.accounts import close_books, open_books
from apportion.live.record.jobs import Job, JobState
from apportion.live.record.state import Hold, Pilot, Rank, State

__all__ = ["conclude", "resize"]

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
            fits = job.spec.min_nodes <= len(wanted) <= job.spec.max_nodes
            if fits and not any(pilot.pilot in rank_on for pilot in wanted):
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
