"""The bodies of the service's requests and answers, what it refuses, and what it allows its callers."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from apportion.core.errors import ApportionError, InvalidInstance
from apportion.service.applying import Deltas, RequestId, Seconds
from apportion.service.record import DecisionSummary

__all__ = [
    "Busy",
    "ChangeSession",
    "ChangedSession",
    "Conflict",
    "Gone",
    "Late",
    "Limits",
    "Made",
    "NotAllowed",
    "OpenSession",
    "Refused",
    "Round",
    "SessionSummary",
    "WhatIf",
    "WorkerLost",
    "body_digest",
]


@dataclass(frozen=True, slots=True)
class Limits:
    """What the administrator allows.

    Attributes
    ----------
    sessions
        Sessions that may be open.
    longest_s
        The longest time limit of a decision, seconds.
    grace_s
        Seconds after a decision's time limit at which its worker is killed.
    """

    sessions: int = 256
    longest_s: float = 600.0
    grace_s: float = 1.0

    def check_time_limit(self, time_limit: float) -> None:
        """Raise `InvalidInstance` for a time limit in seconds that is too long here."""
        if time_limit > self.longest_s:
            raise InvalidInstance.at("$.time_limit", f"must be at most {self.longest_s:g} seconds here")


class Busy(ApportionError):
    """Too much is waiting already.

    Attributes
    ----------
    again_s
        Seconds after which to ask again.
    """

    exit_code = 5

    def __init__(self, again_s: float) -> None:
        self.again_s = again_s
        super().__init__(f"all workers are busy and enough waits: ask again in {again_s:.0f} s")


class Late(ApportionError):
    """A deadline has passed."""

    exit_code = 5


class WorkerLost(ApportionError):
    """A worker process has ended by itself, or was killed by somebody else."""


class Conflict(ApportionError):
    """A name or a request id is taken by something else."""

    exit_code = 2


class Gone(ApportionError):
    """The caller has gone away; nobody reads the answer."""

    exit_code = 130


class NotAllowed(ApportionError):
    """The caller has not shown the token."""

    exit_code = 2


class Refused(ApportionError):
    """A worker has found something wrong with what it was asked.

    Attributes
    ----------
    error
        The error object that is passed on.
    """

    def __init__(self, error: dict[str, Any]) -> None:
        self.error = error
        self.exit_code = int(error["exit_code"])
        super().__init__(str(error["message"]))


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
