"""What callers send and get: the bodies of the service's requests and answers."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from apportion.record import DecisionSummary
from apportion.session.asking import Deltas, RequestId, Seconds

__all__ = [
    "ChangeSession",
    "ChangedSession",
    "Made",
    "OpenSession",
    "Round",
    "SessionSummary",
    "WhatIf",
    "body_digest",
]

Name = Annotated[
    str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", description="letters, digits, . _ -")
]


class OpenSession(Struct, frozen=True, forbid_unknown_fields=True):
    """Open a session.

    Attributes
    ----------
    name
        Its name; letters, digits, dots, dashes and underscores.
    instance
        The instance that it begins with, as it stands in a file.
    request
        An id; asked again with it, the session is opened once, whatever has become of it since.
    """

    name: Name
    instance: dict[str, Any]
    request: RequestId | None = None


class ChangeSession(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Change the instance of a session: all deltas, or none of them.

    Attributes
    ----------
    deltas
        What changes.
    request
        An id; asked again with it, the same change is made once.
    """

    deltas: Deltas
    request: RequestId | None = None


class WhatIf(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the plan of a decision would have been with some changes; nothing is changed."""

    deltas: Deltas
    time_limit: Seconds = 20.0


class SessionSummary(Struct, frozen=True, kw_only=True):
    """A session that is open."""

    name: str
    revision: int
    kind: str
    jobs: int
    created_s: float
    asked_by: str
    capacities: dict[str, int]
    decision: int | None


class ChangedSession(Struct, frozen=True, kw_only=True):
    """The revision that a change has led to."""

    session: str
    revision: int


class Made(Struct, frozen=True, kw_only=True):
    """A decision: what is known of it, and its result as `solve-instance --json` prints it."""

    decision: DecisionSummary
    result: msgspec.Raw


class Round(Struct, frozen=True, kw_only=True):
    """A decision as one point in time: what it was worth, what the capacities cost, who held how much."""

    decision: DecisionSummary
    termination: str
    objective: float | None
    bound: float | None
    gap: float | None
    prices: dict[str, float] | None
    shares: dict[str, str]


def body_digest(message: Struct) -> str:
    """Return the SHA-256 of a message, as hex: equal requests have equal ones."""
    return hashlib.sha256(msgspec.json.encode(message, order="deterministic")).hexdigest()
