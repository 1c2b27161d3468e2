"""What users ask of a controller: files in a private folder, each renamed into place whole.

A controller is the only writer of its state; ``submit``, ``cancel`` and ``drain`` leave a request that it
takes up at its next step, or when it is started. A request is removed only after what it asks is on record,
and taking it up twice is harmless: a job's id is chosen by whoever submits it.

The queue, as people and programs are told of it.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from apportion.core.errors import InvalidInstance, Problem
from apportion.core.files import write_whole
from apportion.live.record.jobs import JOB_ID, Job, JobSpec
from apportion.live.record.state import State
from apportion.live.record.store import read_state

__all__ = [
    "Cancel",
    "Drain",
    "Request",
    "Submit",
    "apply",
    "leave",
    "listing",
    "new_id",
    "state_as_asked",
    "waiting",
    "with_requests",
]


_LIMIT = 2**20
_FOLDER, _REJECTED = "requests", "rejected"
_DIGITS = 20
_NAME = re.compile(rf"[0-9]{{{_DIGITS}}}-.*\.json\Z")
_ALPHABET = "23456789abcdefghjkmnpqrstuvwxyz"


class Submit(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="submit", tag_field="type"):
    """Put a job into the queue."""

    id: str
    submitted_s: float
    spec: JobSpec

    def __post_init__(self) -> None:
        if not JOB_ID.match(self.id):
            raise InvalidInstance(Problem("$.id", f"is no id of a job: {self.id[:40]!r}"))


class Cancel(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="cancel", tag_field="type"):
    """Stop a job, with a checkpoint, and forget about running it."""

    id: str


class Drain(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="drain", tag_field="type"):
    """Stop every job, with a checkpoint, give all nodes back, and end the controller."""


Request = Submit | Cancel | Drain


@dataclass(frozen=True, slots=True)
class Waiting:
    """A request that waits, with its file."""

    path: Path
    request: Request

    def remove(self) -> None:
        """Remove the file: what it asks is on record, and taking it up once more is harmless."""
        with contextlib.suppress(OSError):
            self.path.unlink()


def new_id() -> str:
    """Return an id for a new job."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(7))


def leave(folder: Path, request: Request) -> Path:
    """Leave a request for the controller of a state folder.

    It comes after all that wait, also where the wall's clock was set back since they were left.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    spool = folder / _FOLDER
    spool.mkdir(mode=0o700, exist_ok=True)
    newest = max(
        (int(other.name[:_DIGITS]) for other in spool.iterdir() if _NAME.match(other.name)), default=0
    )
    number = max(time.time_ns(), newest + 1)
    path = spool / f"{number:0{_DIGITS}d}-{secrets.token_hex(4)}.json"
    write_whole(path, msgspec.json.encode(request))
    path.chmod(0o600)
    return path


def waiting(folder: Path) -> tuple[list[Waiting], list[Problem]]:
    """Return the requests that wait, oldest first, and what is wrong with others, which are put aside."""
    spool = folder / _FOLDER
    found: list[Waiting] = []
    problems: list[Problem] = []
    if not spool.is_dir():
        return found, problems
    for path in sorted(spool.glob("[0-9]*.json")):
        try:
            found.append(Waiting(path, _decoded(path)))
        except FileNotFoundError:
            continue
        except (msgspec.DecodeError, InvalidInstance, OSError, UnicodeDecodeError) as error:
            problems.append(Problem(path.name, f"is no valid request: {error}"))
    return found, problems


def put_aside(folder: Path, problems: list[Problem]) -> None:
    """Move files that are no valid requests out of the way, as far as the disk lets."""
    aside = folder / _FOLDER / _REJECTED
    for problem in problems:
        with contextlib.suppress(OSError):
            aside.mkdir(mode=0o700, exist_ok=True)
            os.replace(folder / _FOLDER / problem.path, aside / problem.path)  # noqa: PTH105


def apply(state: State, request: Request, now_s: float) -> str:
    """Take a request up; return what came of it in one line."""
    if isinstance(request, Drain):
        state.draining = True
        return "draining: every job stops with a checkpoint, all nodes are given back"
    known = state.job(request.id)
    if isinstance(request, Submit):
        if known is None:
            number = max(state.jobs, default=0) + 1
            state.jobs[number] = Job(number, request.id, request.spec, request.submitted_s, changed_s=now_s)
        return f"job {request.id} is in the queue"
    if known is None:
        return f"there is no job {request.id} to cancel"
    if not known.ended:
        known.cancel = True
    return f"job {request.id} is to be cancelled"


def _decoded(path: Path) -> Request:
    status = path.stat()
    if status.st_uid != os.getuid():
        raise InvalidInstance(Problem("$", "belongs to another user"))
    if status.st_size > _LIMIT:
        raise InvalidInstance(Problem("$", f"is larger than {_LIMIT:,} bytes"))
    request: Request = msgspec.json.decode(path.read_bytes(), type=Submit | Cancel | Drain)
    return request


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
        "allowed_counts": list(job.spec.allowed_counts),
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
