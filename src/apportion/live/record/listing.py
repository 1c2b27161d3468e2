"""The queue, as people and programs are told of it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from apportion.live.record.jobs import Job
from apportion.live.record.requests import Cancel, Request, Submit, apply, waiting
from apportion.live.record.state import State
from apportion.live.record.store import read_state

__all__ = ["listing", "state_as_asked", "with_requests"]


def state_as_asked(folder: Path, now_s: float) -> State:
    """Return the state of a folder as it will be when the requests that wait are taken up.

    Requests are read first: one that is taken up in between is in the state then, and not missing from both.
    """
    asked = [item.request for item in waiting(folder)[0]]
    return with_requests(read_state(folder) or State(instance=""), asked, now_s)


def with_requests(state: State, requests: Iterable[Request], now_s: float) -> State:
    """Return a state as it will be when the requests that wait are taken up; `state` is changed."""
    for request in requests:
        if isinstance(request, Submit | Cancel):
            apply(state, request, now_s)
    return state


def listing(state: State) -> list[dict[str, Any]]:
    """Return every job's record as plain objects, in order of submission."""
    return [_record(state, job) for job in state.jobs.values()]


def _record(state: State, job: Job) -> dict[str, Any]:
    running = [rank for rank in state.ranks_of(job) if rank.live]
    return {
        "id": job.id,
        "name": job.spec.name,
        "state": job.state.value,
        "cancelling": job.cancel and not job.ended,
        "command": list(job.spec.command),
        "min_nodes": job.spec.min_nodes,
        "max_nodes": job.spec.max_nodes,
        "type": job.type,
        "cpus_per_rank": job.spec.cpus_per_rank,
        "memory_mib_per_rank": job.spec.memory_mib_per_rank,
        "nodes": [state.pilots[rank.pilot].node for rank in running if rank.pilot in state.pilots],
        "generation": job.generation,
        "restarts": job.restarts,
        "samples": job.samples,
        "durable": job.durable,
        "goal": job.spec.samples,
        "curve": {str(count): point.rate for count, point in sorted(job.curve.items())},
        "error": {str(count): error for count, error in sorted(job.error.items())},
        "up_s": job.up_s,
        "down_s": job.down_s,
        "failures": job.failures,
        "trusted": job.trusted,
        "inconsistent": job.inconsistent,
        "dropped": job.dropped,
        "submitted_s": job.submitted_s,
        "started_s": job.started_s,
        "ended_s": job.ended_s,
        "checkpoint": job.spec.checkpoint,
        "message": job.message,
    }
