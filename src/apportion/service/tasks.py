"""What a worker process is asked and what it answers: msgpack frames over a pair of sockets."""

from __future__ import annotations

import struct
from typing import Any

import msgspec

__all__ = [
    "Answer",
    "Better",
    "Compare",
    "Decide",
    "Decided",
    "Explain",
    "Failed",
    "Said",
    "Stale",
    "Task",
    "decode_answer",
    "decode_task",
    "frame",
    "size_of",
]

_HEAD = struct.Struct(">I")
HEAD_BYTES = _HEAD.size


class Decide(msgspec.Struct, tag="decide", frozen=True):
    """Decide the instance of a session at a revision.

    Attributes
    ----------
    session, revision
        Which one.
    since
        The revision that `deltas` start from, which the worker still holds; ``None`` with an instance.
    instance, deltas
        The instance as JSON, or a JSON array of what changed since.
    policy, time_limit, gap, seed, proof
        As in `apportion.Session.decide`.
    """

    session: str
    revision: int
    since: int | None
    instance: bytes | None
    deltas: bytes
    policy: str | None
    time_limit: float
    gap: float
    seed: int
    proof: bool


class Compare(msgspec.Struct, tag="compare", frozen=True):
    """Compare the plans of an instance before and after deltas."""

    instance: bytes
    deltas: bytes
    time_limit: float


class Explain(msgspec.Struct, tag="explain", frozen=True):
    """Explain the plan of a stored document, of one job or of all."""

    instance: bytes
    document: bytes
    job: str | None
    option: str | None
    time_limit: float


class Better(msgspec.Struct, tag="better", frozen=True):
    """A plan on the way: the stored document of what is known by now."""

    document: bytes


class Decided(msgspec.Struct, tag="decided", frozen=True):
    """The stored document of a decision, and its proof."""

    document: bytes
    proof: bytes | None


class Said(msgspec.Struct, tag="said", frozen=True):
    """An explanation or a comparison as JSON."""

    body: bytes


class Stale(msgspec.Struct, tag="stale", frozen=True):
    """The worker does not hold the revision that the deltas start from."""


class Failed(msgspec.Struct, tag="failed", frozen=True):
    """What was asked cannot be done; `error` is the error object that is passed on."""

    error: dict[str, Any]


Task = Decide | Compare | Explain
Answer = Better | Decided | Said | Stale | Failed

_ENCODER = msgspec.msgpack.Encoder()
_TASKS: msgspec.msgpack.Decoder[Task] = msgspec.msgpack.Decoder(Task)
_ANSWERS: msgspec.msgpack.Decoder[Answer] = msgspec.msgpack.Decoder(Answer)


def frame(message: Task | Answer) -> bytes:
    """Return a message behind its length."""
    body = _ENCODER.encode(message)
    return _HEAD.pack(len(body)) + body


def size_of(head: bytes) -> int:
    """Return the length that stands in a head."""
    (size,) = _HEAD.unpack(head)
    return int(size)


def decode_task(body: bytes) -> Task:
    """Return the task in a frame."""
    return _TASKS.decode(body)


def decode_answer(body: bytes) -> Answer:
    """Return the answer in a frame."""
    return _ANSWERS.decode(body)
